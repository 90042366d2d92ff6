#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tiers.py INCLUDE: checks that the lists in hooksess.h are complete.

Each name in the table of tier 1 is declared in the header that the table names, and hooksess.h includes this header. Each public
header is listed exactly once, with a clause: at its include, or in the list of headers that are not included.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]) / "hooksess"
text = (root / "hooksess.h").read_text()
first, second = text.split(" * Tier 2:")
table = re.findall(r"^ \*   (\w+) +(\S.*?) +(\S+\.h)$", first, re.M)
included = re.findall(r"^#include <hooksess/(\S+)> +/\* \S.* \*/$", second, re.M)
listed = included + re.findall(r"^ \*   (\S+\.hp?p?) +\S", second, re.M)
headers = {str(path.relative_to(root)) for path in root.rglob("*.h*")} - {"hooksess.h", "export.h"}
wrong = []

for name, _, header in table:
    declared = rf"^#define {name}\b|^HS_API [^;]*\b{name}\(|\b{name};$|\(\*{name}\)\(|^ +{name} ="
    if header not in included:
        wrong.append(f"{name}: hooksess.h does not include {header}")
    elif not re.search(declared, re.sub(r"/\*.*?\*/", "", (root / header).read_text(), flags=re.S), re.M):
        wrong.append(f"{name}: not declared in {header}")

rows = first.count("\n *   ")
if len(table) != rows:
    wrong.append(f"tier 1: {rows} rows, of which {len(table)} are a name, a clause and a header")
wrong += [f"{header}: not listed" for header in sorted(headers - set(listed))]
wrong += [f"{header}: listed, but does not exist" for header in sorted(set(listed) - headers)]
wrong += [f"{header}: listed twice" for header in sorted({header for header in listed if listed.count(header) > 1})]

sys.exit("\n".join(wrong) or (0 if table and included else "hooksess.h lists nothing"))
