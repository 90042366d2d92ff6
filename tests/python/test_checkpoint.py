# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that the C library writes are numpy arrays."""
import errno
import gc
import os
import pathlib
import pickle
import struct
import sys
import threading
import unittest
from unittest import mock

import hooksess
import numpy
from numpy.testing import assert_array_equal
from support import TestCase, run


class Trained(TestCase):
    def setUp(self):
        super().setUp()
        run("python/write_run", self.directory, 5)

    def test_the_newest_checkpoint_of_a_directory_is_found(self):
        self.assertEqual(hooksess.latest(self.directory), str(self.directory / "model.ckpt-5"))
        (self.directory / "empty").mkdir()
        self.assertIsNone(hooksess.latest(self.directory / "empty"))

    def test_a_checkpoint_is_named_by_directory_prefix_or_index_file(self):
        for path, step in ((self.directory, 5), (self.directory / "model.ckpt-2", 2), (f"{self.directory}/model.ckpt-4.index", 4)):
            with hooksess.Checkpoint(path) as checkpoint:
                assert_array_equal(checkpoint["weights"], numpy.full((2, 3), step, numpy.float32))
                self.assertEqual(checkpoint["global_step"], step)
                self.assertEqual(checkpoint.prefix, str(self.directory / f"model.ckpt-{step}"))

    def test_a_checkpoint_is_a_mapping_of_variables_without_states(self):
        with hooksess.Checkpoint(self.directory) as checkpoint:
            self.assertEqual(set(checkpoint), {"global_step", "weights"})
            self.assertEqual(len(checkpoint), 2)
            self.assertEqual(set(dict(checkpoint)), {"global_step", "weights"})
            self.assertNotIn("hooksess/state/plain", checkpoint)
            with self.assertRaises(KeyError):
                checkpoint["hooksess/state/plain"]
            with self.assertRaises(KeyError):
                checkpoint["no such variable"]

    def test_a_variable_is_described_without_being_read(self):
        with hooksess.Checkpoint(self.directory) as checkpoint:
            self.assertEqual(checkpoint.info("weights"), hooksess.TensorInfo("weights", numpy.dtype("float32"), "float", (2, 3), 24))

    def test_an_unknown_name_is_a_key_error_with_checkpoint_and_near_names(self):
        with hooksess.Checkpoint(self.directory) as checkpoint:
            uses = (("weihgts", "weights", checkpoint.__getitem__), ("weight", "weights", checkpoint.info), ("weigths", "weights", checkpoint.read),
                    ("global_stp", "global_step", checkpoint.__getitem__), ("position", "state/position", checkpoint.states().__getitem__))
            for name, near, use in uses:
                with self.subTest(name=name), self.assertRaises(KeyError) as raised:
                    use(name)
                (message,) = raised.exception.args
                self.assertRegex(message, f"^no (variable|state) '{name}' in '{checkpoint.prefix}'; near names: .*'{near}'")
            with self.assertRaises(KeyError) as raised:
                checkpoint["xyzzy"]
            self.assertEqual(raised.exception.args, (f"no variable 'xyzzy' in '{checkpoint.prefix}'",))
            self.assertIsNone(checkpoint.get("xyzzy"))

    def test_states_have_bytes_version_and_identity(self):
        with hooksess.Checkpoint(self.directory) as checkpoint:
            states = checkpoint.states()
        self.assertEqual(states["state/plain"], hooksess.State("state/plain", struct.pack("=q", 50), 0, None))
        self.assertEqual(states["state/position"], hooksess.State("state/position", struct.pack("=q", 50), 3, "data set größe 7"))
        self.assertEqual(states["hook/chart"].data, b"abc")
        self.assertEqual(len(states["schedule/checkpoint_saver"].data), 24)
        self.assertFalse([name for name in states if ":" in name])

    def test_a_safetensors_file_opens_like_a_checkpoint(self):
        header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"n":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}'
        path = self.directory / "weights.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<ffq", 1.5, -2, 7))
        with hooksess.Checkpoint(path) as checkpoint:
            self.assertEqual(list(checkpoint), ["n", "w"])
            assert_array_equal(checkpoint["w"], numpy.array([1.5, -2], numpy.float32))
            assert_array_equal(checkpoint.read("w", numpy.s_[1:]), numpy.array([-2], numpy.float32))
            self.assertEqual(checkpoint["n"], 7)
            with self.assertRaisesRegex(hooksess.Error, "UNIMPLEMENTED"):
                checkpoint.verify()

    def test_unknown_dtypes_of_a_safetensors_file_are_read_as_bytes(self):
        header = b'{"w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"r":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[2,3]}}'
        path = self.directory / "weights.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + b"\x38\xb8\x07")
        with hooksess.Checkpoint(path) as checkpoint:
            self.assertEqual(checkpoint.info("w"), hooksess.TensorInfo("w", numpy.dtype("uint8"), "F8_E4M3", (2,), 2))
            self.assertEqual(checkpoint.info("r"), hooksess.TensorInfo("r", numpy.dtype("uint8"), "uint8", None, 1))
            assert_array_equal(checkpoint["w"], numpy.array([0x38, 0xb8], numpy.uint8))
            assert_array_equal(checkpoint["r"], numpy.array([7], numpy.uint8))
            with self.assertRaisesRegex(TypeError, "'w' has the unknown type 0"):
                checkpoint.read("w", 0)

    def test_damage_is_an_error_with_the_message_of_the_library(self):
        data = next(self.directory.glob("model.ckpt-5.data-*"))
        content = bytearray(data.read_bytes())
        content[:] = bytes(byte ^ 1 for byte in content)
        data.write_bytes(content)
        with hooksess.Checkpoint(self.directory) as checkpoint:
            for read in (lambda: checkpoint["weights"], lambda: checkpoint.read("weights", 0), checkpoint.verify):
                with self.assertRaises(hooksess.Error) as raised:
                    read()
                self.assertEqual((raised.exception.code, raised.exception.name), (15, "DATA_LOSS"))
                self.assertIn("model.ckpt-5.data-00000-of-00001", raised.exception.message)

    def test_an_intact_checkpoint_is_verified(self):
        with hooksess.Checkpoint(self.directory) as checkpoint:
            checkpoint.verify()

    def test_a_closed_checkpoint_is_not_read(self):
        checkpoint = hooksess.Checkpoint(self.directory)
        checkpoint.close()
        checkpoint.close()
        for read in (lambda: checkpoint["weights"], lambda: checkpoint.read("weights", 0), checkpoint.verify):
            with self.assertRaisesRegex(ValueError, "closed"):
                read()

    def test_threads_read_one_checkpoint(self):
        wrong = []

        def read():
            for _ in range(50):
                if (checkpoint["weights"] != 5).any() or checkpoint.read("weights", (1, 2)) != 5:
                    wrong.append(threading.current_thread())

        with hooksess.Checkpoint(self.directory) as checkpoint:
            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertFalse(wrong)

    @unittest.skipUnless(pathlib.Path("/proc/self/fd").is_dir(), "needs /proc")
    def test_a_forgotten_checkpoint_closes_its_files(self):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            self.assertEqual(hooksess.Checkpoint(self.directory)["weights"].shape, (2, 3))
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_nothing_is_written(self):
        before = {path: path.stat().st_mtime_ns for path in self.directory.iterdir()}
        with hooksess.Checkpoint(self.directory) as checkpoint:
            checkpoint.verify()
            checkpoint.states()
        list(hooksess.events(self.directory))
        self.assertIsNotNone(hooksess.status(self.directory))
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.directory.iterdir()}, before)


