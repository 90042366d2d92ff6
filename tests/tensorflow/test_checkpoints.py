# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of TensorFlow's graphs, tensor by tensor: TensorFlow restores ours, and we restore TensorFlow's."""
import os
import pathlib
import shutil
import subprocess
import unittest

import numpy

import export_checkpoints
import support
from google.protobuf import text_format
from support import tf
from tensorflow.core.protobuf import meta_graph_pb2

GRAPHS = pathlib.Path(os.environ["HOOKSESS_GRAPHS"])
STEP = export_checkpoints.STEP
KINDS = {"kinds_resource": (True, 3), "kinds_ref": (False, 3), "kinds_two": (True, 2), "kinds_whole": (False, None),
         "kinds_sharded": (True, 3)}
WAYS = [(), ("graph-saves",), ("shards",), ("background",)]


def tensors(prefix):
    """The tensors of a checkpoint, without the state of hooks."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if not key.startswith("hooksess/")}


def bundle(prefix):
    """The dtypes of a checkpoint's tensors."""
    return {key: value for key, value in tf.train.load_checkpoint(str(prefix)).get_variable_to_dtype_map().items()
            if not key.startswith("hooksess/")}


def theirs(name):
    return GRAPHS / f"{name}_theirs/model.ckpt-{STEP}"


class Saving(support.TestCase):
    def save(self, graph, steps, *ways, directory=None):
        """Trains a graph from C up to a step. Returns its checkpoint."""
        directory = pathlib.Path(directory or self.path("-".join((graph, *ways))))
        directory.mkdir(exist_ok=True)
        done = subprocess.run([support.program("save_meta"), GRAPHS / f"{graph}.meta", directory, str(steps), *ways],
                              capture_output=True, text=True, timeout=support.TIMEOUT)
        self.assertEqual((done.returncode, done.stderr), (0, ""), (graph, ways))
        return directory / f"model.ckpt-{steps}"

    def assert_same(self, first, second):
        first, second = tensors(first), tensors(second)
        self.assertEqual(set(first), set(second))
        for key, value in first.items():
            self.assertEqual(numpy.asarray(value).dtype, numpy.asarray(second[key]).dtype, key)
            numpy.testing.assert_array_equal(value, second[key], key)

    def copy(self, name, to):
        """A directory with a checkpoint of TensorFlow, from which we resume."""
        directory = self.path(to)
        shutil.copytree(GRAPHS / f"{name}_theirs", directory)
        return directory


