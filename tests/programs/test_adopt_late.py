# SPDX-License-Identifier: Apache-2.0
"""The adopted loop of examples/adopt/late, whose moments come late: its losses are those of the loop before, wherever it is killed."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ["ADOPT_SOURCE"])
BEFORE, AFTER, TOOL = os.environ["ADOPT_BEFORE"], os.environ["ADOPT_AFTER"], os.environ["HOOKSESS_TOOL"]
DATA = "/usr/share/datasets/fashion-mnist"
MOST_ADDED = 22


def run(program, directory):
    """All lines that it prints, and its exit status."""
    done = subprocess.run([program], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.stdout.splitlines(), done.returncode


@unittest.skipUnless(os.path.isdir(DATA), "the data set is not installed (Debian: dataset-fashion-mnist)")
class Late(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            cls.undisturbed, status = run(BEFORE, directory)
            cls.model = pathlib.Path(directory, "parameters").read_bytes()
        assert status == 0 and len(cls.undisturbed) == 300

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def stop_after(self, number, step):
        """Sends it a signal when a checkpoint of that step is there. Its exit status."""
        with subprocess.Popen([AFTER], cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not os.path.exists(f"{self.directory}/run/model.ckpt-{step}.index"):
                time.sleep(0.001)
            process.send_signal(number)
        return process.returncode

    def assert_continues_to_the_end(self):
        lines, status = run(AFTER, self.directory)
        self.assertEqual(status, 0)
        self.assertEqual(lines, self.undisturbed[-len(lines):])
        self.assertLess(len(lines), len(self.undisturbed))
        self.assertEqual(pathlib.Path(self.directory, "parameters").read_bytes(), self.model)

    def test_the_losses_are_those_of_before(self):
        self.assertEqual(run(AFTER, self.directory), (self.undisturbed, 0))

    def test_after_kill_9(self):
        for step in 100, 200:
            self.assertEqual(self.stop_after(signal.SIGKILL, step), -signal.SIGKILL)
        self.assert_continues_to_the_end()

    def test_after_sigterm(self):
        self.assertEqual(self.stop_after(signal.SIGTERM, 100), 75)
        self.assertFalse(os.path.exists(f"{self.directory}/parameters"))
        self.assert_continues_to_the_end()

    @unittest.skipUnless(TOOL, "the tool is not built")
    def test_it_resumes_exactly(self):
        done = subprocess.run([TOOL, "verify-resume", AFTER], cwd=self.directory, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.directory), [])


class Readme(unittest.TestCase):
    def test_it_shows_the_difference(self):
        shown = re.search(r"```diff\n(.*?)```", (SOURCE / "README.md").read_text(), re.S)[1]
        diff = subprocess.run(
            ["diff", "-u", "--label", "before.c", "--label", "after.c", "before.c", "after.c"],
            cwd=SOURCE, stdout=subprocess.PIPE, text=True,
        ).stdout
        self.assertEqual(shown, diff)
        added = [line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
        self.assertLessEqual(len(added), MOST_ADDED)


if __name__ == "__main__":
    unittest.main()