class Failures(TestCase):
    def test_a_missing_path_is_a_file_not_found_error(self):
        none = self.directory / "none"
        for use, path in ((hooksess.Checkpoint, none), (hooksess.Checkpoint, self.directory), (hooksess.latest, none), (hooksess.status, none),
                          (hooksess.outcome, none), (lambda path: list(hooksess.events(path)), none),
                          (lambda path: hooksess.scalars(path, "loss"), none), (hooksess.all_scalars, none)):
            with self.subTest(use=use, path=path), self.assertRaises(FileNotFoundError) as raised:
                use(path)
            error = raised.exception
            self.assertIsInstance(error, hooksess.Error)
            self.assertEqual((error.code, error.name, error.errno), (5, "NOT_FOUND", errno.ENOENT))
            self.assertEqual(error.filename, str(path))
            self.assertTrue(error.message.startswith(f"{path}: {'contains no checkpoint' if path.exists() else 'No such file or directory'}"), error)
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy), copy.errno, copy.filename), (type(error), str(error), errno.ENOENT, str(path)))

    def test_a_missing_checkpoint_is_named_as_it_was_given(self):
        for name, index in ("none", "none.index"), ("none.index", "none.index"):
            with self.assertRaises(FileNotFoundError) as raised:
                hooksess.Checkpoint(self.directory / name)
            self.assertEqual(raised.exception.message, f"{self.directory / name}: No such file or directory, and no checkpoint "
                                                       f"({self.directory / index} does not exist)")

    def test_another_file_is_refused(self):
        file = self.directory / "train.py"
        file.write_text("import hooksess\n")
        with self.assertRaises(hooksess.Error) as raised:
            hooksess.Checkpoint(file)
        self.assertEqual((raised.exception.name, raised.exception.code), ("INVALID_ARGUMENT", 3))
        self.assertIn(f"{file}: is not a checkpoint: name a prefix", raised.exception.message)

    def test_a_file_in_place_of_a_directory_is_refused(self):
        file = self.directory / "train.py"
        file.write_text("import hooksess\n")
        for use in hooksess.latest, hooksess.status, hooksess.outcome:
            with self.subTest(use=use), self.assertRaisesRegex(hooksess.Error, f"INVALID_ARGUMENT: {file}: is not a directory"):
                use(file)

    def test_a_damaged_state_file_is_an_error(self):
        (self.directory / "checkpoint").write_text("model_checkpoint_path: {")
        with self.assertRaises(hooksess.Error) as raised:
            hooksess.latest(self.directory)
        self.assertEqual(raised.exception.name, "DATA_LOSS")

    def test_a_null_byte_in_a_path_is_refused(self):
        for use in (hooksess.latest, hooksess.Checkpoint, lambda path: list(hooksess.events(path))):
            with self.assertRaises(ValueError):
                use("a\0b")


