# SPDX-License-Identifier: Apache-2.0
"""TensorFlow reads the checkpoints that this library writes."""
import os
import pathlib
import struct
import tempfile
import unittest

from google.protobuf import text_format

from support import TestCase, run, tensorflow, tf
from values import values

# The variables of save_checkpoint.c.
TYPES = ("bfloat16 bool complex128 complex64 double float half int16 int32 int64 int8 "
         "qint16 qint32 qint8 quint16 quint8 uint16 uint32 uint64 uint8")
VARIABLES = {f"types/{name}": (tensorflow.dtypes.as_dtype(name), [3, 5]) for name in TYPES.split()} | {
    "shapes/scalar": (tensorflow.float64, []),
    "shapes/one": (tensorflow.int64, [1]),
    "shapes/empty": (tensorflow.float32, [0, 5]),
    "shapes/empty_inside": (tensorflow.int32, [16, 0, 18]),
    "shapes/long": (tensorflow.uint8, [0x1618]),
    "shapes/rank8": (tensorflow.int16, [1, 2, 1, 3, 1, 2, 2, 1]),
    "shapes/20_MiB": (tensorflow.float32, [5, 1024 * 1024]),
}


def bits(array):
    return array.dtype, array.shape, array.tobytes()


def small_name(number):
    """The name of variable `number` of save_checkpoint with COUNT."""
    return f"layer_{number:05}/a_kernel_with_a_name_of_considerable_length_x/slot"


class CheckpointCase(TestCase):
    def assert_has(self, prefix, variables, generation=0):
        reader = tf.train.load_checkpoint(prefix)
        for name, (dtype, shape) in variables.items():
            with self.subTest(variable=name):
                self.assertEqual(bits(reader.get_tensor(name)), bits(values(name, dtype, shape, generation)))


