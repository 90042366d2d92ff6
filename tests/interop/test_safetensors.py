# SPDX-License-Identifier: Apache-2.0
"""The safetensors package and this library read each other's files, and refuse the same invalid files."""
import json
import struct
import unittest

import numpy
import safetensors
import safetensors.numpy

from support import TestCase, run, run_failing, tensorflow, tf
from values import values

# The format's names of types, and the variables of safetensors.c.
TYPES = {"F64": tensorflow.float64, "F32": tensorflow.float32, "F16": tensorflow.float16, "BF16": tensorflow.bfloat16,
         "I64": tensorflow.int64, "I32": tensorflow.int32, "I16": tensorflow.int16, "I8": tensorflow.int8,
         "U64": tensorflow.uint64, "U32": tensorflow.uint32, "U16": tensorflow.uint16, "U8": tensorflow.uint8,
         "BOOL": tensorflow.bool, "C64": tensorflow.complex64}
VARIABLES = {f"types/{name}": (name, [3, 5]) for name in TYPES} | {
    "shapes/scalar": ("F64", []),
    "shapes/one": ("I64", [1]),
    "shapes/empty": ("F32", [0, 5]),
    "shapes/empty_inside": ("I32", [16, 0, 18]),
    "shapes/long": ("U8", [0x1618]),
    "shapes/rank8": ("I16", [1, 2, 1, 3, 1, 2, 2, 1]),
    "ü\n\"": ("F32", [2]),
}
METADATA = {"format": "pt", "ü\"": "a\nb"}


def value(name):
    kind, shape = VARIABLES[name]
    return values(name if "/" in name else "names/odd", TYPES[kind], shape)


