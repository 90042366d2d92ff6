# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's MonitoredTrainingSession and ours train the same graph with the same batches. Losses are equal to the bit, and so
are checkpoints and charts."""
import pathlib
import subprocess
import sys
import unittest

import numpy

import pictures
import support
from support import tf

sys.path.insert(0, str(support.SOURCE / "examples/tensorflow"))
import export_graph

TRAIN_GRAPH = support.BUILD / "examples/tensorflow/train_graph"
STEPS, MORE_STEPS, SAVE_STEPS, SUMMARY_STEPS, LOG_STEPS = 45, 75, 20, 10, 15
PICTURES, BATCH, SEED = 200, 32, 5  # the last batch of an epoch is smaller
# One thread adds in a fixed order. It is the calling thread, so that TensorFlow's hooks always fetch the step before the run, or
# always the step after it. The first session of a process sets the number of threads for all sessions.
ONE_THREAD = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=-1)


def train_there(graph, directory, batches, last_step):
    """TensorFlow's losses."""
    losses = []
    with tf.Graph().as_default():
        tf.train.import_meta_graph(str(graph))
        hooks = [tf.train.StopAtStepHook(last_step=last_step), tf.train.NanTensorHook("loss:0")]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=directory, hooks=hooks, config=ONE_THREAD,
                                               save_checkpoint_steps=SAVE_STEPS, save_summaries_steps=SUMMARY_STEPS,
                                               log_step_count_steps=LOG_STEPS) as session:
            while not session.should_stop():
                images, labels = next(batches)
                _, loss = session.run(["train_op", "loss:0"], {"images:0": images, "labels:0": labels})
                losses.append(float(loss))
    return losses


def train_here(graph, directory, data, last_step):
    """Ours, of train_graph."""
    file = pathlib.Path(directory + ".losses")
    numbers = {"max-steps": last_step, "save-steps": SAVE_STEPS, "summary-steps": SUMMARY_STEPS, "log-steps": LOG_STEPS,
               "batch-size": BATCH, "seed": SEED, "threads": 1}
    done = subprocess.run([TRAIN_GRAPH, "--meta-graph", graph, "--feed", "images=images", "--feed", "labels=labels", "--data", data,
                           "--model-dir", directory, "--losses", file, *(f"--{key}={value}" for key, value in numbers.items())],
                          capture_output=True, text=True, timeout=support.TIMEOUT)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [float.fromhex(line.split()[1]) for line in file.read_text().splitlines()]


def tensors(prefix):
    """{name: (type, shape, bytes)}, without the state of hooks, which TensorFlow does not save (tensorflow-differences.md)."""
    reader = tf.train.load_checkpoint(prefix)
    arrays = {name: numpy.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()
            if not name.startswith("hooksess/")}


def events(directory):
    return [event for path in sorted(pathlib.Path(directory).glob("events.*")) for event in tf.train.summary_iterator(str(path))]


def points(directory):
    """{(tag, step): value}. None for values that a clock measures, as they differ from run to run."""
    return {(value.tag, event.step): None if value.tag == "global_step/sec" else value.SerializeToString()
            for event in events(directory) for value in event.summary.value}


def log(directory, status):
    return [(event.step, pathlib.Path(event.session_log.checkpoint_path).name) for event in events(directory)
            if event.session_log.status == status]


def graphs(directory):
    """For each event with a graph: {name: node}."""
    made = (tf.GraphDef.FromString(event.graph_def) for event in events(directory) if event.graph_def)
    return [{node.name: node for node in graph.node} for graph in made]


def kinds(directory):
    return {event.WhichOneof("what") for event in events(directory)}


class Trained(support.TestCase):
    """One network, trained by TensorFlow and by this library. Its variables are resources, unless the flags say otherwise."""

    flags = []

    @classmethod
    def setUpClass(cls):
        folder = support.tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        cls.here, cls.there, cls.graph = str(cls.root / "here"), str(cls.root / "there"), cls.root / "graph.meta"
        cls.batches = pictures.batches(*pictures.write(cls.root, "train", PICTURES), BATCH, SEED)
        export_graph.export(export_graph.parse([str(cls.graph), *cls.flags]))
        cls.losses_there, cls.losses_here = cls.train_to(STEPS)

    @classmethod
    def train_to(cls, last_step):
        return (train_there(cls.graph, cls.there, cls.batches, last_step), train_here(cls.graph, cls.here, cls.root, last_step))

    def assert_same_tensors(self, name):
        there = tensors(f"{self.there}/{name}")
        self.assertIn("beta1_power", there)
        self.assertEqual(tensors(f"{self.here}/{name}"), there)


