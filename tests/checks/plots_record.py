#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plots_record.py ROOT: tests/bench/plots.py stores the output of a benchmark, and draws it. A failure changes nothing."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1])


def plots(docs, *arguments):
    return subprocess.run([sys.executable, root / "tests/bench/plots.py", docs, *arguments], capture_output=True, text=True)


def record(docs, *lines):
    return plots(docs, "record", "events", sys.executable, "-c", f"print({chr(10).join(lines)!r})")


with tempfile.TemporaryDirectory() as directory:
    docs = pathlib.Path(directory) / "docs"
    shutil.copytree(root / "docs", docs)
    results, picture = docs / "bench/results.jsonl", docs / "bench/events.svg"
    before, drawn = results.read_text(), picture.read_text()

    for done in (record(docs, "no figures"), record(docs, '{"name": "other", "value": 1, "unit": "1"}'),
                 plots(docs, "record", "events", "false"), plots(docs, "unknown")):
        assert done.returncode != 0 and results.read_text() == before and picture.read_text() == drawn, done
    assert "lacks the figure 'scalars_over_limit' of the sitting 'events'" in record(docs, "no figures").stderr

    done = record(docs, "a comment", '{"name": "scalars_over_limit", "value": 0.25, "unit": "1"}')
    assert done.returncode == 0, done.stderr
    lines = [line for line in map(json.loads, results.read_text().splitlines()) if line["sitting"] == "events"]
    assert [line.get("value") for line in lines] == [None, 0.25] and lines[0]["command"].startswith(sys.executable), lines
    assert set(before.splitlines()) - set(results.read_text().splitlines()) == {
        line for line in before.splitlines() if json.loads(line)["sitting"] == "events"}
    assert ">4.0<" in picture.read_text() or ">4<" in picture.read_text(), "the plot does not show 1 / 0.25"
    assert plots(docs, "check").returncode == 0

    picture.write_text(drawn)
    assert plots(docs, "check").returncode != 0
