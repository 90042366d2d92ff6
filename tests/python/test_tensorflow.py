# SPDX-License-Identifier: Apache-2.0
"""This package and TensorFlow read the same values, from files of the C library and of TensorFlow."""
import logging
import os
import unittest

import hooksess
import numpy
from numpy.testing import assert_array_equal
from support import TestCase, run

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
import tensorflow  # after its environment is set

tensorflow.get_logger().setLevel(logging.ERROR)
tf = tensorflow.compat.v1


class Checkpoints(TestCase):
    def assert_equal_to_tensorflow(self, prefix, expected_number):
        reader = tf.train.load_checkpoint(str(prefix))
        with hooksess.Checkpoint(prefix) as checkpoint:
            shapes = reader.get_variable_to_shape_map()
            self.assertEqual({name: list(checkpoint.info(name).shape) for name in checkpoint},
                             {name: shape for name, shape in shapes.items() if not name.startswith("hooksess/")})
            self.assertEqual(len(checkpoint), expected_number)
            for name in checkpoint:
                with self.subTest(name=name):
                    theirs = numpy.asarray(reader.get_tensor(name))
                    ours = checkpoint[name]
                    self.assertEqual(tensorflow.dtypes.as_dtype(checkpoint.info(name).stored_as), reader.get_variable_to_dtype_map()[name])
                    if theirs.dtype.kind == "O":
                        self.assertEqual(ours.tolist(), theirs.tolist())
                    else:
                        self.assertEqual((ours.dtype.itemsize, ours.shape, ours.tobytes()),
                                         (theirs.dtype.itemsize, theirs.shape, theirs.tobytes()))

    def test_all_types_and_shapes_of_the_library(self):
        run("interop/save_checkpoint", self.directory / "all", 7)
        self.assert_equal_to_tensorflow(self.directory / "all", 27)

    def test_a_training(self):
        run("python/write_run", self.directory, 5)
        self.assertEqual(hooksess.latest(self.directory), tf.train.latest_checkpoint(str(self.directory)))
        self.assert_equal_to_tensorflow(self.directory / "model.ckpt-5", 2)

    def test_tensorflows_own_checkpoint_with_strings_bfloat16_and_slices(self):
        prefix = str(self.directory / "theirs")
        numbers = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
        tensorflow.raw_ops.SaveV2(
            prefix=prefix, tensor_names=["texts", "brain", "flags", "cut", "cut"], shape_and_slices=["", "", "", "4 3 0,1:-", "4 3 1,3:-"],
            tensors=[tensorflow.constant([[b"a\0b", b""], ["größe", "x" * 300]]), tensorflow.constant([1.5, -2], tensorflow.bfloat16),
                     tensorflow.constant([True, False]), numbers[:1], numbers[1:]])
        self.assert_equal_to_tensorflow(prefix, 4)
        with hooksess.Checkpoint(prefix) as checkpoint:
            assert_array_equal(checkpoint.read("cut", (slice(0, 3), 1)), numbers[:3, 1])


class Events(TestCase):
    def assert_equal_to_tensorflow(self, expected_kinds):
        ours, theirs = [], []
        for event in hooksess.events(self.directory):
            ours.append((event.kind, event.step, event.wall_time, event.checkpoint_path,
                         [(value.tag, value.kind, value.scalar if value.kind == "scalar" else None, value.data) for value in event.values]))
        names = {"simple_value": "scalar", "histo": "histogram"}
        for path in sorted(self.directory.glob("*tfevents*")):
            for event in tf.train.summary_iterator(str(path)):
                values = []
                for value in event.summary.value:
                    kind = value.WhichOneof("value")
                    message = b"" if kind == "simple_value" else getattr(value, kind).SerializeToString(deterministic=True)
                    values.append((value.tag, names.get(kind, kind), value.simple_value if not message else None, message))
                kind = {"graph_def": "graph", "meta_graph_def": "meta_graph", "tagged_run_metadata": "run_metadata"}
                what = event.WhichOneof("what")
                theirs.append((kind.get(what, what), event.step, event.wall_time, event.session_log.checkpoint_path, values))
        self.assertEqual(ours, theirs)
        self.assertLessEqual(expected_kinds, {event[0] for event in ours})

    def test_all_kinds_of_events(self):
        run("interop/write_events", self.directory, given=b"\n")
        self.assert_equal_to_tensorflow({"file_version", "graph", "meta_graph", "session_log", "summary"})

    def test_tensorflows_own_files(self):
        with tf.Graph().as_default():
            writer = tf.summary.FileWriter(str(self.directory))
        for step in range(3):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=step / 7)]), step)
        writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), 2)
        writer.close()
        with tensorflow.summary.create_file_writer(str(self.directory)).as_default():
            tensorflow.summary.scalar("b", 0.5, 4)
            tensorflow.summary.histogram("h", [1.0, 2.0], 4)
        self.assert_equal_to_tensorflow({"file_version", "session_log", "summary"})
        self.assertEqual(hooksess.scalars(self.directory, "a").step.tolist(), [0, 1])
        self.assertEqual(hooksess.scalars(self.directory, "b").value.tolist(), [0.5])


if __name__ == "__main__":
    unittest.main()
