# SPDX-License-Identifier: Apache-2.0
"""The adopted loops of examples/adopt, in C and in C++: their losses are those of the original loops, wherever they are killed."""
import os
import pathlib
import random
import signal
import unittest

import adopt
from adopt import AFTER, kill, run

AFTER_CPP = os.environ["ADOPT_AFTER_CPP"]


class Adopt(adopt.Program, unittest.TestCase):
    def test_only_a_model_that_is_done_is_written(self):
        model = pathlib.Path(self.directory, "parameters")
        for number, at in ((signal.SIGTERM, 50), (signal.SIGKILL, 50)):
            kill(self.after, self.directory, number, at)
            self.assertFalse(model.exists())
        run(self.after, self.directory)
        self.assertEqual(model.read_bytes(), self.model)

    def test_a_completed_training_is_not_repeated(self):
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

    def test_after_sigterm_it_resumes_exactly(self):
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

    def test_after_kill_9_it_resumes_from_its_checkpoint(self):
        first, status = kill(self.after, self.directory, signal.SIGKILL, 1500)
        self.assertEqual(status, -signal.SIGKILL)
        self.assertEqual(first, self.undisturbed[: len(first)])
        second, status = run(self.after, self.directory)
        self.assertEqual(status, 0)
        begun = int(second[0].split()[0]) - 1
        self.assertGreaterEqual(begun, 1000)
        self.assertEqual(begun % 1000, 0)
        self.assertEqual(second, self.undisturbed[begun:])

    def test_killed_repeatedly_it_still_completes(self):
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


class Readme(adopt.Readme, unittest.TestCase):
    most_added = 19


if __name__ == "__main__":
    unittest.main()
