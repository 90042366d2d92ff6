# SPDX-License-Identifier: Apache-2.0
"""The adopted loops of examples/adopt, in C and in C++: their losses are those of the loop before, wherever they are killed."""
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["ADOPT_SOURCE"])
BEFORE, AFTER, AFTER_CPP = (os.environ[f"ADOPT_{name}"] for name in ("BEFORE", "AFTER", "AFTER_CPP"))
MOST_ADDED = 19

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts a job in the background has it ignored


def run(program, directory):
    """All lines that it prints, and its exit status."""
    done = subprocess.run([program], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.stdout.splitlines(), done.returncode


def kill(program, directory, number, at):
    """Runs it until it has printed so many lines, and kills it, in the middle: it waits for us to read what it has printed, as
    the pipe takes little. The lines that got out, whole, and its exit status."""
    process = subprocess.Popen(
        [program], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, pipesize=4096)
    lines = [process.stdout.readline() for _ in range(at)]
    process.send_signal(number)
    lines += process.stdout.readlines()
    process.stdout.close()
    return [line.strip() for line in lines if line.endswith("\n")], process.wait()


class Adopt(unittest.TestCase):
    after = AFTER

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            cls.undisturbed, status = run(BEFORE, directory)
            cls.model = pathlib.Path(directory, "parameters").read_bytes()
        assert status == 0 and len(cls.undisturbed) > 1000

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def test_the_losses_are_those_of_before(self):
        self.assertEqual(run(self.after, self.directory), (self.undisturbed, 0))

    def test_only_a_model_that_is_done_is_written(self):
        model = pathlib.Path(self.directory, "parameters")
        for number, at in ((signal.SIGTERM, 50), (signal.SIGKILL, 50)):
            kill(self.after, self.directory, number, at)
            self.assertFalse(model.exists())
        run(self.after, self.directory)
        self.assertEqual(model.read_bytes(), self.model)

    def test_what_is_done_is_not_done_again(self):
        run(self.after, self.directory)
        self.assertEqual(run(self.after, self.directory), ([], 0))

    def test_checkpoints_and_event_files_are_there(self):
        run(self.after, self.directory)
        names = os.listdir(os.path.join(self.directory, "run"))
        last = len(self.undisturbed)
        self.assertIn(f"model.ckpt-{last}.index", names)
        events = [name for name in names if "tfevents" in name]
        written = b"".join(pathlib.Path(self.directory, "run", name).read_bytes() for name in events)
        self.assertEqual(written.count(b"\x0a\x04loss\x15"), last // 100)  # a tag and, behind it, a number

    def test_after_sigterm_it_goes_on_as_if_nothing_had_been(self):
        first, status = kill(self.after, self.directory, signal.SIGTERM, 50)
        self.assertEqual(status, 75)
        self.assertGreaterEqual(len(first), 50)
        self.assertLess(len(first), len(self.undisturbed))
        second, status = run(self.after, self.directory)
        self.assertEqual(status, 0)
        self.assertEqual(first + second, self.undisturbed)

    def test_three_signals_later_too(self):
        lines = []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            some, status = kill(self.after, self.directory, number, 20)
            self.assertEqual(status, 75)
            lines += some
        rest, status = run(self.after, self.directory)
        self.assertEqual((lines + rest, status), (self.undisturbed, 0))

    def test_after_kill_9_it_goes_on_from_its_checkpoint(self):
        first, status = kill(self.after, self.directory, signal.SIGKILL, 1500)
        self.assertEqual(status, -signal.SIGKILL)
        self.assertEqual(first, self.undisturbed[: len(first)])
        second, status = run(self.after, self.directory)
        self.assertEqual(status, 0)
        begun = int(second[0].split()[0]) - 1
        self.assertGreaterEqual(begun, 1000)
        self.assertEqual(begun % 1000, 0)
        self.assertEqual(second, self.undisturbed[begun:])

    def test_killed_again_and_again_it_comes_to_its_end(self):
        random_numbers = random.Random(7)
        for _ in range(6):
            lines, status = kill(self.after, self.directory, signal.SIGKILL, random_numbers.randrange(1, 1200))
            self.assertEqual(status, -signal.SIGKILL)
            begun = int(lines[0].split()[0]) - 1
            self.assertEqual(lines, self.undisturbed[begun : begun + len(lines)])
        self.assertEqual(run(self.after, self.directory)[0][-1], self.undisturbed[-1])

    def test_what_cannot_be_opened_has_no_steps(self):
        pathlib.Path(self.directory, "run").write_text("in the way")
        self.assertEqual(run(self.after, self.directory), ([], 1))
        self.assertEqual(os.listdir(self.directory), ["run"])


class AdoptCpp(Adopt):
    after = AFTER_CPP

    def test_it_continues_from_a_checkpoint_of_the_program_in_c(self):
        first, status = kill(AFTER, self.directory, signal.SIGTERM, 50)
        self.assertEqual(status, 75)
        second, status = run(AFTER_CPP, self.directory)
        self.assertEqual((first + second, status), (self.undisturbed, 0))


class Readme(unittest.TestCase):
    def test_it_shows_the_difference(self):
        readme = (SOURCE / "README.md").read_text()
        shown = re.search(r"```diff\n(.*?)```", readme, re.S)[1]
        diff = subprocess.run(
            ["diff", "-u", "--label", "before.c", "--label", "after.c", "before.c", "after.c"],
            cwd=SOURCE, stdout=subprocess.PIPE, text=True,
        ).stdout
        self.assertEqual(shown, diff)
        added = [line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
        self.assertLessEqual(len(added), MOST_ADDED)
        self.assertIn(f"{len(added)} lines more", readme)


if __name__ == "__main__":
    unittest.main()
