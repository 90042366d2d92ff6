#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the documents match the source.

What the guide shows of the first program with an op is in examples/first_program. The difference shown in README.md is a
part of the difference between the programs in examples/adopt. README.md and the pages of the guide do not exceed their limits of
words. Each listed difference from TensorFlow has a test with its ID in the name. docs/errors.md explains every code, and shows
the table of src/session/failure.c.
docs/install.md lists the build options, and the packages of cmake/install-packages.sh. Each line of a log that a header or a document
shows in its text, such as "step 3: 2 steps/s", is in a test or in a console block, which a test compares with the output of a run.
The parts of the messages in docs/errors.md are in the source or in a test. The figures of docs/benchmarks.md are those of
docs/bench/results.jsonl. docs/testing.md counts tests and lines correctly, within 10 %.
"""
import difflib
import json
import pathlib
import re
import sys

WORDS = 900, 1200  # limits for README.md and for a page of the guide
root = pathlib.Path(sys.argv[1])
wrong = []


def squeeze(text):
    return re.sub(r"\s+", "", text)


def blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", (root / document).read_text(), re.S)


example = squeeze((root / "examples/first_program/first_program.c").read_text())
shown = re.findall(r"<!-- frame: first_program \d -->\n```c\n(.*?)```", (root / "docs/guide/your-loop.md").read_text(), re.S)
wrong += [f"docs/guide/your-loop.md: examples/first_program has not '{text}'" for text in shown if squeeze(text) not in example]
wrong += [] if shown else ["docs/guide/your-loop.md shows nothing of examples/first_program"]

before, after = ((root / "examples/adopt" / name).read_text().splitlines() for name in ("before.c", "after.c"))
difference = "\n".join(difflib.unified_diff(before, after, lineterm=""))
shown = blocks("README.md", "diff")
if len(shown) != 1 or shown[0].strip("\n") not in difference:
    wrong.append("README.md: its difference is not that of the programs in examples/adopt")

for document in (root / "README.md", *(root / "docs/guide").glob("*.md")):
    words, most = len(document.read_text().split()), WORDS[document.parent != root]
    if words > most:
        wrong.append(f"{document.relative_to(root)}: {words} words; it may have {most}")

codes = re.findall(r"^    (HS_\w+) = (\d+)", (root / "include/hooksess/status.h").read_text(), re.M)
explained = re.findall(r"^\| `(HS_\w+)` \| (\d+)", (root / "docs/errors.md").read_text(), re.M)
if codes != explained or not codes:
    wrong.append(f"docs/errors.md does not explain the codes of status.h: {sorted(set(codes) ^ set(explained))}")
decisions = re.findall(r"^    \{(HS_\w+), (true|false), (\w+), (\w+)\}", (root / "src/session/failure.c").read_text(), re.M)
meaning = {"HS_OK": "any", "true": "set", "false": "any", "FAIL": "fails", "SKIP": "is skipped", "AS_ON_FAILURE_SAYS": "as `on_failure` says"}
table = (root / "docs/errors.md").read_text().split("| `code` | `os_error` |")[1].split("\n\n")[0].split("\n")[2:]
shown = [tuple(re.sub(r":.*", "", cell) for cell in row.strip("| ").split(" | ")) for row in table]
if shown != [tuple(meaning.get(word, f"`{word}`") for word in row) for row in decisions] or not shown:
    wrong.append(f"docs/errors.md does not show the decisions of src/session/failure.c: {decisions}")
cmake = "".join((root / name).read_text() for name in ("CMakeLists.txt", "cmake/Dependencies.cmake", "src/tensorflow/CMakeLists.txt"))
options = set(re.findall(r"\b(?:option|set|find_program)\((HOOKSESS_\w+)", cmake))
table = (root / "docs/install.md").read_text().split("## Build options")[1]
listed = set(re.findall(r"`(HOOKSESS_\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.M))))
wrong += [f"docs/install.md: the build option {name} is {where}" for names, where in
          ((options - listed, "missing"), (listed - options, "not in CMake")) for name in sorted(names)]

packages = set(re.search(r'^packages="(.*)"$', (root / "cmake/install-packages.sh").read_text(), re.M)[1].split())
shown = set(re.findall(r"[a-z][\w.+-]+", re.sub(r"#.*|sudo|apt-get install -y", "", "".join(blocks("docs/install.md", "text")))))
wrong += [] if shown - {"python3"} == packages else [f"docs/install.md shows other packages than cmake/install-packages.sh: {packages ^ shown}"]

tests = "".join(path.read_text() for path in (root / "tests").rglob("*.c"))
rows = re.findall(r"^\| ([A-Z]{2}-\d.*?) \|", (root / "docs/tensorflow-differences.md").read_text(), re.M)
for ident in [ident for row in rows for ident in row.split(", ")]:
    if not re.search(rf"\bstatic void (\w+_)?{ident.lower().replace('-', '_')}_", tests):
        wrong.append(f"docs/tensorflow-differences.md: no test bears {ident}")

documents = [path for path in root.rglob("*.md") if "build" not in path.relative_to(root).parts]
headers = [comment for path in (root / "include").rglob("*.h*") for comment in re.findall(r"/\*.*?\*/", path.read_text(), re.S)]
in_headers = [re.sub(r"\s*\n \* ?", " ", line) for comment in headers for line in re.findall(r'"([^"]*\bstep \d[^"]*)"', comment)]
in_text = [line for path in documents for part in re.split(r"```.*?```|\n\n|\n\|", path.read_text(), flags=re.S)
           for line in re.findall(r"`([^`]+)`", part) if re.search(r"\bstep \d", line)]
tested = re.sub(r'"\s*"', "", tests).replace("\\n", "\n")
printed = "".join(block for path in documents for block in blocks(path, "console"))
wrong += [f"no test has the line '{line}', which a header or a document shows" for line in in_headers + in_text
          if line.removesuffix("...") not in tested + printed]
wrong += [] if in_headers and in_text else ["no document shows a line of a log"]

messages = re.findall(r"^\| `(.*?)` \|", (root / "docs/errors.md").read_text().split("## Common messages")[1], re.M)
written = tested + re.sub(r'"\s*"', "", "".join(path.read_text() for path in (root / "src").rglob("*.c")))
wrong += [f"docs/errors.md: no source and no test has '{part.strip()}' of the message '{message}'" for message in messages
          for part in re.split(r"\.\.\.|\b[A-Z]+\b|\d+|[;:'()]", message) if len(part.split()) > 1 and part.strip() not in written]
wrong += [] if messages else ["docs/errors.md lists no message"]

results = [json.loads(line) for line in (root / "docs/bench/results.jsonl").read_text().splitlines()]
measured = {f"{scaled:,.{digits}f}" for figure in results for key in ("value", "low", "high") if key in figure
            for scaled in (figure[key], figure[key] * 100, figure[key] * 1000, figure[key] / 1e6) for digits in range(4)} | {"1"}
for row in re.findall(r"^(?:\|.*?\|(?=.*\|$)|(?![|#!]))(.+)$", (root / "docs/benchmarks.md").read_text().split("## Steps")[1], re.M):
    wrong += [f"docs/benchmarks.md: {number} is not in docs/bench/results.jsonl: {row}"
              for number in re.findall(r"(?<![A-Za-z])\d+(?:,\d{3})*(?:\.\d+)?", row) if number not in measured]


def count(expression, files):
    return sum(len(re.findall(expression, path.read_text(), re.M)) for path in (root / "tests").rglob(files))


def lines(*folders):
    return sum(path.read_bytes().count(b"\n") for folder in folders for path in (root / folder).rglob("*.*") if path.suffix != ".pyc")


counted = {r"([\d,]+) test functions in C": count(r"^static void \w+\(void \*\*state\)", "*.c"),
           r"in C, ([\d,]+) in Python": count(r"^    def test_", "*.py"),
           r"([\d,]+) lines of tests": lines("tests"), r"for ([\d,]+) lines of library": lines("src", "include"),
           r"([\d,]+) behaviors of TensorFlow's": len({ident for path in (root / "tests").rglob("*.[cp]*") if path.suffix in (".c", ".py")
               for ident in re.findall(r"(?:bh|ms|sm|sa|cm|tb|co|qr|sv|wr|rc)_\d+s?_", path.read_text())}),
           r"About ([\d,]+) calls": count(r"test_each_(?:allocation|file_call)\(", "*.c")}
for expression, number in counted.items():
    shown = re.search(expression, (root / "docs/testing.md").read_text())
    if not shown or abs(int(shown[1].replace(",", "")) - number) > number / 10:
        wrong.append(f"docs/testing.md: '{shown and shown[0]}' is {number}")

if wrong or not rows:
    sys.exit("\n".join(wrong) or "docs/tensorflow-differences.md lists nothing")
