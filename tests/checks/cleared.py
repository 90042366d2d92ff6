#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A function that succeeds clears the caller's error. assert_ok, assert_clears and CLEARS check it where they are used: here is
whether each public function that takes an error is called within one of them.

cleared.py INCLUDE TESTS
"""
import pathlib
import re
import sys

include, tests = map(pathlib.Path, sys.argv[1:])
# What these do is to set an error.
SETTERS = {"hs_error_set", "hs_error_vset", "hs_error_set_errno", "hs_error_prefix", "hs_error_clear"}
calls = "\n".join(path.read_text(errors="replace") for path in sorted(tests.rglob("*.c")))
# What each of the macros is called with.
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
