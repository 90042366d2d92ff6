# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of adopted programs: the programs before and after print the same lines and write the same result."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["ADOPT_SOURCE"])
BEFORE, AFTER, TOOL = (os.environ[name] for name in ("ADOPT_BEFORE", "ADOPT_AFTER", "HOOKSESS_TOOL"))

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for background jobs


def run(program, directory):
    """Returns the lines that the program prints, and its exit status."""
    done = subprocess.run([program], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.stdout.splitlines(), done.returncode


def checkpoints(directory):
    return sorted(pathlib.Path(directory, "run").glob("model.ckpt-*.index"))


def kill(program, directory, number, at, save=False):
    """Runs the program until it has printed `at` lines, and sends it the signal `number`. As its pipe is small, it waits until its
    output is read, so the signal comes during the training. `save`: SIGUSR1 makes it save before. Returns the complete lines
    that were printed, and the exit status."""
    process = subprocess.Popen(
        [program], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, pipesize=4096)
    lines = [process.stdout.readline() for _ in range(at)]
    if save:
        saved = checkpoints(directory)
        process.send_signal(signal.SIGUSR1)
        while checkpoints(directory) == saved and lines[-1]:
            lines.append(process.stdout.readline())
    process.send_signal(number)
    lines += process.stdout.readlines()
    process.stdout.close()
    return [line.strip() for line in lines if line.endswith("\n")], process.wait()


class Program:
    """The tests of each pair of programs."""
    after = AFTER
    result = "parameters"

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            cls.undisturbed, status = run(BEFORE, directory)
            cls.model = pathlib.Path(directory, cls.result).read_bytes()
        assert status == 0 and len(cls.undisturbed) >= 300

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def assert_result(self):
        self.assertEqual(pathlib.Path(self.directory, self.result).read_bytes(), self.model)

    def assert_no_result(self):
        self.assertFalse(os.path.exists(os.path.join(self.directory, self.result)))

    def assert_continues_to_the_end(self):
        """The program must not start again from the beginning."""
        lines, status = run(self.after, self.directory)
        self.assertEqual(status, 0)
        self.assertEqual(lines, self.undisturbed[-len(lines):])
        self.assertLess(len(lines), len(self.undisturbed))
        self.assert_result()

    def test_it_computes_the_same_as_before(self):
        self.assertEqual(run(self.after, self.directory), (self.undisturbed, 0))
        self.assert_result()

    @unittest.skipUnless(TOOL, "the tool is not built")
    def test_it_resumes_exactly(self):
        done = subprocess.run([TOOL, "verify-resume", self.after], cwd=self.directory, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.directory), [])


class Readme:
    """Prints the difference, which must have at most `most_added` more lines."""

    def test_it_shows_the_difference(self):
        readme = (SOURCE / "README.md").read_text()
        before, after = ("before.cpp", "after.cpp") if (SOURCE / "before.cpp").exists() else ("before.c", "after.c")
        shown = re.search(r"```diff\n(.*?)```", readme, re.S)[1]
        diff = subprocess.run(["diff", "-u", "--label", before, "--label", after, before, after],
                              cwd=SOURCE, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(shown, diff)
        added = [line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
        self.assertLessEqual(len(added), self.most_added)
        self.assertIn(f"adds {len(added)} lines", readme)
        if SOURCE.name != "adopt":
            self.assertRegex((SOURCE.parent / "README.md").read_text(),
                             rf"\n\| \[{SOURCE.name}\]\({SOURCE.name}\) \|.*\| {len(added)} \|\n")