class Compared(Trained):
    def test_losses_are_equal_step_by_step(self):
        self.assertEqual(len(self.losses_here), STEPS)
        self.assertEqual(self.losses_here, self.losses_there)
        self.assertEqual(len(set(self.losses_here)), STEPS)

    def test_the_same_checkpoints_are_there(self):
        here, there = (sorted(path.name for path in pathlib.Path(directory).glob("model.ckpt-*"))
                       for directory in (self.here, self.there))
        self.assertEqual(here, there)
        self.assertEqual(pathlib.Path(tf.train.latest_checkpoint(self.here)).name,
                         pathlib.Path(tf.train.latest_checkpoint(self.there)).name)

    def test_checkpoints_are_equal_tensor_by_tensor(self):
        for index in pathlib.Path(self.there).glob("*.index"):
            with self.subTest(index.stem):
                self.assert_same_tensors(index.stem)

    def test_charts_have_the_same_tags_steps_and_values(self):
        there = points(self.there)
        self.assertEqual({tag for tag, _ in there}, {"training_loss", "training_accuracy", "scores", "global_step/sec"})
        self.assertEqual(points(self.here), there)

    def test_saves_are_recorded_at_the_same_steps(self):
        """SV-029: with the checkpoint's full name. BH-090s: TensorFlow may not write its last event."""
        here, there = log(self.here, tf.SessionLog.CHECKPOINT), log(self.there, tf.SessionLog.CHECKPOINT)
        saved = [*range(0, STEPS, SAVE_STEPS), STEPS]
        self.assertEqual(here, [(step, f"model.ckpt-{step}") for step in saved])
        self.assertIn(there, [[(step, "model.ckpt") for step in steps] for steps in (saved, saved[:-1])])

    def test_the_start_is_recorded_at_the_same_step(self):
        """BH-099s: ours before the first run, with its step; TensorFlow's after it, with the step after the run."""
        self.assertEqual([step for step, _ in log(self.here, tf.SessionLog.START)], [1])
        self.assertEqual([step for step, _ in log(self.there, tf.SessionLog.START)], [1])

    def test_the_same_graph_is_shown(self):
        """WR-028s: TensorFlow's writer writes the graph, and its saver writes it again with the session's added ops. This library
        writes it once."""
        (here,), there = graphs(self.here), graphs(self.there)
        ours = {name: node.op for name, node in here.items() if not name.startswith("hooksess/")}
        self.assertEqual(ours, {name: node.op for name, node in there[0].items()})

    def test_no_other_kinds_of_events_are_written(self):
        self.assertEqual(kinds(self.here), kinds(self.there))


class ComparedWithReferences(Compared):
    """Reference variables, TensorFlow's first kind."""

    flags = ["--ref-variables"]


class Resumed(Trained):
    """Both resume from their last checkpoint in a new session."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        there, cls.losses_here = cls.train_to(MORE_STEPS)
        cls.losses_there += there

    def test_losses_are_equal_step_by_step(self):
        self.assertEqual(len(self.losses_here), MORE_STEPS)
        self.assertEqual(self.losses_here, self.losses_there)

    def test_the_last_checkpoints_are_equal(self):
        self.assert_same_tensors(f"model.ckpt-{MORE_STEPS}")

    def test_both_start_at_the_step_after_the_one_restored(self):
        """BH-099s: ours before the first run, TensorFlow's after it."""
        for directory in self.here, self.there:
            self.assertEqual([step for step, _ in log(directory, tf.SessionLog.START)], [1, STEPS + 1])

    def test_summaries_keep_their_schedule(self):
        """BH-100s: TensorFlow always writes summaries in the first run, and counts from it."""
        here, there = ({key: value for key, value in points(directory).items() if key[0] == "training_loss"}
                       for directory in (self.here, self.there))
        before = list(range(1, STEPS + 1, SUMMARY_STEPS))
        self.assertEqual([step for _, step in here], list(range(1, MORE_STEPS + 1, SUMMARY_STEPS)))
        self.assertEqual([step for _, step in there], before + list(range(STEPS + 1, MORE_STEPS + 1, SUMMARY_STEPS)))
        self.assertEqual({key: here[key] for key in there if key in here}, {key: there[key] for key in there if key in here})

    def test_saves_keep_their_schedule(self):
        """BH-082s: this library does not save the restored step again. BH-100s: TensorFlow counts from the first run."""
        here, there = ([step for step, _ in log(directory, tf.SessionLog.CHECKPOINT)] for directory in (self.here, self.there))
        self.assertEqual(here, [0, 20, 40, STEPS, 60, MORE_STEPS])
        self.assertEqual([step for step in there if step > STEPS], [STEPS + SAVE_STEPS])
        self.assertIn(STEPS, there)

    def test_rates_keep_their_schedule(self):
        """BH-040: this library keeps the steps of the earlier run; TensorFlow counts from the first run."""
        here, there = ([step for tag, step in points(directory) if tag == "global_step/sec"] for directory in (self.here, self.there))
        self.assertEqual(here, list(range(1 + LOG_STEPS, MORE_STEPS + 1, LOG_STEPS)))
        self.assertEqual(there, [*range(1 + LOG_STEPS, STEPS + 1, LOG_STEPS), STEPS + 1 + LOG_STEPS])


if __name__ == "__main__":
    unittest.main()
