# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of a big-endian machine, made by hand: TensorFlow and this library read the same."""
import sys
import unittest

import numpy

from dump import DumpCase, strings_of
from support import SOURCE, tensorflow, tf

sys.path.append(str(SOURCE / "tests/tool"))
from indices import crc32c, entry, index, masked

TYPES = {name: tensorflow.dtypes.as_dtype(name)
         for name in "float double half int16 int32 int64 uint16 uint32 uint64 uint8 bool complex64 complex128".split()}


def big_endian_strings(strings):
    """The data of a vector of short strings, and its checksum."""
    lengths = b"".join(len(text).to_bytes(4, "big") for text in strings)
    checksum = masked(crc32c(lengths)).to_bytes(4, "big")
    data = bytes(map(len, strings)) + checksum + b"".join(strings)
    return data, crc32c(lengths + checksum + b"".join(strings))


class ByteOrder(DumpCase):
    def write(self):
        data, entries, arrays = b"", {}, {}
        for name, dtype in TYPES.items():
            plain = numpy.arange(1, 7).reshape([2, 3]) * 37
            arrays[name] = (plain + (2j * plain if dtype.is_complex else 0)).astype(dtype.as_numpy_dtype)
            stored = arrays[name].byteswap().tobytes()
            entries[name.encode()] = entry(dtype.as_datatype_enum, [2, 3], len(stored), crc32c(stored), len(data))
            data += stored
        strings, crc = big_endian_strings([b"one", b"", b"three"])
        entries[b"words"] = entry(tensorflow.string.as_datatype_enum, [3], len(strings), crc, len(data))
        (self.directory / "big.index").write_bytes(index(entries, big_endian=True))
        (self.directory / "big.data-00000-of-00001").write_bytes(data + strings)
        return arrays

    def test_tb_001_numbers_and_strings(self):
        arrays = self.write()
        reader, found = tf.train.load_checkpoint(self.path("big")), self.dump(self.path("big"))
        for name, array in arrays.items():
            with self.subTest(type=name):
                numpy.testing.assert_array_equal(reader.get_tensor(name), array)
                self.assertEqual(found[name], (TYPES[name].as_datatype_enum, [2, 3], "OK", array.tobytes()))
        self.assertEqual(reader.get_tensor("words").tolist(), [b"one", b"", b"three"])
        self.assertEqual(strings_of(found["words"][3]), [b"one", b"", b"three"])


if __name__ == "__main__":
    unittest.main()
