# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with right checksums and invalid entries."""
import unittest

from indices import crc32c, entry, index, masked, varint
from support import ToolCase

FLOAT, UINT8, STRING, RESOURCE, VARIANT, FLOAT8 = 1, 4, 7, 20, 21, 25
MOST = 2**63 - 1
DATA = b"abcdef"


def behind(*arguments, **more):
    """An entry whose data follows that of `good`."""
    return entry(*arguments, offset=len(DATA), **more)


class Claims(ToolCase):
    def claim(self, **entries):
        """Makes a checkpoint of these entries and of `good`."""
        entries["good"] = entry(UINT8, [6], 6, crc32c(DATA))
        self.write("m.index", index({name.encode(): value for name, value in entries.items()}))
        self.write("m.data-00000-of-00001", DATA + DATA)

    def assert_refused(self, verified=1):
        """Asserts that each command handles the good tensors and reports the other."""
        self.assertIn("good", self.prints("checkpoint", "ls", "m"))
        output, said = self.tool("checkpoint", "stat", "m", status=2)
        self.assertIn("\ngood ", output)
        self.assertIn("'bad'", said)
        self.assertNotIn("out of memory", said)
        self.assertIn("'bad'", self.says("checkpoint", "cat", "m", "bad"))
        output, said = self.tool("checkpoint", "verify", "m", status=verified)
        self.assertEqual("bad" in output + said, verified != 0)
        self.assertNotIn("'good'", output + said)
        output, said = self.tool("checkpoint", "diff", "m", "m", status=2)
        self.assertIn("'bad'", said)
        self.assertEqual(output, "1 tensor equal, 0 different, 0 only in A (-), 0 only in B (+)\n")

    def test_a_valid_entry(self):
        self.claim()
        self.prints("checkpoint", "verify", "m")

    def test_more_bytes_than_there_are(self):
        for n in 7, 2**30, 2**44, 2**60, MOST:
            self.claim(bad=behind(UINT8, [n], n))
            self.assert_refused()

    def test_bytes_that_do_not_fit_the_shape(self):
        self.claim(bad=behind(FLOAT, [2**40], 4))
        self.assert_refused()

    def test_a_shape_that_overflows(self):
        self.claim(bad=behind(FLOAT, [2**40, 2**40], 4))
        self.assert_refused()

    def test_more_strings_than_bytes(self):
        for n in 100, 2**58, 2**60, MOST:
            self.claim(bad=behind(STRING, [n], 6))
            self.assert_refused()

    def test_a_negative_dimension(self):
        self.claim(bad=behind(FLOAT, [2**64 - 1], 4))
        self.assert_refused()

    def test_unsupported_tensors_are_listed_and_their_checksums_are_verified(self):
        for kind, dims, unknown_rank in (FLOAT8, [6], False), (RESOURCE, [1], False), (2**31, [], False), (FLOAT, [1] * 9, False), \
                (FLOAT, [], True):
            self.claim(bad=behind(kind, dims, 6, crc32c(DATA), unknown_rank=unknown_rank))
            self.assert_refused(verified=0)
            self.claim(bad=behind(kind, dims, 6, 1, unknown_rank=unknown_rank))
            self.assert_refused()
            self.claim(bad=behind(kind, dims, 7, crc32c(DATA), unknown_rank=unknown_rank))
            self.assert_refused()

    def test_unknown_dtypes_are_named_by_their_number(self):
        self.claim(bad=behind(FLOAT8, [6], 6, crc32c(DATA)))
        self.assertIn("bad     25     [6]    6 bytes\ngood    uint8  [6]    6 bytes\n", self.prints("checkpoint", "ls", "m"))
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m")[0], {"name": "bad", "dtype": "25", "shape": [6], "bytes": 6})

    def test_the_checksum_of_a_variant_has_lengths_of_eight_bytes(self):
        elements = [b"one", b"", b"c" * 300000]
        data = covered = b""
        for element in elements:
            stored = masked(crc32c(element)).to_bytes(4, "little")
            data += varint(len(element)) + element + stored
            covered += len(element).to_bytes(8, "little") + element + stored
        self.write("m.index", index({b"v": entry(VARIANT, [3], len(data), crc32c(covered))}))
        self.write("m.data-00000-of-00001", data)
        self.assertIn("no damage", self.prints("checkpoint", "verify", "m"))
        for at in 0, 2, 9, len(data) - 1:
            self.write("m.data-00000-of-00001", data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
            self.assertIn("damaged: v: ", self.prints("checkpoint", "verify", "m", status=1))

    def test_a_tensor_of_unknown_rank_has_no_shape(self):
        self.claim(bad=behind(FLOAT, [], 4, unknown_rank=True))
        self.assertIn("\nbad     float  ?      4 bytes", self.prints("checkpoint", "ls", "m"))
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m")[0], {"name": "bad", "dtype": "float", "shape": None, "bytes": 4})

    def test_damage_is_distinguished_from_unsupported_tensors(self):
        self.claim(bad=entry(STRING, [1] * 9, 6, offset=100), wrong=behind(UINT8, [6], 6, 1))
        output, said = self.tool("checkpoint", "verify", "m", status=1)
        self.assertIn("damaged: wrong: ", output)
        self.assertIn("'bad'", said)

    def test_tensors_that_share_bytes(self):
        self.claim(bad=entry(UINT8, [1], 1))
        for command in "ls", "stat", "diff":
            _, said = self.tool("checkpoint", command, *["m", "m"][:1 + (command == "diff")], status=2)
            self.assertIn("the data of 'bad' and 'good' overlap", said)
        self.assertIn("damaged: the index: m.index: the data of 'bad' and 'good' overlap",
                      self.prints("checkpoint", "verify", "m", status=1))

    def test_missing_slices(self):
        self.claim(bad=entry(FLOAT, [6], 0, n_slices=2))
        self.assert_refused()
        self.assertIn("has 0 slices, but should have 2", self.prints("checkpoint", "verify", "m", status=1))

    def test_slices_of_no_tensor(self):
        self.write("m.index", index({b"\0v\0\1\1\1\x80\x86": entry(UINT8, [6], 6, 1), b"good": entry(UINT8, [6], 6, crc32c(DATA))}))
        self.write("m.data-00000-of-00001", DATA)
        self.assertIn("slice [0:6] of 'v' belongs to", self.prints("checkpoint", "verify", "m", status=1))

    def test_an_index_for_other_readers(self):
        self.write("m.index", index({}, shards=0))
        self.assertIn("the number of data files is 0", self.prints("checkpoint", "verify", "m", status=1))


if __name__ == "__main__":
    unittest.main()
