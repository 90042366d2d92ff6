# SPDX-License-Identifier: Apache-2.0
"""An index whose blocks TensorFlow has compressed: TensorFlow and this library read the same."""
import sys
import unittest

import numpy
from tensorflow.core.framework import tensor_pb2

from dump import DumpCase
from support import SOURCE, tensorflow, tf
from values import values

sys.path.append(str(SOURCE / "tests/tool"))
from indices import crc32c, entry, index, varint


def field_of(message, number):
    """The bytes of a field of a protobuf message, all of whose fields are bytes or numbers."""
    at = 0

    def take():
        nonlocal at
        begin = at
        while message[at] >= 0x80:
            at += 1
        at += 1
        return sum((byte & 0x7f) << 7 * i for i, byte in enumerate(message[begin:at]))

    while True:
        key, value = take(), take()
        if key == number << 3 | 2:
            return message[at:at + value]
        at += value if key & 7 == 2 else 0


def snappy(data):
    """Compressed by TensorFlow's copy of Google's library. Only the elements of a dataset come out of it."""
    compressed = tensorflow.raw_ops.CompressElement(components=[tensorflow.constant(numpy.frombuffer(data, numpy.uint8))])
    variant = tensor_pb2.TensorProto.FromString(tensorflow.io.serialize_tensor(compressed).numpy()).tensor_content
    return field_of(field_of(variant[len(varint(len(variant))):], 2), 1)


class CompressedIndex(DumpCase):
    def test_tb_028s_blocks_that_tensorflow_compressed(self):
        data, entries, tensors = b"", {}, {}
        for i in range(3000):
            name = f"tower_{i % 3}/block_{i:05}/a_layer_with_a_long_name/kernel/Adam"
            tensors[name] = (tensorflow.float32, values(name, tensorflow.float32, [2]))
            stored = tensors[name][1].tobytes()
            entries[name.encode()] = entry(tensorflow.float32.as_datatype_enum, [2], len(stored), crc32c(stored), len(data))
            data += stored
        (self.directory / "packed.data-00000-of-00001").write_bytes(data)
        (self.directory / "packed.index").write_bytes(index(entries, compress=snappy))
        self.assertLess((self.directory / "packed.index").stat().st_size, len(index(entries)) / 3)
        reader = tf.train.load_checkpoint(self.path("packed"))
        for name, (_, array) in list(tensors.items())[::500]:
            self.assertEqual(reader.get_tensor(name).tobytes(), array.tobytes())
        self.assert_reads(self.path("packed"), tensors)


if __name__ == "__main__":
    unittest.main()
