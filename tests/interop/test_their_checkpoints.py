# SPDX-License-Identifier: Apache-2.0
"""This library reads the checkpoints that TensorFlow writes."""
import subprocess
import unittest

import numpy

from dump import DumpCase, save, strings_of
from support import BUILD, TestCase, run, run_failing, tensorflow, tf
from values import values

NUMBERS = [tensorflow.dtypes.as_dtype(name) for name in (
    "bfloat16 bool complex128 complex64 double float half int16 int32 int64 int8 uint16 uint32 uint64 uint8").split()]
QUANTIZED = [tensorflow.qint8, tensorflow.quint8, tensorflow.qint16, tensorflow.quint16, tensorflow.qint32]
STRINGS = [b"", b"hello", b"\0zero\0", b"\xff\xfe", b"c" * 100000]


class Types(DumpCase):
    def test_tb_002_a_savers_variables_of_every_type(self):
        tensors = {f"v/{dtype.name}": (dtype, values(f"v/{dtype.name}", dtype, [2, 3])) for dtype in NUMBERS}
        with tf.Graph().as_default(), tf.Session() as session:
            for name, (dtype, array) in tensors.items():
                tf.Variable(array, name=name, dtype=dtype, use_resource=True)
            session.run(tf.global_variables_initializer())
            prefix = tf.train.Saver().save(session, self.path("model.ckpt"), global_step=12)
        self.assert_reads(prefix, tensors)

    def test_tb_002_quantized_types(self):
        plain = {dtype.name: (dtype, values(dtype.name, dtype, [4])) for dtype in QUANTIZED}
        save(self.path("quantized"), {name: tensorflow.bitcast(array, dtype) for name, (dtype, array) in plain.items()})
        self.assert_reads(self.path("quantized"), plain)

    def test_tb_008_tb_032s_strange_shapes(self):
        shapes = {"scalar": [], "one": [1], "empty": [0, 5], "inside": [16, 0, 18], "long": [0x1618],
                  "rank8": [1, 2, 1, 3, 1, 2, 2, 1]}
        tensors = {name: (tensorflow.float32, values(name, tensorflow.float32, shape)) for name, shape in shapes.items()}
        save(self.path("shapes"), {name: array for name, (_, array) in tensors.items()})
        self.assert_reads(self.path("shapes"), tensors)

    def test_tb_010_strings(self):
        tensors = {"empty": numpy.array(b"", object), "none": numpy.zeros([0], object),
                   "strs": numpy.array(STRINGS, object),
                   "matrix": numpy.array([[b"a", b"bb"], [b"", b"dddd"]], object), "after": numpy.float32(3)}
        save(self.path("strings"), tensors)
        found = self.dump(self.path("strings"))
        for name, array in list(tensors.items())[:-1]:
            with self.subTest(tensor=name):
                self.assertEqual(found[name][:3], (tensorflow.string.as_datatype_enum, list(array.shape), "OK"))
                self.assertEqual(strings_of(found[name][3]), array.flatten().tolist())
        self.assertEqual(found["after"][3], numpy.float32(3).tobytes())

    def test_types_without_a_counterpart_are_listed_and_refused(self):
        new = tensorflow.dtypes.as_dtype("float8_e5m2")
        save(self.path("new"), {"small": tensorflow.cast([1.0, 2.0], new), "usual": numpy.float32(3)})
        found = self.dump(self.path("new"))
        self.assertEqual(found["small"][0], new.as_datatype_enum)
        self.assertEqual({name: code for name, (_, _, code, _) in found.items()}, {"small": "UNIMPLEMENTED", "usual": "OK"})


    def test_the_checksums_of_types_without_a_counterpart_are_verified(self):
        values = {"small": tensorflow.cast([1.0, 2.0, 3.0], tensorflow.dtypes.as_dtype("float8_e4m3fn")),
                  "half": tensorflow.cast([1, 2, 3], tensorflow.dtypes.as_dtype("int4"))}
        item = tensorflow.raw_ops.TensorListReserve(element_shape=tensorflow.constant([2]), num_elements=3,
                                                    element_dtype=tensorflow.float32)
        values["variants"] = tensorflow.stack([item, item])
        save(self.path("new"), values)
        tool = [str(BUILD / "src/tool/hooksess"), "checkpoint", "verify", self.path("new")]
        self.assertIn("3 tensors", subprocess.run(tool, check=True, capture_output=True, text=True).stdout)
        data = self.directory / "new.data-00000-of-00001"
        right = data.read_bytes()
        for at in range(len(right)):
            data.write_bytes(right[:at] + bytes([right[at] ^ 1]) + right[at + 1:])
            self.assertEqual(subprocess.run(tool, capture_output=True).returncode, 1, at)


