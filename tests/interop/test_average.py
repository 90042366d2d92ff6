# SPDX-License-Identifier: Apache-2.0
"""The averages of moving_average equal those of TensorFlow's ExponentialMovingAverage."""
import unittest

from support import TestCase, run, tensorflow, tf

STEPS = 12
VARIABLES = {"layer/weights": tensorflow.float32, "scale": tensorflow.float64}


class Averages(TestCase):
    def checkpoint(self, step):
        return tf.train.load_checkpoint(self.path(f"model.ckpt-{step}"))

    def variables(self):
        first = self.checkpoint(0)
        return {name: tf.get_variable(name, dtype=dtype, use_resource=True, initializer=first.get_tensor(name))
                for name, dtype in VARIABLES.items()}

    def follow(self, decay, ramp):
        """TensorFlow makes the same averages of the same variables, bit for bit."""
        run("average", self.directory, decay, int(ramp), STEPS)
        with tf.Graph().as_default(), tf.Session() as session:
            made = self.variables()
            step = tf.placeholder(tensorflow.int64, [])
            averages = tf.train.ExponentialMovingAverage(decay, step if ramp else None)
            update = averages.apply(list(made.values()))
            session.run(tf.global_variables_initializer())
            for number in range(1, STEPS + 1):
                checkpoint = self.checkpoint(number)
                for name, variable in made.items():
                    variable.load(checkpoint.get_tensor(name), session)
                session.run(update, {step: number})
                for name, variable in made.items():
                    with self.subTest(step=number, variable=name):
                        theirs = session.run(averages.average(variable))
                        ours = checkpoint.get_tensor(averages.average_name(variable))
                        self.assertEqual(ours.dtype, theirs.dtype)
                        self.assertEqual(ours.tobytes(), theirs.tobytes())

    def test_the_averages_are_tensorflows(self):
        self.follow(0.9, False)

    def test_the_averages_with_a_ramp_are_tensorflows(self):
        self.follow(0.999, True)

    def test_a_saver_restores_the_averages_as_the_variables(self):
        run("average", self.directory, 0.9, 0, STEPS)
        with tf.Graph().as_default(), tf.Session() as session:
            made = self.variables()
            averages = tf.train.ExponentialMovingAverage(0.9)
            tf.train.Saver(averages.variables_to_restore()).restore(session, self.path(f"model.ckpt-{STEPS}"))
            for name, variable in made.items():
                wanted = self.checkpoint(STEPS).get_tensor(f"{name}/ExponentialMovingAverage")
                self.assertEqual(session.run(variable).tobytes(), wanted.tobytes())


if __name__ == "__main__":
    unittest.main()
