# SPDX-License-Identifier: Apache-2.0
"""Training from C equals training in TensorFlow: losses, checkpoints in both directions, summaries."""
import os
import pathlib
import shutil
import subprocess
import unittest

import numpy

import export_graphs
import support
from support import tf

GRAPHS = pathlib.Path(os.environ["HOOKSESS_GRAPHS"])
STEPS, HALF = export_graphs.STEPS, export_graphs.STEPS // 2


def losses(name):
    return [float(line) for line in (GRAPHS / f"{name}.losses").read_text().split()]


class Trained(support.TestCase):
    def run_meta(self, graph, directory, *rest):
        environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        return subprocess.run([support.program("train_meta"), GRAPHS / graph, directory, *rest], capture_output=True,
                              text=True, timeout=support.TIMEOUT, env=environment)

    def test_tensorflow_logs_if_it_is_asked_to(self):
        done = self.run_meta("resource.meta", self.path("shown"), "1", "show")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"(?m)^\S*I\d* .*TensorFlow|cpu_feature_guard")

    def train(self, graph, directory, steps=STEPS):
        """The losses of a run from C, which prints nothing else, also not TensorFlow's log."""
        done = self.run_meta(graph, directory, str(steps))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [float(line) for line in done.stdout.split()]

    def both(self):
        for name in "ref", "resource":
            with self.subTest(name), tf.Graph().as_default():
                export_graphs.linear(name == "resource")
                yield name, self.path(name)

    def test_losses_are_equal_step_by_step(self):
        for name, directory in self.both():
            self.assertEqual(self.train(f"{name}.meta", directory), losses(name))

    def test_our_checkpoint_is_restored_by_their_saver(self):
        for name, directory in self.both():
            self.train(f"{name}.meta", directory, HALF)
            with tf.Session() as session:
                saver = tf.train.Saver()
                saver.restore(session, tf.train.latest_checkpoint(directory))
                self.assertEqual(session.run("global_step:0" if name == "ref" else "global_step/Read/ReadVariableOp:0"), HALF)
                rest = [session.run(["loss:0", "train_op"], export_graphs.batch(step))[0] for step in range(HALF, STEPS)]
            self.assertEqual(list(map(float, rest)), losses(name)[HALF:])

    def test_their_checkpoint_is_restored_by_us(self):
        for name, directory in self.both():
            shutil.copytree(GRAPHS / f"{name}_theirs", directory)
            self.assertEqual(self.train(f"{name}.meta", directory), losses(name)[HALF:])

    def test_the_checkpoints_have_the_same_tensors(self):
        for name, directory in self.both():
            self.train(f"{name}.meta", directory, HALF)
            ours = tf.train.load_checkpoint(tf.train.latest_checkpoint(directory))
            theirs = tf.train.load_checkpoint(str(GRAPHS / f"{name}_theirs/model.ckpt-{HALF}"))
            names = {key for key in ours.get_variable_to_shape_map() if not key.startswith("_HOOKSESS")}
            known = set(theirs.get_variable_to_shape_map())
            self.assertLessEqual(known, names)
            for key in known:
                numpy.testing.assert_array_equal(ours.get_tensor(key), theirs.get_tensor(key), key)

    def test_summaries_and_graph_are_written(self):
        for name, directory in self.both():
            self.train(f"{name}.meta", directory, HALF)
            found, graphs = {}, 0
            for path in sorted(pathlib.Path(directory).glob("events*")):
                for event in tf.train.summary_iterator(str(path)):
                    graphs += bool(event.graph_def)
                    for value in event.summary.value:
                        found.setdefault(value.tag, {})[event.step] = value.simple_value
            self.assertEqual(list(found["loss_summary"].values()), losses(name)[: len(found["loss_summary"])])
            self.assertGreaterEqual(len(found["loss_summary"]), HALF)
            self.assertGreaterEqual(graphs, 1)


if __name__ == "__main__":
    unittest.main()
