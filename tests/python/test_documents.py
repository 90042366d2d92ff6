# SPDX-License-Identifier: Apache-2.0
"""The Python code in the documents runs."""
import contextlib
import io
import os
import re
import unittest
import warnings

from support import PACKAGE, SOURCE, TestCase, run


class Documents(TestCase):
    def output_of(self, document):
        """Runs the blocks of a document in order, in a directory with a training `run`. Returns their output."""
        run("python/write_run", self.directory / "run", 5)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)
        text, printed = document.read_text(), io.StringIO()
        names = {}
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            for block in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
                lines_before = text.count("\n", 0, block.start(1))
                exec(compile("\n" * lines_before + block[1], document, "exec"), names)
        return printed.getvalue()

    def test_the_readme(self):
        self.assertRegex(self.output_of(PACKAGE / "README.md"), r"^\(2, 3\) 5 0\.2\S*\nStatus\(step=5, ")

    def test_the_guide(self):
        printed = self.output_of(SOURCE / "docs/guide/python.md")
        self.assertIn("['global_step', 'weights']\nTensorInfo(name='weights', dtype='float', shape=(2, 3), bytes=24)\n", printed)
        self.assertIn("3 data set größe 7 (50,)\n", printed)
        self.assertIn("loss 5 0.2", printed)
        self.assertIn("began at step 1\n1 loss scalar 1.0\n", printed)
        self.assertIn("stopped 0 None\n", printed)


if __name__ == "__main__":
    unittest.main()
