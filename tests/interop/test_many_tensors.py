# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of twenty thousand tensors, in both directions."""
import unittest

from dump import DumpCase, save
from support import run, tensorflow, tf
from test_our_checkpoints import bits, small_name
from values import values

COUNT = 20000


class ManyTensors(DumpCase):
    def test_tensorflow_reads_ours(self):
        run("save_checkpoint", self.path("ours"), 0, COUNT)
        reader = tf.train.load_checkpoint(self.path("ours"))
        self.assertEqual(len(reader.get_variable_to_shape_map()), COUNT)
        for number in range(COUNT):
            name = small_name(number)
            found, wanted = bits(reader.get_tensor(name)), bits(values(name, tensorflow.float32, [3]))
            if found != wanted:
                self.assertEqual(found, wanted, name)

    def test_theirs_are_read(self):
        tensors = {small_name(number): (tensorflow.float32, values(small_name(number), tensorflow.float32, [3]))
                   for number in range(COUNT)}
        save(self.path("theirs"), {name: array for name, (_, array) in tensors.items()})
        found = self.dump(self.path("theirs"))
        self.assertEqual(list(found), sorted(tensors))
        for name, (dtype, array) in tensors.items():
            if found[name] != (dtype.as_datatype_enum, [3], "OK", array.tobytes()):
                self.fail(f"{name}: {found[name]}")


if __name__ == "__main__":
    unittest.main()
