#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions that succeed clear the caller's error. assert_ok, assert_clears and CLEARS check this in the tests. This script checks
that each public function with an error parameter is called within one of the three.

cleared.py INCLUDE TESTS
"""
import pathlib
import re
import sys

include, tests = map(pathlib.Path, sys.argv[1:])
# These functions exist to set an error.
SETTERS = {"hs_error_set", "hs_error_vset", "hs_error_set_errno", "hs_error_prefix", "hs_error_clear", "hs_group_tcp_fail_call"}
calls = "\n".join(path.read_text(errors="replace") for path in sorted(tests.rglob("*.c")))
# The functions that are called in arguments of the three macros.
covered = set()
for arguments in re.findall(r"\b(?:assert_ok|assert_clears|CLEARS)\(([^;]*);", calls):
    covered.update(re.findall(r"\b(hs_\w+)\(", arguments))
missing = []
for header in sorted(include.rglob("*.h")):
    for name, parameters in re.findall(r"^HS_API\s[^;(]*?\b(hs_\w+)\(([^;]*)\)", header.read_text(), re.M):
        if not re.search(r"(?<!const )hs_error \*err\b", parameters) or name in SETTERS:
            continue
        if name not in covered:
            missing.append(f"{header.name}: no test calls {name} with a stale error that it must clear")
print("\n".join(missing))
sys.exit(bool(missing))
