# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that TensorFlow merges: this library reads them."""
import sys
import unittest

import numpy

from dump import DumpCase, save
from support import SOURCE, run, tensorflow, tf
from test_partitions import save_slices
from values import values

sys.path.append(str(SOURCE / "tests/tool"))
from indices import crc32c, entry, index


def tensors_of(prefix, count):
    return {f"{prefix}/v{i:02}": (tensorflow.float32, values(f"{prefix}{i}", tensorflow.float32, [3, i])) for i in range(count)}


class Merging(DumpCase):
    def shards(self):
        """Writes three checkpoints, one of which has only tensors of at most one byte. Returns their prefixes and all tensors."""
        everything, prefixes = {}, []
        for number, count in enumerate((5, 1, 12)):
            tensors = tensors_of(f"shard{number}", count)
            prefixes.append(self.path(f"part/s{number}"))
            save(prefixes[-1], {name: array for name, (_, array) in tensors.items()})
            everything.update(tensors)
        return prefixes, everything

    def merge_theirs(self, prefixes, merged):
        tensorflow.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=merged, delete_old_dirs=True)

    def test_tb_004_what_tensorflow_merges_is_read(self):
        prefixes, everything = self.shards()
        self.merge_theirs(prefixes, self.path("merged"))
        self.assertEqual(len(list(self.directory.glob("merged.data-*-of-00003"))), 3)
        self.assert_reads(self.path("merged"), everything)

    def test_tb_006_slices_in_several_shards(self):
        array = values("w", tensorflow.float32, [6, 4])
        for number, rows in enumerate(((0, 2), (2, 1), (3, 3))):
            save_slices(self.path(f"s{number}"), {"w": (array, [(rows, (0, 4))])})
        self.merge_theirs([self.path(f"s{number}") for number in range(3)], self.path("merged"))
        self.assert_reads(self.path("merged"), {"w": (tensorflow.float32, array)})

    def test_savers_of_several_devices(self):
        config = tf.ConfigProto(device_count={"CPU": 3})
        tensors = tensors_of("v", 7)
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            for number, (name, (_, array)) in enumerate(tensors.items()):
                with tf.device(f"/cpu:{number % 3}"):
                    tf.Variable(array, name=name, use_resource=True)
            session.run(tf.global_variables_initializer())
            prefix = tf.train.Saver(sharded=True).save(session, self.path("sharded"))
        self.assertEqual(len(list(self.directory.glob("sharded.data-*-of-00003"))), 3)
        self.assert_reads(prefix, tensors)

    def test_tensorflow_merges_our_checkpoints(self):
        run("save_checkpoint", self.path("one"), 0, 100)
        save(self.path("two"), {"other": numpy.float32([1, 2])})
        self.merge_theirs([self.path("one"), self.path("two")], self.path("merged"))
        found = self.dump(self.path("merged"))
        self.assertEqual(len(found), 101)
        self.assertEqual(found["other"][2:], ("OK", numpy.float32([1, 2]).tobytes()))
        self.assertEqual({code for _, _, code, _ in found.values()}, {"OK"})

    def test_tb_039s_another_byte_order_or_version_is_refused(self):
        stored = numpy.float32([1, 2]).tobytes()
        entries = {b"other": entry(tensorflow.float32.as_datatype_enum, [2], len(stored), crc32c(stored), 0)}
        (self.directory / "two.data-00000-of-00001").write_bytes(stored)
        for options in {"big_endian": True}, {"producer": 2}:
            with self.subTest(**options):
                run("save_checkpoint", self.path("one"), 0, 1)
                (self.directory / "two.index").write_bytes(index(entries, **options))
                with self.assertRaises(tensorflow.errors.InvalidArgumentError):
                    self.merge_theirs([self.path("one"), self.path("two")], self.path("merged"))


if __name__ == "__main__":
    unittest.main()
