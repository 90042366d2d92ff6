#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes only point down: a folder of src/ may include itself, folders on lower floors, and the public headers. Built-in hooks
include base/ alone of the lower ones, for they have no privileges (no_privileges.py). The tool is a program above all floors: it
knows the public headers and its own."""
import pathlib
import re
import sys

FLOORS = {
    "base": 1,
    "backends": 2,
    "backends/tensorflow": 3,
    "formats": 2,
    "checkpoint": 3,
    "summary": 3,
    "threads": 3,
    "hooks": 4,
    "replicas": 4,
    "session": 4,
    "drivers": 5,
    "tool": 6,
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def allowed(folder, included):
    if folder == "tool":
        return "/" not in included and not included.endswith(".pb-c.h")
    target = floor_of(included)
    if folder == "hooks":
        return target in ("hooks", "base")
    if included.endswith(".pb-c.h") and "/" not in included:
        return True  # generated from base/wire
    if target == folder:
        return True
    return target in FLOORS and FLOORS[target] < FLOORS[folder]


def floor_of(path):
    """The folder that a file counts for: a library of its own, or the first of its path."""
    folders = str(path).split("/")
    return "/".join(folders[:2]) if "/".join(folders[:2]) in FLOORS else folders[0]


def main(source):
    wrong = []
    files = sorted(source.rglob("*.[ch]"))
    for path in files:
        folder = floor_of(path.relative_to(source))
        if folder not in FLOORS:
            wrong.append(f"{path}: the folder '{folder}' stands on no floor")
            continue
        for included in INCLUDE.findall(path.read_text()):
            if not allowed(folder, included):
                wrong.append(f'{path}: includes "{included}", which is not below it')
    print("\n".join(wrong) if wrong else f"{len(files)} files include only what is below them")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
