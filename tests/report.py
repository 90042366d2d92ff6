#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report.py BUILD...: prints the slowest tests of the last ctest in each build folder, and the skipped tests with reasons.

Exits with 1 if all tests of a conformance row were skipped."""
import collections
import pathlib
import re
import sys

SLOWEST = 20
MOST_NAMES = 10  # names of skipped tests per reason; if more were skipped, only their number per entry of ctest
BLOCK = re.compile(r'^\d+/\d+ Test: (\S+)$.*?^Output:\n-+\n(.*?)^<end of output>\nTest time = *([0-9.]+) sec$', re.M | re.S)
C_SKIPPED = re.compile(r"^skipped: (\w+): (.*)$", re.M)
C_PASSED = re.compile(r"^\[       OK \] (\w+)$", re.M)
PYTHON = re.compile(r"""^(\w+) \([\w.]+\)(?:\n.*)? \.\.\. (?:(ok)|skipped ['"](.*)['"])$""", re.M)
ROW = re.compile(r"(?:^|_)([a-z]{2})_(\d+s?)(?=_|$)")


def entries(build):
    """(NAME, OUTPUT, SECONDS) of each entry of ctest."""
    text = (pathlib.Path(build) / "Testing/Temporary/LastTest.log").read_text(errors="replace")
    return [(name, output, float(seconds)) for name, output, seconds in BLOCK.findall(text)]


def outcomes(output):
    """The tests that passed in an entry's output, and (TEST, REASON) for each skipped test."""
    python = PYTHON.findall(output)
    passed = C_PASSED.findall(output) + [test for test, ok, _ in python if ok]
    return passed, C_SKIPPED.findall(output) + [(test, why) for test, ok, why in python if not ok]


def rows(tests):
    return {f"{prefix.upper()}-{number}" for test in tests for prefix, number in ROW.findall(test)}


def main():
    seconds, passed, skipped = [], set(), collections.defaultdict(list)
    for build in map(pathlib.Path, sys.argv[1:]):
        for entry, output, secs in entries(build):
            seconds.append((secs, f"{build.name}: {entry}"))
            ok, not_run = outcomes(output)
            passed.update(ok)
            for test, why in not_run:
                skipped[build.name, why].append((entry, test))

    print(f"\nThe slowest of {len(seconds)} entries, in seconds:")
    for secs, name in sorted(seconds, reverse=True)[:SLOWEST]:
        print(f"{secs:8.1f}  {name}")
    print("\nSkipped tests:" if skipped else "\nNo test was skipped.")
    for (build, why), tests in skipped.items():
        print(f"  {build}: {why}")
        if len(tests) <= MOST_NAMES:
            names = [f"{entry} {test}" for entry, test in tests]
        else:
            names = [f"{entry}: {n} tests" for entry, n in collections.Counter(entry for entry, _ in tests).items()]
        for name in names:
            print(f"    {name}")

    uncovered = rows(test for tests in skipped.values() for _, test in tests) - rows(passed)
    if uncovered:
        print("\nConformance rows that only skipped tests name:", *sorted(uncovered))
    return 1 if uncovered else 0


if __name__ == "__main__":
    sys.exit(main())
