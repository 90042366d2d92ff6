#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every sample in the comments of the public headers, as C11 and as C++20.

A sample is a paragraph of a comment that is indented by five columns (tables are indented by three). It is compiled inside a
function, after the declarations of samples.h. A part that begins with "#include", "static" or "int main" is compiled outside. A
line "..." stands for omitted code; at the left margin it ends a part.

Arguments: the folder of the headers, and the C and the C++ compiler.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

INDENT = " *     "


def samples(path):
    """The samples of a header: line number and lines."""
    lines, after_blank = [], False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        starts = line.startswith(INDENT) and not line[len(INDENT) :].startswith(" ")
        if lines and (line.startswith(INDENT) or line == " *"):
            lines.append(line[len(INDENT) :].removesuffix(" */"))
        elif starts and after_blank:
            lines = [line[len(INDENT) :]]
            first = number
        elif lines:
            yield first, lines
            lines = []
        after_blank = line in (" *", "/*")


def program(path, number, lines):
    """A source file that has the sample in it."""
    in_file, in_function, part = [], [], []
    for at, line in enumerate(lines + ["..."]):
        if line.startswith("..."):
            outside = len(part) > 1 and re.match(r"#include |static |int main\b", part[1])
            (in_file if outside else in_function).extend(part)
            part = []
        else:
            part = part or [f'#line {number + at} "{path}"']
            part.append("" if line.strip() == "..." else line)
    return "\n".join(
        ['#include "samples.h"', *(["#include <hooksess/hooksess.hpp>"] if path.suffix == ".hpp" else []), *in_file, "int sample(void)", "{", *in_function, "return 0;", "}", ""]
    )


def main():
    include, cc, cxx = sys.argv[1:]
    here = pathlib.Path(__file__).resolve().parent
    flags = ["-Wall", "-Wpedantic", "-Werror", "-Wno-unused", "-fsyntax-only", f"-I{include}", f"-I{here}"]
    n = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        needs_more = {pathlib.Path(include, "hooksess", name) for name in ("torch.hpp", "ggml.h")}  # LibTorch, ggml
        for path in sorted(set(pathlib.Path(include).rglob("*.h*")) - needs_more):
            for number, lines in samples(path):
                n += 1
                source = pathlib.Path(folder, f"sample_{n}.c")
                source.write_text(program(path, number, lines))
                commands = [[cxx, "-x", "c++", "-std=c++20"]]
                if path.suffix == ".h":
                    commands.append([cc, "-std=c11"])
                for command in commands:
                    failed += subprocess.run([*command, *flags, source]).returncode != 0
    print(f"{n} samples")
    return failed > 0 or n == 0


sys.exit(main())
