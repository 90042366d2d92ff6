# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of several shards: this library and TensorFlow read each other's merged checkpoints."""
import unittest

import numpy

from dump import DumpCase, save
from support import run, run_failing, tensorflow, tf
from test_our_checkpoints import data_blocks
from test_partitions import save_slices
from values import values


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

    def assert_tensorflow_reads(self, prefix, tensors):
        reader = tf.train.load_checkpoint(prefix)
        self.assertEqual(set(reader.get_variable_to_shape_map()), set(tensors))
        for name, (_, array) in tensors.items():
            with self.subTest(tensor=name):
                numpy.testing.assert_array_equal(reader.get_tensor(name), array)

    def test_tb_004_what_tensorflow_merges_is_read(self):
        prefixes, everything = self.shards()
        self.merge_theirs(prefixes, self.path("merged"))
        self.assertEqual(len(list(self.directory.glob("merged.data-*-of-00003"))), 3)
        self.assert_reads(self.path("merged"), everything)

    def test_tb_004_tensorflow_reads_merged_checkpoints(self):
        prefixes, everything = self.shards()
        run("merge_checkpoints", self.path("merged"), *prefixes)
        self.assert_tensorflow_reads(self.path("merged"), everything)
        self.assert_reads(self.path("merged"), everything)

    def test_merged_checkpoints_have_the_same_bytes(self):
        """Except keys in the index of blocks, which need not be keys of entries."""
        contents = []
        for merge in (self.merge_theirs, lambda prefixes, merged: run("merge_checkpoints", merged, *prefixes)):
            prefixes, _ = self.shards()
            merge(prefixes, self.path("merged"))
            files = sorted(self.directory.glob("merged.*"))
            contents.append([(path.name, path.read_bytes()) for path in files[:-1]] + [data_blocks(files[-1])])
            for path in files:
                path.unlink()
        self.assertEqual(len(contents[0]), 4)
        self.assertEqual(contents[0], contents[1])

    def test_tb_006_slices_in_several_shards(self):
        array = values("w", tensorflow.float32, [6, 4])
        for number, rows in enumerate(((0, 2), (2, 1), (3, 3))):
            save_slices(self.path(f"s{number}"), {"w": (array, [(rows, (0, 4))])})
        for number, merge in enumerate((self.merge_theirs, lambda prefixes, to: run("merge_checkpoints", to, *prefixes))):
            for shard, rows in enumerate(((0, 2), (2, 1), (3, 3))):
                save_slices(self.path(f"s{shard}"), {"w": (array, [(rows, (0, 4))])})
            merged = self.path(f"merged{number}")
            merge([self.path(f"s{shard}") for shard in range(3)], merged)
            self.assert_reads(merged, {"w": (tensorflow.float32, array)})
            self.assert_tensorflow_reads(merged, {"w": (tensorflow.float32, array)})

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

    def test_tb_037s_a_missing_checkpoint(self):
        prefixes, everything = self.shards()
        self.assertIn("NOT_FOUND", run_failing("merge_checkpoints", self.path("merged"), *prefixes, self.path("part/none")))
        run("merge_checkpoints", self.path("merged"), *prefixes)
        self.assert_tensorflow_reads(self.path("merged"), everything)


if __name__ == "__main__":
    unittest.main()