class AllTypes(TestCase):
    def setUp(self):
        super().setUp()
        run("interop/save_checkpoint", self.directory / "all", 0)
        self.checkpoint = hooksess.Checkpoint(self.directory / "all")
        self.addCleanup(self.checkpoint.close)

    def test_every_type_has_its_array(self):
        expected = {
            "float": "float32", "double": "float64", "half": "float16", "complex64": "complex64", "complex128": "complex128",
            "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
            "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "qint8": "int8", "qint16": "int16", "qint32": "int32",
            "quint8": "uint8", "quint16": "uint16",
        }
        for name, dtype in expected.items():
            with self.subTest(dtype=name):
                array = self.checkpoint[f"types/{name}"]
                self.assertEqual((array.dtype, array.shape), (numpy.dtype(dtype), (3, 5)))
                info = self.checkpoint.info(f"types/{name}")
                self.assertEqual((info.dtype, info.stored_as), (array.dtype, name))

    def test_read_values_equal_saved_values(self):
        seed = 0
        for byte in b"types/float":
            seed = (seed * 31 + byte) % 2**32
        whole = (seed % 101 + numpy.arange(15) * 37) % 101  # tests/interop/values.c
        assert_array_equal(self.checkpoint["types/float"], ((whole - 50) / 4).astype(numpy.float32).reshape(3, 5))

    def test_bfloat16_has_its_bits_with_and_without_ml_dtypes(self):
        with mock.patch.dict(sys.modules, {"ml_dtypes": None}):
            raw = self.checkpoint["types/bfloat16"]
            info = self.checkpoint.info("types/bfloat16")
        self.assertEqual((info.dtype, info.stored_as), (numpy.dtype("uint16"), "bfloat16"))
        self.assertEqual(raw.dtype, numpy.uint16)
        wide = (raw.astype(numpy.uint32) << 16).view(numpy.float32)
        assert_array_equal(wide * 4, numpy.rint(wide * 4))  # the values are quarters
        self.assertGreater(numpy.unique(wide).size, 5)
        try:
            import ml_dtypes
        except ImportError:
            return
        array = self.checkpoint["types/bfloat16"]
        self.assertEqual(array.dtype, ml_dtypes.bfloat16)
        assert_array_equal(array.astype(numpy.float32), wide)

    def test_unusual_shapes(self):
        for name, shape in (("scalar", ()), ("one", (1,)), ("empty", (0, 5)), ("empty_inside", (16, 0, 18)),
                            ("rank8", (1, 2, 1, 3, 1, 2, 2, 1)), ("20_MiB", (5, 1024 * 1024))):
            with self.subTest(shape=name):
                self.assertEqual(self.checkpoint[f"shapes/{name}"].shape, shape)

    def test_a_part_is_what_numpy_gives(self):
        for name, parts in {
            "types/int32": (0, -1, slice(1, 3), (1, 2), (slice(None), 4), (slice(-2, None), slice(0, 2)), (..., 1),
                            (1, ...), slice(2, 1), (numpy.int64(2), slice(1, 2)), (slice(0, 99), slice(-99, 2))),
            "shapes/rank8": ((0, slice(1, 2), ..., 1, 0), (..., 0), (slice(None), 1, 0, 2, 0, 1, 1, 0)),
            "shapes/scalar": ((), (...,)),
            "shapes/empty": ((slice(None), 2),),
            "types/bfloat16": ((1, slice(2, 4)),),
            "types/bool": (1,),
        }.items():
            whole = self.checkpoint[name]
            for part in parts:
                with self.subTest(name=name, part=part):
                    array = self.checkpoint.read(name, part)
                    self.assertEqual(array.dtype, whole.dtype)
                    assert_array_equal(array, whole[part], strict=True)

    def test_a_part_outside_of_the_variable_is_refused(self):
        for part in (3, -4, (0, 5), (0, 0, 0), slice(0, 3, 2), (..., ...), "x", None, 1.5):
            with self.subTest(part=part), self.assertRaises(IndexError):
                self.checkpoint.read("types/int32", part)


