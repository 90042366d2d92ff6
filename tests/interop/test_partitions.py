# SPDX-License-Identifier: Apache-2.0
"""Partitioned variables, which TensorFlow saves in slices, are read as a whole and in parts, and restored."""
import subprocess
import unittest

import numpy

from dump import DumpCase
from support import BUILD, TIMEOUT, run, run_failing, tensorflow, tf
from test_our_checkpoints import data_blocks
from values import values

MAKE = BUILD / "tests/tool/make_checkpoint"  # can write slices, which no saver does

TYPES = [tensorflow.dtypes.as_dtype(name) for name in "float double half bfloat16 int32 int64 uint8 int16 bool complex64".split()]
# Ways of cutting [6, 4]: (start, length) of rows, then of columns.
CUTS = {
    "rows": [((0, 1), (0, 4)), ((1, 3), (0, 4)), ((4, 2), (0, 4))],
    "columns": [((0, 6), (0, 3)), ((0, 6), (3, 1))],
    "grid": [((r, 3), (c, 2)) for r in (0, 3) for c in (0, 2)],
    "pinwheel": [((0, 4), (3, 1)), ((0, 1), (0, 3)), ((1, 3), (1, 2)), ((4, 2), (1, 3)), ((1, 5), (0, 1))],
}


def spec(shape, cut):
    """The format of the op SaveV2."""
    return " ".join(map(str, shape)) + " " + ":".join(f"{start},{length}" for start, length in cut)


def part_of(array, cut):
    return array[tuple(slice(start, start + length) for start, length in cut)]


def save_slices(prefix, tensors):
    """Writes {name: (array, its cuts)}."""
    names, specs, slices = [], [], []
    for name, (array, cuts) in tensors.items():
        for cut in cuts:
            names.append(name)
            specs.append(spec(array.shape, cut))
            slices.append(part_of(array, cut))
    tensorflow.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=specs, tensors=slices)


def initializer_of(array):
    """Sets each slice of a partitioned variable to its part of the array."""
    def initialize(shape, dtype=None, partition_info=None):
        starts = partition_info.var_offset if partition_info else [0] * len(shape)
        return tensorflow.constant(part_of(array, list(zip(starts, map(int, shape)))), dtype)

    return initialize


