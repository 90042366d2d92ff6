# SPDX-License-Identifier: Apache-2.0
"""The Python code in the documents runs, and prints what they show.

HOOKSESS_PICTURE=PATH: writes the picture of the guide to PATH.
"""
import contextlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import unittest
import warnings

import hooksess
from support import BUILD, PACKAGE, SOURCE, TIMEOUT, TestCase, run

sys.path.insert(0, str(SOURCE / "tests/interop"))
import pictures  # noqa: E402: the path comes first

GUIDE = SOURCE / "docs/guide/python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
OPTIONAL = {"plt": "matplotlib", "pd": "pandas"}  # names in blocks, and their modules


class Documents(TestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)
        os.environ["MPLBACKEND"] = "Agg"

    def run_blocks(self, document):
        """Runs the blocks of a document in order. The text block that follows one is its output. Returns the missing modules."""
        text, names, missing = document.read_text(), {}, set()
        blocks = list(BLOCK.finditer(text))
        self.assertEqual(len(blocks), text.count("```python"))
        for block in blocks:
            lacks = {module for name, module in OPTIONAL.items() if re.search(rf"\b{name}\b", block[1]) and not importlib.util.find_spec(module)}
            if lacks:
                missing |= lacks
                continue
            lines_before, printed = text.count("\n", 0, block.start(1)), io.StringIO()
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("error")
                exec("import hooksess\nimport numpy as np", names)  # which a block that is left out may import
                exec(compile("\n" * lines_before + block[1], document, "exec"), names)
            if block[2] is not None:
                self.assertEqual(printed.getvalue(), block[2], f"{document.name}:{lines_before + 1}")
        return missing

    def test_the_readme(self):
        run("python/write_run", self.directory / "run", 5)
        self.assertEqual(self.run_blocks(PACKAGE / "README.md"), set())

    def test_the_guide(self):
        """With the run of the README, and a short one of the trainer."""
        subprocess.run([BUILD / "examples/adopt/adopt_after"], check=True, capture_output=True, timeout=TIMEOUT)
        data = self.directory / "data"
        data.mkdir()
        for part in "train", "t10k":
            pictures.write(data, part, 200)
        (written,) = re.findall(r"model=\$root/(\S+)", (SOURCE / "examples/run").read_text())
        subprocess.run([BUILD / "examples/trainer/trainer", "--data", data, "--model-dir", written, "--max-steps", "20", "--hidden",
                        "8", "--eval-steps", "10", "--histogram-steps", "10"], check=True, capture_output=True, timeout=TIMEOUT)
        values = [value for event in hooksess.events(written) for value in event.values]
        self.assertLessEqual({"histogram", "image", "tensor"}, {value.kind for value in values})
        for value in values:
            if value.kind == "tensor":
                self.assertEqual(value.tensor().shape, value.shape)
        missing = self.run_blocks(GUIDE)
        if not missing:
            self.look_at(self.directory / "run.png")
        if missing:
            self.skipTest(f"the blocks that need {', '.join(sorted(missing))} were not run")

    def look_at(self, drawn):
        """The picture in the guide is that of the run. Fonts may differ."""
        from matplotlib.image import imread

        if path := os.environ.get("HOOKSESS_PICTURE"):
            shutil.copy(drawn, path)
        found, shown = imread(drawn), imread(GUIDE.parent / "python.png")
        self.assertEqual(found.shape, shown.shape)
        self.assertLess(float(abs(found - shown).mean()), 0.02)


if __name__ == "__main__":
    unittest.main()
