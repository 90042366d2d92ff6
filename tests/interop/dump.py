# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that TensorFlow writes, and their contents as this library reads them."""
import struct

from support import TestCase, run, tensorflow


def strings_of(contents):
    """The elements of a string tensor, as dump_checkpoint writes them."""
    strings = []
    while contents:
        length = struct.unpack("<Q", contents[:8])[0]
        strings.append(contents[8:8 + length])
        contents = contents[8 + length:]
    return strings


class DumpCase(TestCase):
    def dump(self, prefix):
        """The tensors that this library reads, in its order: {name: (number of the type, shape, result of the read, contents)}."""
        out = self.directory / "dump"
        out.mkdir(exist_ok=True)
        lines = run("dump_checkpoint", prefix, out).splitlines()
        found = {}
        for number, line in enumerate(lines):
            name, dtype, shape, code = line.split("\t")
            shape = [int(size) for size in shape.strip("[]").split(",") if size]
            found[name] = int(dtype), shape, code, (out / str(number)).read_bytes()
        return found

    def assert_reads(self, prefix, tensors):
        found = self.dump(prefix)
        self.assertEqual(list(found), sorted(tensors, key=str.encode))
        for name, (dtype, array) in tensors.items():
            with self.subTest(tensor=name):
                wanted = dtype.as_datatype_enum, list(array.shape), "OK", array.tobytes()
                self.assertEqual(found[name], wanted)


def save(prefix, tensors):
    """Writes {name: tensor} with the op that Saver uses."""
    names = list(tensors)
    tensorflow.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                              tensors=list(tensors.values()))
