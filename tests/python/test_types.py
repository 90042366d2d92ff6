# SPDX-License-Identifier: Apache-2.0
"""mypy --strict accepts the package, and finds wrong uses of it."""
import subprocess
import sys
import unittest

from support import PACKAGE, TestCase

RIGHT = """
import hooksess
import numpy

with hooksess.Checkpoint("run") as checkpoint:
    weights = checkpoint.read("weights", numpy.s_[0:2, 0])
    total: float = float(weights.sum())
loss = hooksess.scalars("run", "loss")
last: int = int(loss.step[-1])
dtype: numpy.dtype = hooksess.Checkpoint("run").info("weights").dtype
for event in hooksess.events("run"):
    first: float | None = event.values[0].scalar
status = hooksess.status("run")
if status is not None:
    step: int = status.step
"""
WRONG = """
import hooksess

step: str = hooksess.status("run").step
"""


class Types(TestCase):
    def check(self, *arguments):
        return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.directory / "cache", *arguments],
                              capture_output=True, text=True, timeout=300, cwd=PACKAGE)

    def test_the_package_and_its_users_are_typed(self):
        right, wrong = self.directory / "right.py", self.directory / "wrong.py"
        right.write_text(RIGHT)
        wrong.write_text(WRONG)
        done = self.check("hooksess", right)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.check(wrong)
        self.assertEqual(done.stdout.count(": error: "), 2, done.stdout + done.stderr)
        self.assertIn('Item "None" of "Status | None" has no attribute "step"', done.stdout)


if __name__ == "__main__":
    unittest.main()
