#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents say of the source is so.

The README's first program is the one in examples/first_program, word for word (but for the layout); what documents link to is
there; docs/errors.md explains every code; and each difference from TensorFlow that is listed has a test that bears its ID.
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

documents = [path for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "python/*.md") for path in sorted(root.glob(pattern))]
for document in documents:
    for link in re.findall(r"\]\((?!https://)([^)\s]+)\)", document.read_text()):
        path, _, heading = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (heading and heading not in headings(target.read_text())):
            wrong.append(f"{document.relative_to(root)}: nothing at {link}")

codes = re.findall(r"^    (HS_\w+) = (\d+)", (root / "include/hooksess/status.h").read_text(), re.M)
explained = re.findall(r"^\| `(HS_\w+)` \| (\d+)", (root / "docs/errors.md").read_text(), re.M)
if codes != explained or not codes:
    wrong.append(f"docs/errors.md does not explain the codes of status.h: {sorted(set(codes) ^ set(explained))}")

tests = "".join(path.read_text() for path in (root / "tests").rglob("*.c"))
rows = re.findall(r"^\| ([A-Z]{2}-\d.*?) \|", (root / "docs/tensorflow-differences.md").read_text(), re.M)
for ident in [ident for row in rows for ident in row.split(", ")]:
    if not re.search(rf"\bstatic void (\w+_)?{ident.lower().replace('-', '_')}_", tests):
        wrong.append(f"docs/tensorflow-differences.md: no test bears {ident}")

if wrong or not rows:
    sys.exit("\n".join(wrong) or "docs/tensorflow-differences.md lists nothing")
