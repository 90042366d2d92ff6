# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's reader finds the scalars of a training session, also of a session that was killed and resumed."""
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from support import TestCase, finish, run

LAST = 60
POINTS = [1, 11, 21, 31, 41, 51]


class Scalars(TestCase):
    by = []

    def assert_charted(self):
        reader = EventAccumulator(str(self.directory), size_guidance={"scalars": 0}).Reload()
        points = [(event.step, event.value) for event in reader.Scalars("loss")]
        self.assertEqual([step for step, _ in points], POINTS)
        for step, value in points:
            self.assertAlmostEqual(value, 1 / step)
        self.assertEqual(set(reader.Tags()["scalars"]) - {"global_step/sec"}, {"loss"})

    def test_a_run(self):
        run("scalars", self.directory, LAST, *self.by)
        self.assert_charted()

    def test_a_run_that_was_killed(self):
        finish(7, "scalars", self.directory, 44, "dies", *self.by)  # the newest checkpoint is of step 25
        finish(7, "scalars", self.directory, 49, "dies", *self.by)
        run("scalars", self.directory, LAST, *self.by)
        self.assert_charted()


class ScalarsByASummaryOp(Scalars):
    by = ["summary"]


if __name__ == "__main__":
    unittest.main()
