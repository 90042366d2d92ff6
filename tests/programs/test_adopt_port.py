# SPDX-License-Identifier: Apache-2.0
"""The adopted programs of examples/adopt/jacobi, cpp and pool: wherever they are killed, they compute the same results as the originals."""
import signal
import unittest

import adopt
from adopt import AFTER, SOURCE, kill, run

# The result file of the programs, the most lines that the adopted one may have more, and the lines after which a signal comes.
RESULT, MOST_ADDED, SIGNAL_AT = {"jacobi": ("grid", 15, 500), "cpp": ("weights", 12, 500), "pool": ("parameters", 32, 90)}[SOURCE.name]


class Port(adopt.Program, unittest.TestCase):
    result = RESULT

    def test_after_sigterm_it_continues_with_the_next_step(self):
        lines = []
        for number in signal.SIGTERM, signal.SIGINT:
            some, status = kill(AFTER, self.directory, number, SIGNAL_AT)
            self.assertEqual(status, 75)
            self.assert_no_result()
            lines += some
        rest, status = run(AFTER, self.directory)
        self.assertEqual((lines + rest, status), (self.undisturbed, 0))
        self.assert_result()

    def test_after_kill_9_it_continues_from_its_last_checkpoint(self):
        for at in SIGNAL_AT, SIGNAL_AT + 1:  # at an odd and an even step, as there are two grids
            lines, status = kill(AFTER, self.directory, signal.SIGKILL, at, save=True)
            self.assertEqual(status, -signal.SIGKILL)
            self.assert_no_result()
        self.assert_continues_to_the_end()

    def test_a_program_that_is_done_computes_nothing_more(self):
        run(AFTER, self.directory)
        self.assertEqual(run(AFTER, self.directory), ([], 0))
        self.assert_result()


class Readme(adopt.Readme, unittest.TestCase):
    most_added = MOST_ADDED


if __name__ == "__main__":
    unittest.main()
