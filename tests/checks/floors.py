#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes only point down: a folder of src/ may include itself, folders on lower floors, and the public headers. Built-in hooks
know only the public headers and what they share. The tool is a program above all floors: it knows the public headers and its own."""
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
# What the hooks share may look further down than the hooks themselves.
SHARED_BY_HOOKS = {
    "line_file.c",
    "line_file.h",
    "make.c",
    "make.h",
    "schedule.c",
    "schedule.h",
    "status_file.c",
    "status_file.h",
}
# Parts of a hook in files of their own, which know as little as the hook.
PARTS_OF_HOOKS = {
    "control_file.h",
    "control_knobs.h",
    "finite_check.h",
    "finite_dump.h",
    "finite_look.h",
    "finite_rollback.h",
    "graph_events.h",
    "heartbeat.h",
    "metrics_board.h",
    "metrics_row.h",
    "progress_line.h",
    "save_listeners.h",
    "save_policy.h",
    "save_time.h",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def allowed(folder, name, included):
    if folder == "tool":
        return "/" not in included and not included.endswith(".pb-c.h")
    if included.endswith(".pb-c.h") and "/" not in included:
        return True  # generated from base/wire
    target = floor_of(included)
    if target == folder:
        return folder != "hooks" or name in SHARED_BY_HOOKS or pathlib.Path(included).name in SHARED_BY_HOOKS | PARTS_OF_HOOKS
    if folder == "hooks" and name not in SHARED_BY_HOOKS:
        return False
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
            if not allowed(folder, path.name, included):
                wrong.append(f'{path}: includes "{included}", which is not below it')
    print("\n".join(wrong) if wrong else f"{len(files)} files include only what is below them")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