class Slices(DumpCase):
    def parts(self, prefix, wanted):
        """The result of reading each of [(name, cut, bytes)]."""
        out = self.directory / "parts"
        out.mkdir(exist_ok=True)
        lines = [f"{name} {''.join(f'{start},' for start, _ in cut) or '-'} {''.join(f'{n},' for _, n in cut) or '-'} {size}\n"
                 for name, cut, size in wanted]
        said = run("read_slices", prefix, out, given="".join(lines)).splitlines()
        self.assertEqual(len(said), len(wanted))
        return [(line.split(" ", 1), (out / str(number)).read_bytes()) for number, line in enumerate(said)]

    def assert_every_part(self, prefix, name, array):
        rows, columns = array.shape
        cuts = [((r, n), (c, m)) for r in range(rows) for n in range(1, rows - r + 1)
                for c in range(columns) for m in range(1, columns - c + 1)]
        wanted = [part_of(array, cut).tobytes() for cut in cuts]
        found = self.parts(prefix, [(name, cut, len(part)) for cut, part in zip(cuts, wanted)])
        self.assertEqual([part for _, part in found], wanted)

    def test_tb_006_partitioned_variables_as_a_whole(self):
        partitioners = {"rows": tf.fixed_size_partitioner(3), "columns": tf.fixed_size_partitioner(2, axis=1),
                        "sizes": tf.variable_axis_size_partitioner(40)}
        arrays = {f"{how}/{dtype.name}": (dtype, values(how, dtype, [6, 4])) for how in partitioners for dtype in TYPES}
        with tf.Graph().as_default(), tf.Session() as session:
            for name, (dtype, array) in arrays.items():
                tf.get_variable(name, initializer=initializer_of(array), shape=[6, 4], dtype=dtype,
                                partitioner=partitioners[name.split("/")[0]], use_resource=True)
            tf.get_variable("whole", initializer=numpy.float32(3))
            session.run(tf.global_variables_initializer())
            prefix = tf.train.Saver().save(session, self.path("model"))
        self.assertTrue(b"\0columns/bfloat16\0\1" in (self.directory / "model.index").read_bytes())
        self.assert_reads(prefix, {**arrays, "whole": (tensorflow.float32, numpy.float32(3))})

    def test_tb_006_every_part_of_every_cut(self):
        for how, cuts in CUTS.items():
            with self.subTest(cut=how):
                array = values(how, tensorflow.float32, [6, 4])
                save_slices(self.path(how), {"w": (array, cuts)})
                self.assert_reads(self.path(how), {"w": (tensorflow.float32, array)})
                self.assert_every_part(self.path(how), "w", array)

    def test_parts_of_a_whole_tensor(self):
        array = values("whole", tensorflow.float64, [4, 5])
        save_slices(self.path("whole"), {"w": (array, [((0, 4), (0, 5))])})
        self.assert_every_part(self.path("whole"), "w", array)

    def test_tb_007_full_extents_left_out_or_not(self):
        array = values("x", tensorflow.int32, [6, 4])
        for number, spelling in enumerate(("-", "0,4")):
            prefix = self.path(f"m{number}")
            tensorflow.raw_ops.SaveV2(prefix=prefix, tensor_names=["x", "x"],
                                      shape_and_slices=[f"6 4 0,2:{spelling}", f"6 4 2,4:{spelling}"],
                                      tensors=[array[:2], array[2:]])
            self.assert_reads(prefix, {"x": (tensorflow.int32, array)})
            self.assert_every_part(prefix, "x", array)

    def test_names_of_every_kind(self):
        tensors = {name: (values(name, tensorflow.int16, [3]), [((i, 1),) for i in range(3)])
                   for name in ("a", "a/b", "größe", "with space", "x" * 300)}
        save_slices(self.path("m"), tensors)
        self.assert_reads(self.path("m"), {name: (tensorflow.int16, array) for name, (array, _) in tensors.items()})

    def test_many_slices(self):
        array = values("many", tensorflow.float32, [500, 3])
        save_slices(self.path("m"), {"w": (array, [((i, 1), (0, 3)) for i in range(500)])})
        self.assert_reads(self.path("m"), {"w": (tensorflow.float32, array)})
        self.assertEqual(self.parts(self.path("m"), [("w", ((70, 200), (1, 2)), 1600)])[0][1],
                         array[70:270, 1:].tobytes())

    def test_starts_of_every_length(self):
        rows = 1 << 15
        starts = [0, 1, 63, 64, 65, 8191, 8192, 8193, rows]
        array = values("long", tensorflow.uint8, [rows])
        save_slices(self.path("m"), {"w": (array, [((a, b - a),) for a, b in zip(starts, starts[1:])])})
        self.assert_reads(self.path("m"), {"w": (tensorflow.uint8, array)})

    def test_parts_outside_and_of_strings(self):
        save_slices(self.path("m"), {"w": (values("w", tensorflow.float32, [6, 4]), CUTS["grid"]),
                                     "s": (numpy.array([b"a", b"b"], object), [((0, 2),)])})
        found = self.parts(self.path("m"), [("w", ((5, 2), (0, 1)), 8), ("s", ((0, 1),), 8), ("none", (), 4)])
        self.assertEqual([code for (code, _), _ in found], ["INVALID_ARGUMENT", "UNIMPLEMENTED", "NOT_FOUND"])

    def test_the_same_parts_as_the_op_gives(self):
        array = values("w", tensorflow.float32, [6, 4])
        save_slices(self.path("m"), {"w": (array, CUTS["pinwheel"])})
        cuts = [((0, 6), (1, 2)), ((3, 2), (0, 4)), ((2, 1), (2, 1))]
        theirs = tensorflow.raw_ops.RestoreV2(prefix=self.path("m"), tensor_names=["w"] * 3, dtypes=[tensorflow.float32] * 3,
                                              shape_and_slices=[spec([6, 4], cut) for cut in cuts])
        ours = self.parts(self.path("m"), [("w", cut, part.numpy().nbytes) for cut, part in zip(cuts, theirs)])
        self.assertEqual([part for _, part in ours], [part.numpy().tobytes() for part in theirs])

    def test_strings_in_slices_are_listed_and_refused(self):
        save_slices(self.path("m"), {"s": (numpy.array([b"a", b"b"], object), [((0, 1),), ((1, 1),)])})
        self.assertEqual(self.dump(self.path("m"))["s"][:3], (tensorflow.string.as_datatype_enum, [2], "UNIMPLEMENTED"))


