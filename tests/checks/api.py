#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the tests of rules for all structs and functions are complete.

Each public struct is in one table of tests/checks/test_abi.c: ENDS if it begins with its size, otherwise FROZEN. CMake finds the
structs of ENDS for hs_struct_size; docs/abi.md lists those of FROZEN. tests/checks/test_null.c calls each function that frees or
closes with NULL. Each header with functions has one of three sentences about threads. No long comment cuts a field in two.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
wrong = []


def compare(what, found, expected):
    wrong.extend(f"{what}: {name} is missing" for name in sorted(expected - found))
    wrong.extend(f"{what}: {name} does not belong there" for name in sorted(found - expected))


def names(path, pattern):
    return set(re.findall(pattern, (root / path).read_text()))


grow, frozen, release, by_cmake = set(), set(), set(), set()
for header in sorted((root / "include/hooksess").rglob("*.h")):
    text = header.read_text()
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, first in re.findall(r"\b(?:struct|union) (hs_\w+) \{\s*([^;]*);", code):
        (grow if first.split() == ["size_t", "size"] else frozen).add(name)
    by_cmake |= set(re.findall(r"struct (hs_[a-z0-9_]+) {[ \n]+size_t size", text))
    functions = re.findall(r"HS_API [^;(]*?(hs_\w+)\(", code)
    release |= {name for name in functions if re.search("_(free|close)$", name)}
    lines = re.findall(r"Threads: (?:any thread, at any time|one thread at a time per object|the session's thread only)\.", text)
    if len(lines) != (1 if functions else 0) or len(lines) != text.count("Threads:"):
        wrong.append(f"{header.relative_to(root)}: not one sentence 'Threads: any thread, at any time.', 'Threads: one thread at a time per "
                     "object.' or 'Threads: the session's thread only.'")

    for line in re.findall(r"^    [a-z_][\w ]*(?: =)?$", text, re.M):
        wrong.append(f"{header.relative_to(root)}: '{line.strip()}' is cut from its name: put the comment above it")

compare("tests/checks/test_abi.c, ENDS", names("tests/checks/test_abi.c", r"\bENDS\((hs_\w+),"), grow)
compare("tests/checks/test_abi.c, FROZEN", names("tests/checks/test_abi.c", r"\bFROZEN\((hs_\w+),"), frozen)
compare("the structs that src/CMakeLists.txt finds", by_cmake, grow)
section = (root / "docs/abi.md").read_text().split("## Frozen structs")[1].split("\n## ")[0]
compare("docs/abi.md, Frozen structs", set(re.findall(r"`(hs_\w+)`", section)), frozen)
called = names("tests/checks/test_null.c", r"\b(hs_\w+_(?:free|close))\(")
called |= names("tests/cuda/test_cuda.c", r"\b(hs_cuda_free)\(NULL\)")
called |= names("tests/replicas/mpi_ranks.c", r"\b(hs_mpi_group_free)\(NULL\)")
called |= names("tests/tensorflow/test_open.c", r"\b(hs_tensorflow_free)\(\(hs_backend\){NULL, NULL}\)")
called |= names("tests/tensorflow/test_server.c", r"\b(hs_tensorflow_server_free)\(NULL\)")
compare("tests/checks/test_null.c", called, release)

sys.exit("\n".join(wrong) or 0 if grow and frozen and release else "the headers have nothing")