def file_of(header, data=b"", padding=b""):
    """Writes a file by hand."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text + padding)) + text + padding + data


def header_of(contents):
    """The header, and the offset of the data."""
    end = 8 + struct.unpack("<Q", contents[:8])[0]
    return json.loads(contents[8:end]), end


class Case(TestCase):
    def ours(self):
        run("safetensors", "save", self.path("ours.safetensors"))
        return (self.directory / "ours.safetensors").read_bytes()

    def write(self, name, contents):
        (self.directory / name).write_bytes(contents)
        return self.path(name)


class TheyReadOurs(Case):
    def test_every_type_and_shape(self):
        found = {name: (view["dtype"], view["shape"], bytes(view["data"]))
                 for name, view in safetensors.deserialize(self.ours())}
        self.assertEqual(found, {name: (kind, shape, value(name).tobytes()) for name, (kind, shape) in VARIABLES.items()})

    def test_as_numpy_arrays(self):
        self.ours()
        with safetensors.safe_open(self.path("ours.safetensors"), "np") as opened:
            self.assertEqual(opened.metadata(), METADATA)
            for name, (kind, _) in VARIABLES.items():
                if kind == "BF16":
                    continue  # which numpy itself has not
                with self.subTest(variable=name):
                    found = opened.get_tensor(name)
                    self.assertEqual(found.dtype, value(name).dtype)
                    numpy.testing.assert_array_equal(found, value(name), strict=True)

    def test_data_are_aligned(self):
        header, data = header_of(self.ours())
        self.assertEqual(data % 64, 0)
        for name, (kind, _) in VARIABLES.items():
            self.assertEqual(header[name]["data_offsets"][0] % TYPES[kind].size, 0, name)

    def test_the_header_goes_as_the_data_do_and_large_elements_come_first(self):
        """Which is how the package writes."""
        for contents in (self.ours(), safetensors.numpy.save({"a": numpy.int8([1, 2]), "b": numpy.float64([3])})):
            header, _ = header_of(contents)
            header.pop("__metadata__", None)
            offsets = [entry["data_offsets"] for entry in header.values()]
            sizes = [TYPES[entry["dtype"]].size for entry in header.values()]
            self.assertEqual(offsets, sorted(offsets))
            self.assertEqual(sizes, sorted(sizes, reverse=True))


class WeReadTheirs(Case):
    def test_every_type_and_shape(self):
        tensors = {name: value(name) for name in VARIABLES}
        safetensors.numpy.save_file(tensors, self.path("theirs.safetensors"), METADATA)
        run("safetensors", "load", self.path("theirs.safetensors"))

    def test_without_metadata(self):
        safetensors.numpy.save_file({name: value(name) for name in VARIABLES}, self.path("theirs.safetensors"))
        run("safetensors", "load", self.path("theirs.safetensors"))

    def test_values_are_compared_at_all(self):
        tensors = {name: value(name) for name in VARIABLES}
        tensors["types/I16"] = tensors["types/I16"] + numpy.int16(1)
        safetensors.numpy.save_file(tensors, self.path("theirs.safetensors"))
        self.assertIn("types/I16 has other values", run_failing("safetensors", "load", self.path("theirs.safetensors")))


class BothAccept(Case):
    """This library lists each file that the package accepts, and reads the same bytes."""

    def assert_same(self, header, data, padding=b""):
        contents = file_of(header, data, padding)
        wanted = {name: (view["shape"], bytes(view["data"])) for name, view in safetensors.deserialize(contents)}
        out = self.directory / "dump"
        out.mkdir(exist_ok=True)
        found = {}
        for number, line in enumerate(run("dump_checkpoint", self.write("m.safetensors", contents), out).splitlines()):
            name, _, shape, code = line.split("\t")
            self.assertEqual(code, "OK", line)
            found[name] = None if shape == "?" else json.loads(shape), (out / str(number)).read_bytes()
        self.assertEqual({name: (shape if len(shape) <= 8 and max([0, *shape]) < 2**63 else None, data)
                          for name, (shape, data) in wanted.items()}, found)

    def test_every_dtype(self):
        for kind, elements, size in ("F8_E4M3", 3, 3), ("F8_E5M2", 3, 3), ("F8_E8M0", 3, 3), ("F8_E4M3FNUZ", 3, 3), \
                ("F8_E5M2FNUZ", 3, 3), ("F6_E2M3", 4, 3), ("F6_E3M2", 8, 6), ("F4", 6, 3), ("F4", 0, 0):
            with self.subTest(dtype=kind):
                self.assert_same({"x": {"dtype": kind, "shape": [elements], "data_offsets": [0, size]}}, b"abcdef"[:size])

    def test_every_shape(self):
        for shape in [1] * 9 + [2], [0, 2**63], [2**64 - 1, 0], [0, 2**62, 4]:
            with self.subTest(shape=shape):
                size = 2 if shape[-1] == 2 else 0
                self.assert_same({"x": {"dtype": "U8", "shape": shape, "data_offsets": [0, size]}}, b"ab"[:size])

    def test_headers_by_hand(self):
        plain = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
        for header in b' \t\r\n {"x":%s}', b'{"__metadata__":null,"x":%s}', b'{"__metadata__":{"a":"b","a":"c"},"x":%s}', \
                b'{"x":%s,"\\u00fc\\ud83d\\ude00\\/":{"shape":[0],"data_offsets":[2,2],"dtype":"F32"}}':
            with self.subTest(header=header):
                self.assert_same(header % json.dumps(plain).encode(), b"ab", b"\n ")
        for more in {"scale": 2}, {"scale": {"a": [1, None, {}, 1e300]}, "b": ""}:
            with self.subTest(more=more):
                self.assert_same({"x": plain | more}, b"ab")
        self.assert_same(b'{"x":{"s":1,"s":2,%s}' % json.dumps(plain)[1:].encode(), b"ab")


class BothRefuse(Case):
    """This library refuses each file that the package refuses, but lists dtypes of the future."""

    plain = {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}

    def codes(self, files):
        paths = [self.write(f"{number}.safetensors", contents) for number, contents in enumerate(files)]
        return run("safetensors", "try", *paths).split()

    def theirs(self, contents):
        try:
            safetensors.deserialize(contents)
            return True
        except safetensors.SafetensorError:
            return False

    def assert_not_laxer(self, files):
        """Returns how many of them each has accepted."""
        files = list(files)
        taken = [0, 0]
        for contents, code in zip(files, self.codes(files), strict=True):
            theirs = self.theirs(contents)
            self.assertIn(code, ("OK", "DATA_LOSS", "UNKNOWN"))
            self.assertTrue(theirs or code != "OK", contents[:200])
            taken[0] += theirs
            taken[1] += code == "OK"
        return taken

    def entry(self, **changes):
        return {"x": self.plain["x"] | changes}

    def test_headers_by_hand(self):
        eight = bytes(8)
        theirs, ours = self.assert_not_laxer([
            file_of(self.plain, eight), file_of(self.plain, eight, b" " * 57), file_of({}),
            file_of(self.plain, eight[1:]), file_of(self.plain, eight + b"\0"), file_of(self.plain, eight, b"\0"),
            file_of(self.entry(shape=[3]), eight), file_of(self.entry(shape=[-2]), eight), file_of(self.entry(shape=[2.0]), eight),
            file_of(self.entry(shape=[2**62, 4]), eight), file_of(self.entry(shape=[2**64]), eight),
            file_of(self.entry(data_offsets=[8, 16]), bytes(16)), file_of(self.entry(data_offsets=[8, 0]), eight),
            file_of(self.entry(data_offsets=[0]), eight), file_of(self.entry(dtype="F33"), eight),
            file_of({"x": {"dtype": "F32", "shape": [2]}}, eight), file_of(self.plain | {"__metadata__": {"a": 1}}, eight),
            file_of(self.plain | {"y": self.plain["x"]}, eight), file_of(b"{\"\xff\":1}"), file_of(b"{" * 500),
            struct.pack("<Q", 100_000_001) + bytes(8), struct.pack("<Q", 2**63), bytes(7), b"",
        ])
        self.assertEqual((theirs, ours), (3, 3))

    def test_every_truncation(self):
        whole = file_of(self.plain | {"y": {"dtype": "BOOL", "shape": [], "data_offsets": [8, 9]}}, bytes(9), b"   ")
        theirs, ours = self.assert_not_laxer(whole[:length] for length in range(len(whole) + 1))
        self.assertEqual((theirs, ours), (1, 1))

    def test_changed_bytes_of_a_header(self):
        whole = file_of(self.plain, bytes(8), b" ")
        changed = [whole[:at] + bytes([byte]) + whole[at + 1:]
                   for at in range(len(whole) - 8) for byte in b"\0 \"0289F:,[]{}~\xff" if whole[at] != byte]
        theirs, ours = self.assert_not_laxer(changed)
        self.assertGreater(ours, 10)  # another letter in the name


class Conversion(Case):
    def test_a_tensorflow_checkpoint_becomes_a_file(self):
        names = [name for name in VARIABLES if name.isprintable()]
        tensorflow.raw_ops.SaveV2(prefix=self.path("theirs"), tensor_names=names, shape_and_slices=[""] * len(names),
                                  tensors=[value(name) for name in names])
        run("safetensors", "convert", self.path("theirs"), self.path("m.safetensors"))
        found = dict(safetensors.deserialize((self.directory / "m.safetensors").read_bytes()))
        self.assertEqual(found.keys(), set(names))
        for name in names:
            self.assertEqual(bytes(found[name]["data"]), value(name).tobytes(), name)

    def test_a_file_becomes_a_tensorflow_checkpoint(self):
        safetensors.numpy.save_file({name: value(name) for name in VARIABLES}, self.path("m.safetensors"))
        run("safetensors", "convert", self.path("m.safetensors"), self.path("ours"))
        reader = tf.train.load_checkpoint(self.path("ours"))
        self.assertEqual(reader.get_variable_to_shape_map(), {name: shape for name, (_, shape) in VARIABLES.items()})
        for name in VARIABLES:
            found = reader.get_tensor(name)
            self.assertEqual((found.dtype, found.tobytes()), (value(name).dtype, value(name).tobytes()), name)

    def test_state_of_a_training_session_is_saved(self):
        run("train_model", self.directory / "run")
        run("safetensors", "convert", self.directory / "run/model.ckpt-10", self.path("m.safetensors"))
        found = safetensors.numpy.load_file(self.path("m.safetensors"))
        self.assertEqual(found["global_step"], 10)
        self.assertEqual(found["hooksess/hook/counter"].dtype, numpy.uint8)
        self.assertEqual(struct.unpack("<Q", found["hooksess/hook/counter"].tobytes())[0], 10)

    def test_strings_are_refused_by_name(self):
        tensorflow.raw_ops.SaveV2(prefix=self.path("theirs"), tensor_names=["text"], shape_and_slices=[""],
                                  tensors=[numpy.array(b"abc", object)])
        self.assertIn("'text' has dtype string, which safetensors does not support",
                      run_failing("safetensors", "convert", self.path("theirs"), self.path("m.safetensors")))


if __name__ == "__main__":
    unittest.main()
