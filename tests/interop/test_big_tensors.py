# SPDX-License-Identifier: Apache-2.0
"""Tensors of more than 2 GiB, both ways. They take some GiB of memory and disk, and a minute: these tests are run where the
environment has HOOKSESS_BIG_TESTS."""
import os
import unittest

import numpy

from dump import DumpCase, save
from support import run, tensorflow, tf

ROWS, COLUMNS = 5, (1 << 27) + 1234  # of four bytes each


@unittest.skipUnless(os.environ.get("HOOKSESS_BIG_TESTS"), "HOOKSESS_BIG_TESTS is not set")
class BigTensors(DumpCase):
    def test_tensorflow_reads_ours(self):
        run("save_large", self.path("ours"), ROWS, COLUMNS)
        array = tf.train.load_checkpoint(self.path("ours")).get_tensor("large")
        self.assertEqual((array.dtype, array.shape), (numpy.float32, (ROWS, COLUMNS)))
        self.assertEqual((array[0, 0], array[2, 7], array[-1, -1], numpy.count_nonzero(array)), (1, 2, 3, 3))

    def test_theirs_is_read(self):
        array = numpy.zeros([ROWS, COLUMNS], numpy.float32)
        array[0, 0], array[2, 7], array[-1, -1] = 1, 2, 3
        save(self.path("theirs"), {"large": array})
        out = self.directory / "dump"
        out.mkdir()
        line = run("dump_checkpoint", self.path("theirs"), out).split("\t")
        self.assertEqual(line, ["large", str(tensorflow.float32.as_datatype_enum), f"[{ROWS},{COLUMNS}]", "OK\n"])
        found = numpy.fromfile(out / "0", numpy.float32).reshape([ROWS, COLUMNS])
        self.assertTrue(numpy.array_equal(found, array))
        said = run("read_slices", self.path("theirs"), out, given=f"large 2,7, 1,1, 4\nlarge {ROWS - 1},{COLUMNS - 1}, 1,1, 4\n")
        self.assertEqual(said.split(), ["OK", "OK"])
        self.assertEqual([numpy.fromfile(out / name, numpy.float32).tolist() for name in "01"], [[2], [3]])


if __name__ == "__main__":
    unittest.main()
