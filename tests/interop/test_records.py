# SPDX-License-Identifier: Apache-2.0
"""TensorFlow reads the record files of this library, and this library those of TensorFlow."""
import gzip
import random
import unittest
import zlib

from support import TestCase, run, run_failing, tensorflow, tf

KINDS = ["", "ZLIB", "GZIP"]
TYPES = {"": tf.io.TFRecordCompressionType.NONE, "ZLIB": tf.io.TFRecordCompressionType.ZLIB, "GZIP": tf.io.TFRecordCompressionType.GZIP}


def some_records():
    noise = random.Random(5)
    sizes = [0, 1, 3, 100, 70000, 0, 5] + [noise.randrange(2000) for _ in range(50)]
    return [noise.randbytes(size) if i % 2 else b"x" * size for i, size in enumerate(sizes)]


class Records(TestCase):
    def write(self, kind, records):
        path = self.path("ours")
        run("records", "write", path, kind, given="".join(record.hex() + "\n" for record in records))
        return path

    def read(self, path, kind):
        *lines, end = run("records", "read", path, kind).splitlines()
        return [bytes.fromhex(line) for line in lines], end

    def write_theirs(self, kind, records):
        path = self.path("theirs")
        with tensorflow.io.TFRecordWriter(path, kind) as writer:
            for record in records:
                writer.write(record)
        return path

    def test_rc_212_tensorflow_reads_ours(self):
        for kind in KINDS:
            path = self.write(kind, some_records())
            self.assertEqual([r.numpy() for r in tensorflow.data.TFRecordDataset(path, kind)], some_records())
            self.assertEqual(list(tf.io.tf_record_iterator(path, tf.io.TFRecordOptions(TYPES[kind]))), some_records())

    def test_rc_206_we_read_tensorflows(self):
        for kind in KINDS:
            self.assertEqual(self.read(self.write_theirs(kind, some_records()), kind), (some_records(), "OUT_OF_RANGE"))

    def test_an_uncompressed_file_is_the_same_to_the_byte(self):
        ours, theirs = self.write("", some_records()), self.write_theirs("", some_records())
        with open(ours, "rb") as a, open(theirs, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_rc_201_a_zlib_file_is_what_zlib_makes(self):
        with open(self.write("", some_records()), "rb") as file:
            plain = file.read()
        with open(self.write("ZLIB", some_records()), "rb") as file:
            packed = file.read()
        self.assertEqual(packed, zlib.compress(plain))
        self.assertEqual(zlib.decompress(packed), plain)

    def test_rc_202_a_gzip_file_is_unpacked_by_gzip(self):
        with open(self.write("", some_records()), "rb") as file:
            plain = file.read()
        with open(self.write("GZIP", some_records()), "rb") as file:
            self.assertEqual(gzip.decompress(file.read()), plain)

    def test_rc_205_files_that_python_packed_are_read(self):
        large = [random.Random(1).randbytes(2500000) * 2, b"small"]
        with open(self.write_theirs("", large), "rb") as file:
            plain = file.read()
        packed = {"ZLIB": zlib.compress(plain, 1), "GZIP": gzip.compress(plain[:1000]) + gzip.compress(plain[1000:])}
        for kind, data in packed.items():
            (self.directory / "packed").write_bytes(data)
            self.assertEqual(self.read(self.path("packed"), kind), (large, "OUT_OF_RANGE"))

    def test_both_find_the_same_damage(self):
        path = self.write("", [b"first", b"second"])
        data = (self.directory / "ours").read_bytes()
        for at in range(len(data)):
            (self.directory / "ours").write_bytes(data[:at] + bytes([data[at] ^ 32]) + data[at + 1:])
            theirs = []
            with self.assertRaises(tensorflow.errors.DataLossError):
                for record in tf.io.tf_record_iterator(path):
                    theirs.append(record)
            self.assertEqual(self.read(path, ""), (theirs, "DATA_LOSS"))

    def test_rc_203_names_of_compressions(self):
        self.assertIn("'BZIP2' is not a compression of records", run_failing("records", "read", self.path("x"), "BZIP2"))


if __name__ == "__main__":
    unittest.main()
