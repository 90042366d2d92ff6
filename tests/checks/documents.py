#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents say of the source is so.

The README's first program is the one in examples/first_program, word for word (but for the layout); what documents link to is
there; docs/install.md lists the build options; and each difference from TensorFlow that is listed has a test that bears its ID.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
wrong = []


def squeeze(text):
    return re.sub(r"\s+", "", text)


def headings(text):
    return {re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text, re.M)}


example = (root / "examples/first_program/first_program.c").read_text()
example = example.split("/* README begins */")[1].split("/* README ends */")[0]
shown = re.search(r"```c\n(.*?)```", (root / "README.md").read_text(), re.S)
if not shown or squeeze(shown[1]) != squeeze(example):
    wrong.append("README.md: its program is not the one in examples/first_program")

documents = (
    "README.md",
    "CHANGELOG.md",
    "docs/abi.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/conventions.md",
    "docs/install.md",
    "examples/adopt/README.md",
    "examples/adopt/cpp/README.md",
    "examples/adopt/jacobi/README.md",
    "examples/adopt/late/README.md",
    "examples/hook_test/README.md",
    "examples/tensorflow/README.md",
    "tests/conformance/deviations.md",
)
for document in (root / name for name in documents):
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        path, _, heading = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (heading and heading not in headings(target.read_text())):
            wrong.append(f"{document.relative_to(root)}: nothing at {link}")

cmake = "".join((root / name).read_text() for name in ("CMakeLists.txt", "cmake/Dependencies.cmake", "src/tensorflow/CMakeLists.txt"))
options = set(re.findall(r"\b(?:option|set|find_program)\((HOOKSESS_\w+)", cmake))
table = (root / "docs/install.md").read_text().split("## Build options")[1]
listed = set(re.findall(r"`(HOOKSESS_\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.M))))
wrong += [f"docs/install.md: the build option {name} is {where}" for names, where in
          ((options - listed, "missing"), (listed - options, "not in CMake")) for name in sorted(names)]

tests = "".join(path.read_text() for path in (root / "tests").rglob("*.c"))
rows = re.findall(r"^\| ([A-Z]{2}-\d.*?) \|", (root / "tests/conformance/deviations.md").read_text(), re.M)
for ident in [ident for row in rows for ident in row.split(", ")]:
    if not re.search(rf"\bstatic void (\w+_)?{ident.lower().replace('-', '_')}_", tests):
        wrong.append(f"tests/conformance/deviations.md: no test bears {ident}")

if wrong or not rows:
    sys.exit("\n".join(wrong) or "tests/conformance/deviations.md lists nothing")