class Layouts(DumpCase):
    def test_tb_028s_thousands_of_long_names(self):
        tensors = {f"tower_{i % 3}/block_{i:05}/a_layer_with_a_name_that_is_really_very_long_x/kernel/Adam":
                   (tensorflow.float32, values(str(i), tensorflow.float32, [2])) for i in range(4000)}
        save(self.path("many"), {name: array for name, (_, array) in tensors.items()})
        self.assertGreater((self.directory / "many.index").stat().st_size, 256 * 1024)
        self.assert_reads(self.path("many"), tensors)

    def test_names_of_every_kind(self):
        tensors = {name: (tensorflow.int32, values(name, tensorflow.int32, [1]))
                   for name in ("a", "aa", "a/b", "a_b", "B", "größe/ω", "with space", "x" * 3000)}
        save(self.path("names"), {name: array for name, (_, array) in tensors.items()})
        self.assert_reads(self.path("names"), tensors)

    def test_sa_020_several_shards(self):
        tensors = {f"v{i}": (tensorflow.float32, values(f"v{i}", tensorflow.float32, [3, i])) for i in range(6)}
        config = tf.ConfigProto(device_count={"CPU": 2})
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            for i, (name, (_, array)) in enumerate(tensors.items()):
                with tf.device(f"/cpu:{i % 2}"):
                    tf.Variable(array, name=name)
            session.run(tf.global_variables_initializer())
            prefix = tf.train.Saver(sharded=True).save(session, self.path("sharded"))
        self.assertEqual(len(list(self.directory.glob("sharded.data-*-of-00002"))), 2)
        self.assert_reads(prefix, tensors)

    def test_a_large_tensor(self):
        large = values("large", tensorflow.float32, [3000, 1001])
        save(self.path("large"), {"before": numpy.int8(1), "large": large})
        self.assertEqual(self.dump(self.path("large"))["large"][3], large.tobytes())

    def test_tb_033s_junk_behind_the_data_is_ignored(self):
        save(self.path("x"), {"x": numpy.float32([1, 2])})
        with open(self.path("x.data-00000-of-00001"), "ab") as data:
            data.write(b"junk")
        self.assertEqual(self.dump(self.path("x"))["x"][2:], ("OK", numpy.float32([1, 2]).tobytes()))

    def test_tb_017_damage_is_seen(self):
        save(self.path("x"), {"x": numpy.float32([1, 2]), "y": numpy.float32([3])})
        with open(self.path("x.data-00000-of-00001"), "r+b") as data:
            data.write(b"\x55")
        self.assertEqual({name: code for name, (_, _, code, _) in self.dump(self.path("x")).items()},
                         {"x": "DATA_LOSS", "y": "OK"})


class ObjectCheckpoints(DumpCase):
    """Checkpoints of TensorFlow 2, whose names are paths through objects."""

    def write(self):
        model = tensorflow.Module()
        model.weights = tensorflow.Variable([1.5, 2.5, 3.5])
        model.global_step = tensorflow.Variable(4, dtype=tensorflow.int64)
        return tensorflow.train.Checkpoint(model=model).write(self.path("objects"))

    def test_variables_and_the_graph_of_objects(self):
        found = self.dump(self.write())
        self.assertEqual(found["model/weights/.ATTRIBUTES/VARIABLE_VALUE"][3], numpy.float32([1.5, 2.5, 3.5]).tobytes())
        self.assertEqual(found["_CHECKPOINTABLE_OBJECT_GRAPH"][:3], (tensorflow.string.as_datatype_enum, [], "OK"))

    def test_the_graph_of_objects_is_whole(self):
        prefix = self.write()
        theirs = tf.train.load_variable(prefix, "_CHECKPOINTABLE_OBJECT_GRAPH")
        self.assertEqual(strings_of(self.dump(prefix)["_CHECKPOINTABLE_OBJECT_GRAPH"][3]), [theirs])


