#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's first program is the one in examples/first_program, word for word (but for the layout)."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
example = (root / "examples/first_program/first_program.c").read_text()
example = example.split("/* README begins */")[1].split("/* README ends */")[0]
shown = re.search(r"```c\n(.*?)```", (root / "README.md").read_text(), re.S)
if not shown:
    sys.exit("README.md shows no program")


def squeeze(text):
    return re.sub(r"\s+", "", text)


if squeeze(shown[1]) != squeeze(example):
    sys.exit("the program in README.md is not the one in examples/first_program")
print("README.md shows examples/first_program")