@unittest.skipUnless(MAKE.exists(), "the tests of the tool are not built")
class OurSlices(DumpCase):
    def write(self, prefix, tensors):
        """{name: (dtype, array, its cuts)}"""
        def dims(numbers):
            return "".join(f"{number}," for number in numbers)

        lines = [f"={name.encode().hex()} {dtype.as_datatype_enum} {dims(n for _, n in cut)} ={part_of(array, cut).tobytes().hex()} "
                 f"{dims(start for start, _ in cut)} {dims(array.shape)}\n"
                 for name, (dtype, array, cuts) in tensors.items() for cut in cuts]
        subprocess.run([str(MAKE), prefix], input="".join(lines), text=True, check=True, timeout=TIMEOUT)

    def test_tb_006_tb_007_tensorflow_puts_them_together(self):
        tensors = {how: (tensorflow.float32, values(how, tensorflow.float32, [6, 4]), cuts) for how, cuts in CUTS.items()}
        tensors["long"] = tensorflow.int64, values("long", tensorflow.int64, [9000]), [((0, 8191),), ((8191, 809),)]
        tensors["all"] = tensorflow.int16, values("all", tensorflow.int16, [2, 3]), [((0, 2), (0, 3))]
        self.write(self.path("m"), tensors)
        reader = tf.train.load_checkpoint(self.path("m"))
        self.assertEqual(set(reader.get_variable_to_shape_map()), set(tensors))
        for name, (_, array, _) in tensors.items():
            numpy.testing.assert_array_equal(reader.get_tensor(name), array, name)

    def test_the_files_are_theirs_to_the_byte(self):
        """Except keys in the index of blocks, which need not be keys of entries."""
        array = values("w", tensorflow.float32, [6, 4])
        for how, cuts in CUTS.items():
            save_slices(self.path("theirs"), {"w": (array, cuts)})
            self.write(self.path("ours"), {"w": (tensorflow.float32, array, cuts)})
            self.assertEqual(data_blocks(self.path("ours.index")), data_blocks(self.path("theirs.index")))
            contents = [(self.directory / f"{name}.data-00000-of-00001").read_bytes() for name in ("ours", "theirs")]
            self.assertEqual(*contents)


class Restoring(DumpCase):
    def write(self):
        directory = self.directory / "run"
        with tf.Graph().as_default(), tf.Session() as session:
            tf.get_variable("weights", initializer=initializer_of(numpy.float32([5, 6, 7])), shape=[3],
                            partitioner=tf.fixed_size_partitioner(2))
            tf.train.get_or_create_global_step()
            session.run(tf.global_variables_initializer())
            session.run(tf.assign(tf.train.get_global_step(), 3))
            directory.mkdir()
            tf.train.Saver().save(session, str(directory / "model.ckpt"), global_step=3)
        return directory

    def test_a_session_resumes_from_partitioned_variables(self):
        self.assertEqual(run("train_model", "-l", 5, self.write()), "3 5 7 8 9\n")

    def test_damage_of_a_slice_is_reported(self):
        directory = self.write()
        data = directory / "model.ckpt-3.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[:-1] + b"\x55")
        said = run_failing("train_model", "-l", 5, directory)
        self.assertIn("DATA_LOSS", said)
        self.assertIn("checksum mismatch of 'weights'", said)


if __name__ == "__main__":
    unittest.main()