def train(directory, last_step, name="weights"):
    """The model of train_model.c, in TensorFlow. Returns the first step and the weights at the end."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        weights = tf.get_variable(name, initializer=numpy.zeros([3], numpy.float32))
        with tf.control_dependencies([weights.assign_add([1, 1, 1])]):
            run_one = step.assign_add(1)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=directory, save_checkpoint_steps=3, save_summaries_steps=None,
                                               save_summaries_secs=None) as session:
            first = session.run(step)
            while session.run(run_one) < last_step:
                pass
            return first, session.run(weights).tolist()


class GoingOn(TestCase):
    """A session of one library resumes where a session of the other has stopped."""

    def setUp(self):
        super().setUp()
        self.run_directory = self.directory / "run"

    def test_cm_003_a_savers_directory_with_absolute_paths(self):
        train(str(self.run_directory), 4)
        text = (self.run_directory / "checkpoint").read_text()
        self.assertIn(f'model_checkpoint_path: "{self.run_directory}/model.ckpt-4"', text)
        self.assertEqual(run("train_model", "-l", 10, self.run_directory), "4 10 10 10 10\n")

    def test_there_and_back_again(self):
        train(str(self.run_directory), 4)
        run("train_model", "-l", 10, self.run_directory)
        self.assertEqual(train(str(self.run_directory), 15), (10, [15] * 3))
        self.assertEqual(run("train_model", "-l", 20, self.run_directory), "15 20 20 20 20\n")

    def test_a_directory_that_was_moved(self):
        train(str(self.run_directory), 4)
        moved = self.directory / "moved"
        self.run_directory.rename(moved)
        self.assertEqual(run("train_model", "-l", 10, moved), "4 10 10 10 10\n")

    def test_names_that_the_state_file_has_to_escape(self):
        directory = self.directory / "größe \"twice\" it's"
        train(str(directory), 4)
        self.assertEqual(run("train_model", "-l", 10, directory), "4 10 10 10 10\n")
        self.assertEqual(train(str(directory), 12)[0], 10)

    def test_what_tensorflow_has_saved_is_deleted_in_its_turn(self):
        train(str(self.run_directory), 7)
        run("train_model", "-s", 1, "-l", 20, self.run_directory)
        steps = sorted(int(path.stem.rsplit("-", 1)[1]) for path in self.run_directory.glob("*.index"))
        self.assertEqual(steps, [16, 17, 18, 19, 20])

    def test_sa_034_a_variable_that_is_missing_there_is_named(self):
        train(str(self.run_directory), 4, name="other")
        said = run_failing("train_model", self.run_directory)
        self.assertIn("NOT_FOUND", said)
        self.assertIn("'weights' is missing", said)
        self.assertEqual(tf.train.latest_checkpoint(str(self.run_directory)), str(self.run_directory / "model.ckpt-4"))

    def test_sa_018_a_variable_of_another_type_and_shape_is_named(self):
        self.run_directory.mkdir()
        save(str(self.run_directory / "model.ckpt-3"), {"weights": numpy.int32([1, 2]), "global_step": numpy.int64(3)})
        tf.train.update_checkpoint_state(str(self.run_directory), str(self.run_directory / "model.ckpt-3"))
        said = run_failing("train_model", self.run_directory)
        self.assertIn("INVALID_ARGUMENT", said)
        self.assertIn("'weights' is int32 [2] in the checkpoint, but float [3] in the model", said)

    def test_a_sharded_checkpoint(self):
        with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
            tf.Variable([5.0, 6.0, 7.0], name="weights")
            with tf.device("/cpu:1"):
                tf.Variable(3, name="global_step", dtype=tensorflow.int64)
            session.run(tf.global_variables_initializer())
            self.run_directory.mkdir()
            tf.train.Saver(sharded=True).save(session, str(self.run_directory / "model.ckpt"), global_step=3)
        self.assertEqual(run("train_model", "-l", 5, self.run_directory), "3 5 7 8 9\n")

    def test_the_format_before_tensorflow_1_is_named(self):
        self.run_directory.mkdir()
        for sharded in False, True:
            with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
                tf.Variable([5.0, 6.0, 7.0], name="weights")
                with tf.device("/cpu:1"):
                    tf.Variable(3, name="global_step", dtype=tensorflow.int64)
                session.run(tf.global_variables_initializer())
                saver = tf.train.Saver(sharded=sharded, write_version=tf.train.SaverDef.V1)
                prefix = saver.save(session, str(self.run_directory / "model.ckpt"), global_step=3)
            self.assertIn(f"'{prefix}' is a checkpoint in format V1 of TensorFlow", run_failing("train_model", self.run_directory))

    def test_variables_of_a_checkpoint_of_objects(self):
        name = "weights/.ATTRIBUTES/VARIABLE_VALUE"
        self.run_directory.mkdir()
        save(str(self.run_directory / "model.ckpt-3"), {name: numpy.float32([1, 2, 3]), "global_step": numpy.int64(3)})
        tf.train.update_checkpoint_state(str(self.run_directory), str(self.run_directory / "model.ckpt-3"))
        self.assertEqual(run("train_model", "-l", 5, "-w", name, self.run_directory), "3 5 3 4 5\n")


if __name__ == "__main__":
    unittest.main()