class VariablesOfAllKinds(CheckpointCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = os.path.join(folder.name, "all")
        run("save_checkpoint", cls.prefix, 0)

    def test_tb_002_tb_008_the_list_has_every_type_and_shape(self):
        reader = tf.train.load_checkpoint(self.prefix)
        self.assertEqual(reader.get_variable_to_shape_map(), {name: shape for name, (_, shape) in VARIABLES.items()})
        self.assertEqual(reader.get_variable_to_dtype_map(), {name: dtype for name, (dtype, _) in VARIABLES.items()})

    def test_tb_002_tb_008_tb_032s_every_value_is_read(self):
        self.assert_has(self.prefix, VARIABLES)

    def test_the_reader_describes_it(self):
        text = tf.train.load_checkpoint(self.prefix).debug_string().decode()
        self.assertIn("types/bfloat16 (DT_BFLOAT16) [3,5]", text)
        self.assertIn("shapes/rank8 (DT_INT16) [1,2,1,3,1,2,2,1]", text)

    def test_tb_012_three_files_and_no_more(self):
        names = {path.name for path in pathlib.Path(self.prefix).parent.iterdir()}
        self.assertEqual(names, {"all.index", "all.data-00000-of-00001", "all.meta", "checkpoint", ".hooksess.lock"})

    def test_a_saver_restores_it_in_a_graph(self):
        wanted = {name: kind for name, kind in VARIABLES.items() if not kind[0].is_quantized}
        with tf.Graph().as_default(), tf.Session() as session:
            made = {name: tf.Variable(tensorflow.zeros(shape, dtype), name=name, use_resource=True)
                    for name, (dtype, shape) in wanted.items()}
            tf.train.Saver().restore(session, self.prefix)
            for name, value in session.run(made).items():
                with self.subTest(variable=name):
                    self.assertEqual(bits(value), bits(values(name, *wanted[name])))


def data_blocks(path):
    """A table's blocks before the index of blocks."""
    def varint(at):
        value, shift = 0, 0
        while True:
            value |= (contents[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if contents[at - 1] < 128:
                return value, at

    contents = pathlib.Path(path).read_bytes()
    at = len(contents) - 48  # the footer begins with offset and size of the meta index, then of the index
    for _ in range(2):
        _, at = varint(at)
    return contents[:varint(at)[0]]


class Bytes(CheckpointCase):
    """Both write the same bytes, except keys in the index of blocks, which need not be keys of entries."""

    def assert_same_files(self, count):
        names = [small_name(i) for i in range(count)]
        run("save_checkpoint", self.path("ours"), 0, count)
        tensorflow.raw_ops.SaveV2(prefix=self.path("theirs"), tensor_names=names, shape_and_slices=[""] * count,
                                  tensors=[values(name, tensorflow.float32, [3]) for name in names])
        self.assertEqual(data_blocks(self.path("ours.index")), data_blocks(self.path("theirs.index")))
        for prefix in ("ours", "theirs"):
            with open(self.path(prefix + ".data-00000-of-00001"), "rb") as data:
                self.assertEqual(data.read(), b"".join(map(lambda n: values(n, tensorflow.float32, [3]).tobytes(), names)))

    def test_sa_049s_a_saver_writes_the_same_data_whatever_its_order(self):
        names = [name for name in reversed(VARIABLES) if name.startswith("shapes/")]
        run("save_checkpoint", self.path("ours"), 0)
        with tf.Graph().as_default(), tf.Session() as session:
            made = [tf.Variable(values(name, *VARIABLES[name]), name=name) for name in names]
            session.run(tf.global_variables_initializer())
            tf.train.Saver(made).save(session, self.path("theirs"))
        theirs = pathlib.Path(self.path("theirs.data-00000-of-00001")).read_bytes()
        self.assertEqual(pathlib.Path(self.path("ours.data-00000-of-00001")).read_bytes()[:len(theirs)], theirs)

    def test_tb_026s_one_variable(self):
        self.assert_same_files(1)

    def test_tb_028s_keys_that_share_their_beginnings(self):
        self.assert_same_files(100)

    def test_tb_028s_several_blocks(self):
        self.assert_same_files(5000)
        self.assertGreater(os.path.getsize(self.path("ours.index")), 256 * 1024)

    def test_tb_027s_the_footer(self):
        run("save_checkpoint", self.path("ours"), 0, 1)
        with open(self.path("ours.index"), "rb") as index:
            self.assertEqual(index.read()[-8:], struct.pack("<Q", 0xDB4775248B80FB57))


class ManyVariables(CheckpointCase):
    def test_all_of_five_thousand_are_read(self):
        run("save_checkpoint", self.path("many"), 3, 5000)
        self.assert_has(self.path("many"), {small_name(i): (tensorflow.float32, [3]) for i in range(5000)}, generation=3)
        self.assertEqual(len(tf.train.list_variables(self.path("many"))), 5000)


class Overwritten(CheckpointCase):
    few = {small_name(i): (tensorflow.float32, [3]) for i in range(20)}

    def test_each_save_under_one_name_replaces_the_one_before(self):
        for generation in range(4):
            run("save_checkpoint", self.path("same"), generation, 20)
            self.assert_has(self.path("same"), self.few, generation)
            self.assertEqual(len(list(self.directory.glob("same.data-*"))), 1)

    def test_a_saver_restores_the_newer_one(self):
        for generation in range(2):
            run("save_checkpoint", self.path("same"), generation, 20)
        with tf.Graph().as_default(), tf.Session() as session:
            variable = tf.Variable(tensorflow.zeros([3]), name=small_name(7))
            tf.train.Saver().restore(session, self.path("same"))
            self.assertEqual(bits(session.run(variable)), bits(values(small_name(7), tensorflow.float32, [3], 1)))


class Sharded(CheckpointCase):
    """Variables that are split over three data files."""
    few = {small_name(i): (tensorflow.float32, [3]) for i in range(20)}

    def data_files(self):
        return sorted(path.name for path in self.directory.glob("*.data-*"))

    def test_every_value_is_read(self):
        run("save_checkpoint", self.path("all"), 0, 0, 3)
        self.assertEqual(self.data_files(), [f"all.data-0000{i}-of-00003" for i in range(3)])
        self.assert_has(self.path("all"), VARIABLES)

    def test_sa_021_a_saver_restores_it(self):
        run("save_checkpoint", self.path("all"), 0, 0, 3)
        wanted = {name: kind for name, kind in VARIABLES.items() if not kind[0].is_quantized}
        for sharded in (False, True):
            with tf.Graph().as_default(), tf.Session() as session:
                made = {name: tf.Variable(tensorflow.zeros(shape, dtype), name=name, use_resource=True)
                        for name, (dtype, shape) in wanted.items()}
                tf.train.Saver(sharded=sharded).restore(session, self.path("all"))
                for name, value in session.run(made).items():
                    with self.subTest(variable=name):
                        self.assertEqual(bits(value), bits(values(name, *wanted[name])))

    def test_one_over_another_of_any_number(self):
        for generation, shards in enumerate((3, 3, 2, 1, 1, 3)):
            run("save_checkpoint", self.path("same"), generation, 20, shards)
            self.assertEqual(len(self.data_files()), shards)
            self.assert_has(self.path("same"), self.few, generation)

    def test_more_files_than_variables(self):
        run("save_checkpoint", self.path("few"), 1, 20, 64)
        self.assert_has(self.path("few"), self.few, 1)

    def test_the_meta_graph_has_the_option_sharded(self):
        run("save_checkpoint", self.path("few"), 1, 20, 3)
        meta = tf.MetaGraphDef()
        meta.ParseFromString(pathlib.Path(self.path("few.meta")).read_bytes())
        self.assertTrue(meta.saver_def.sharded)


class TrainedModel(TestCase):
    """The files of a training session: ten steps, saved every five."""

    def setUp(self):
        super().setUp()
        self.run_directory = self.directory / "run"
        run("train_model", self.run_directory)
        self.newest = str(self.run_directory / "model.ckpt-10")

    def number(self, prefix, name):
        return struct.unpack("<Q", tf.train.load_checkpoint(prefix).get_tensor(name).tobytes())[0]

    def test_the_newest_is_found(self):
        self.assertEqual(tf.train.latest_checkpoint(str(self.run_directory)), self.newest)
        self.assertTrue(tf.train.checkpoint_exists(self.newest))

    def test_variables_and_state_are_listed(self):
        self.assertEqual(tf.train.list_variables(self.newest),
                         [("global_step", []), ("hooksess/hook/counter", [8]),
                          ("hooksess/schedule/checkpoint_saver", [24]), ("hooksess/schedule/step_counter", [24]), ("hooksess/schedule/summary_saver", [24]), ("hooksess/state/position", [8]),
                          ("hooksess/state/position:identity", []), ("hooksess/state/position:version", []),
                          ("weights", [3])])
        types = tf.train.load_checkpoint(self.newest).get_variable_to_dtype_map()
        self.assertEqual(types["hooksess/hook/counter"], tensorflow.uint8)
        self.assertEqual(types["hooksess/state/position"], tensorflow.uint8)
        self.assertEqual(types["hooksess/state/position:identity"], tensorflow.string)
        self.assertEqual(types["hooksess/state/position:version"], tensorflow.int64)

    def test_version_and_identity_are_read(self):
        reader = tf.train.load_checkpoint(self.newest)
        self.assertEqual(reader.get_tensor("hooksess/state/position:version"), 2)
        self.assertEqual(reader.get_tensor("hooksess/state/position:identity").decode(), "seven a step, caf\u00e9")

    def test_the_state_is_that_of_the_step(self):
        for step in (5, 10):
            prefix = str(self.run_directory / f"model.ckpt-{step}")
            self.assertEqual(tf.train.load_variable(prefix, "global_step"), step)
            self.assertEqual(tf.train.load_variable(prefix, "weights").tolist(), [step] * 3)
            self.assertEqual(self.number(prefix, "hooksess/hook/counter"), step)
            self.assertEqual(self.number(prefix, "hooksess/state/position"), 7 * step)

    def test_cm_024s_the_state_file_is_parsed(self):
        state = tf.train.get_checkpoint_state(str(self.run_directory))
        wanted = [str(self.run_directory / f"model.ckpt-{step}") for step in (0, 5, 10)]
        self.assertEqual(state.model_checkpoint_path, wanted[-1])
        self.assertEqual(list(state.all_model_checkpoint_paths), wanted)
        times = list(state.all_model_checkpoint_timestamps)
        self.assertEqual((len(times), times), (3, sorted(times)))

    def test_sa_002_the_directory_can_be_moved(self):
        moved = self.directory / "elsewhere"
        self.run_directory.rename(moved)
        newest = tf.train.latest_checkpoint(str(moved))
        self.assertEqual(newest, str(moved / "model.ckpt-10"))
        self.assertEqual(tf.train.load_variable(newest, "weights").tolist(), [10] * 3)

    def test_a_relative_directory_will_do(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.directory)
        newest = tf.train.latest_checkpoint("run")
        self.assertEqual(newest, "run/model.ckpt-10")
        self.assertEqual(tf.train.load_variable(newest, "weights").tolist(), [10] * 3)

    def test_the_times_of_the_files_are_found(self):
        times = tf.train.get_checkpoint_mtimes(tf.train.get_checkpoint_state(
            str(self.run_directory)).all_model_checkpoint_paths)
        self.assertEqual(len(times), 3)

    def test_tensorflow_removes_it(self):
        tf.train.remove_checkpoint(self.newest)
        self.assertEqual(list(self.run_directory.glob("model.ckpt-10*")), [])

    def test_bh_035_the_graph_is_parsed(self):
        graph = text_format.Parse((self.run_directory / "graph.pbtxt").read_text(), tf.GraphDef())
        nodes = {node.name: node for node in graph.node}
        self.assertLessEqual({"weights", "loss", "train", "summaries", "global_step"}, nodes.keys())
        self.assertIn("weights", nodes["train"].input)
        self.assertEqual(nodes["weights"].attr["dtype"].type, tensorflow.float32.as_datatype_enum)
        self.assertEqual([dim.size for dim in nodes["weights"].attr["shape"].shape.dim], [3])

    def test_the_meta_graph_is_parsed(self):
        meta = tf.MetaGraphDef()
        meta.ParseFromString((self.run_directory / "model.ckpt-10.meta").read_bytes())
        graph = text_format.Parse((self.run_directory / "graph.pbtxt").read_text(), tf.GraphDef())
        self.assertEqual(meta.graph_def, graph)
        self.assertEqual(meta.saver_def.version, tf.train.SaverDef.V2)
        self.assertEqual(meta.saver_def.max_to_keep, 5)


class OldCheckpoints(TestCase):
    def test_deleted_checkpoints_are_gone_and_the_others_are_read(self):
        run("train_model", "-s", 2, "-l", 16, self.directory / "run")
        kept = [f"model.ckpt-{step}" for step in (8, 10, 12, 14, 16)]
        self.assertEqual(sorted(path.stem for path in (self.directory / "run").glob("*.index")), sorted(kept))
        for name in kept:
            prefix = str(self.directory / "run" / name)
            self.assertEqual(f"model.ckpt-{tf.train.load_variable(prefix, 'global_step')}", name)


class Damage(CheckpointCase):
    def test_tensorflow_sees_a_damaged_byte_too(self):
        run("save_checkpoint", self.path("few"), 0, 20)
        path = self.directory / "few.data-00000-of-00001"
        contents = bytearray(path.read_bytes())
        contents[17] ^= 1  # in the second variable
        path.write_bytes(contents)
        reader = tf.train.load_checkpoint(self.path("few"))
        self.assertEqual(bits(reader.get_tensor(small_name(0))), bits(values(small_name(0), tensorflow.float32, [3])))
        with self.assertRaisesRegex(tensorflow.errors.OpError, "Checksum does not match"):
            reader.get_tensor(small_name(1))


if __name__ == "__main__":
    unittest.main()