class Strings(TestCase):
    def make(self, prefix, *lines):
        run("tool/make_checkpoint", prefix, given="".join(lines).encode())

    def test_strings_are_bytes(self):
        texts = [b"", b"a\0b", "größe".encode(), b"x" * 1000]
        self.make(self.directory / "s", f"={b'names'.hex()} 7 2,2, ={','.join(text.hex() for text in texts)}\n")
        with hooksess.Checkpoint(self.directory / "s") as checkpoint:
            self.assertEqual(checkpoint["names"].tolist(), [texts[:2], texts[2:]])
            info = checkpoint.info("names")
            self.assertEqual((info.dtype, info.stored_as), (checkpoint["names"].dtype, "string"))
            with self.assertRaisesRegex(TypeError, "names"):
                checkpoint.read("names", 0)

    def test_a_variable_in_slices_is_one_array(self):
        numbers = numpy.arange(12, dtype=numpy.int32).reshape(4, 3)
        name = b"cut".hex()
        self.make(self.directory / "s", *(f"={name} 3 {end - begin},3, ={numbers[begin:end].tobytes().hex()} {begin},0, 4,3,\n"
                                          for begin, end in ((0, 3), (3, 4))))
        with hooksess.Checkpoint(self.directory / "s") as checkpoint:
            assert_array_equal(checkpoint["cut"], numbers)
            assert_array_equal(checkpoint.read("cut", slice(2, 4)), numbers[2:4])

    def test_a_name_may_hold_any_bytes(self):
        self.make(self.directory / "s", f"={bytes([0xff, 0x41]).hex()} 4 2, =0102\n")
        with hooksess.Checkpoint(self.directory / "s") as checkpoint:
            (name,) = checkpoint
            self.assertEqual(checkpoint[name].tolist(), [1, 2])

    def test_a_state_with_an_invalid_identity_is_an_error(self):
        key = b"hooksess/state/position"
        self.make(self.directory / "s", f"={key.hex()} 4 2, =0102\n", f"={(key + b':identity').hex()} 4 1, =07\n")
        with hooksess.Checkpoint(self.directory / "s") as checkpoint, self.assertRaises(hooksess.Error) as raised:
            checkpoint.states()
        self.assertIn("hooksess/state/position", raised.exception.message)


if __name__ == "__main__":
    unittest.main()