class Checkpoints(Saving):
    def test_ours_have_what_theirs_have(self):
        for name in KINDS:
            for ways in WAYS:
                with self.subTest(name, ways=ways):
                    ours = self.save(name, STEP, *ways)
                    self.assert_same(ours, theirs(name))
                    self.assertEqual(bundle(ours), bundle(theirs(name)))

    def test_their_saver_restores_ours(self):
        for name, (use_resource, parts) in KINDS.items():
            for ways in (), ("graph-saves",):
                with self.subTest(name, ways=ways), tf.Graph().as_default():
                    ours = self.save(name, STEP, *ways)
                    export_checkpoints.kinds(use_resource, parts)
                    saver, again = tf.train.Saver(), self.path(f"{name}-{len(ways)}-again")
                    with tf.Session() as session:
                        saver.restore(session, str(ours))
                        saver.save(session, again)
                    self.assert_same(again, theirs(name))

    def test_we_restore_theirs(self):
        """One more step from each of TensorFlow's checkpoints, by assign ops and by the graph's restore op."""
        for name in KINDS:
            begun = self.save(name, STEP + 2)
            for ways in (), ("graph-restores",), ("graph-restores", "graph-saves"):
                with self.subTest(name, ways=ways):
                    directory = self.copy(name, f"{name}-{len(ways)}-from-theirs")
                    self.assert_same(self.save(name, STEP + 2, *ways, directory=directory), begun)

    def test_partitions_may_be_others(self):
        """A checkpoint of any partitioning can be restored into any other: parts are slices of one tensor."""
        expected = self.save("kinds_whole", STEP + 1)
        for saved, name in [("kinds_resource", "kinds_two"), ("kinds_two", "kinds_ref"), ("kinds_ref", "kinds_whole"),
                            ("kinds_whole", "kinds_resource"), ("kinds_sharded", "kinds_two"), ("kinds_whole", "kinds_sharded")]:
            for ways in (), ("graph-restores",):
                with self.subTest(saved=saved, restored=name, ways=ways):
                    directory = self.copy(saved, f"{saved}-into-{name}-{len(ways)}")
                    self.assert_same(self.save(name, STEP + 1, *ways, directory=directory), expected)

    def test_one_slice_can_be_read_of_ours(self):
        for ways in (), ("shards",), ("graph-saves",):
            ours = self.save("kinds_resource", STEP, *ways)
            with tf.Graph().as_default(), tf.Session() as session:
                read = [tf.raw_ops.RestoreV2(prefix=str(ours), tensor_names=["rows", "columns"],
                                             shape_and_slices=["7 4 5,2:0,4", "4 6 0,4:3,3"], dtypes=[tf.float32] * 2)]
                rows, columns = session.run(read)[0]
            numpy.testing.assert_array_equal(rows, tensors(theirs("kinds_resource"))["rows"][5:])
            numpy.testing.assert_array_equal(columns, tensors(theirs("kinds_resource"))["columns"][:, 3:])

    def test_parts_of_strings_go_both_ways(self):
        for ways in (), ("graph-saves",), ("graph-restores",), ("shards",), ("background",):
            with self.subTest(ways=ways), tf.Graph().as_default():
                ours = self.save("words_parts", STEP + 1, *ways, directory=self.copy("words_parts", f"words{ways}"))
                export_checkpoints.words()
                with tf.Session() as session:
                    tf.train.Saver().restore(session, str(ours))
                    parts = session.run([v for v in tf.global_variables() if v.op.name.startswith("words")])
                self.assertEqual([word for part in parts for word in part], export_checkpoints.WORDS)

    def test_strings_in_other_slices_are_refused(self):
        directory = self.copy("words_parts", "words-others")
        done = subprocess.run([support.program("save_meta"), GRAPHS / "words_others.meta", directory, "4"],
                              capture_output=True, text=True, timeout=support.TIMEOUT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot restore 'words': it has strings", done.stderr)

    def test_a_sharded_save_is_copied_to_one_file(self):
        ours = self.save("kinds_sharded", STEP, "graph-saves")
        self.assertEqual([path.name for path in ours.parent.glob(f"{ours.name}.data-*")],
                         [f"{ours.name}.data-00000-of-00001"])
        self.assertEqual([path.name for path in ours.parent.iterdir() if "tmp" in path.name], [])


class MetaGraphs(Saving):
    def read(self, prefix):
        return meta_graph_pb2.MetaGraphDef.FromString(pathlib.Path(f"{prefix}.meta").read_bytes())

    def test_it_is_imported_and_restored_by(self):
        for name in KINDS:
            expected = self.save(name, STEP + 2)
            for ways in (), ("graph-saves",), ("background",):
                with self.subTest(name, ways=ways), tf.Graph().as_default():
                    ours = self.save(name, STEP, *ways, directory=self.path(f"{name}-{ways}"))
                    saver, again = tf.train.import_meta_graph(f"{ours}.meta"), self.path(f"{name}-{ways}-again")
                    with tf.Session(config=export_checkpoints.TWO_CPUS) as session:
                        saver.restore(session, str(ours))
                        session.run("train_op")
                        session.run("train_op")
                        saver.save(session, again)
                    self.assert_same(again, expected)

    def test_it_is_opened_by_us_again(self):
        ours = self.save("kinds_resource", STEP)
        shutil.copy(f"{ours}.meta", GRAPHS / "opened_again.meta")
        again = self.save("opened_again", STEP + 1)
        self.assert_same(again, self.save("kinds_resource", STEP + 1, directory=ours.parent))
        self.assertEqual({key: len(value.node_list.value) for key, value in self.read(again).collection_def.items()
                          if key in (tf.GraphKeys.INIT_OP, tf.GraphKeys.READY_OP)},
                         {tf.GraphKeys.INIT_OP: 1, tf.GraphKeys.READY_OP: 1})

    def test_a_graph_without_a_saver_gets_one(self):
        ours = self.save("no_saver", STEP)
        self.assertFalse(self.read(ours).HasField("saver_def"))
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.import_meta_graph(f"{ours}.meta").restore(session, str(ours))
            self.assertEqual(int(session.run(tf.train.get_global_step())), STEP)

    def test_a_graph_def_gets_its_variables(self):
        for name in "graph_resource", "graph_ref":
            with self.subTest(name), tf.Graph().as_default(), tf.Session() as session:
                ours, again = self.save(name, STEP), self.path(f"{name}-again")
                saver = tf.train.import_meta_graph(f"{ours}.meta")
                session.run(tf.global_variables_initializer())
                saver.restore(session, str(ours))
                saver.save(session, again)
                self.assert_same(again, theirs("kinds_whole"))

    def test_it_has_all_that_the_graph_was_opened_with(self):
        ours = self.read(self.save("signature", STEP))
        given = self.read(GRAPHS / "signature")
        for field in "meta_info_def", "signature_def", "object_graph_def", "asset_file_def":
            self.assertEqual(getattr(ours, field), getattr(given, field), field)
        self.assertEqual(ours.signature_def["serve"].method_name, "predict")
        for key, value in given.collection_def.items():
            if key != "losses":
                self.assertEqual(ours.collection_def[key], value, key)
        self.assertEqual(ours.saver_def.restore_op_name, given.saver_def.restore_op_name)
        self.assertEqual(ours.saver_def.max_to_keep, given.saver_def.max_to_keep)

    def test_it_has_what_text_has(self):
        ours = self.read(self.save("signature_text", STEP))
        given = text_format.Parse((GRAPHS / "signature_text.meta").read_text(), meta_graph_pb2.MetaGraphDef())
        for field in "meta_info_def", "signature_def", "asset_file_def":
            self.assertEqual(getattr(ours, field), getattr(given, field), field)
        self.assertEqual(ours.asset_file_def[0].filename, "words.txt")

    def test_it_has_what_hooks_have_added(self):
        ours = self.read(self.save("kinds_resource", STEP))
        self.assertIn("added/scalar", [node.name for node in ours.graph_def.node])
        self.assertEqual(list(ours.collection_def["added"].node_list.value), ["added/scalar:0"])
        self.assertEqual(list(ours.collection_def["losses"].node_list.value), ["loss:0", "added/scalar:0"])


if __name__ == "__main__":
    unittest.main()
