# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with right checksums and invalid entries."""
import unittest

from indices import crc32c, entry, index
from support import ToolCase

FLOAT, UINT8, STRING, VARIANT = 1, 4, 7, 21
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
        output, said = self.tool("checkpoint", "verify", "m", status=verified)
        self.assertIn("bad", output + said)
        self.assertNotIn("'good'", output + said)
        output, said = self.tool("checkpoint", "diff", "m", "m", status=2)
        self.assertIn("'bad'", said)
        self.assertEqual(output, "1 tensors equal, 0 different, 0 only in the first, 0 only in the second\n")

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

    def test_unsupported_tensors_are_listed_and_not_verified(self):
        self.claim(bad=behind(VARIANT, [1], 6))
        self.assert_refused(verified=2)
        self.claim(bad=behind(FLOAT, [1] * 9, 4))
        self.assert_refused(verified=2)
        self.claim(bad=behind(FLOAT, [], 4, unknown_rank=True))
        self.assert_refused(verified=2)
        self.assertIn("bad   float  ?    ", self.prints("checkpoint", "ls", "m"))
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m")[0], {"name": "bad", "dtype": "float", "shape": None})

    def test_damage_is_distinguished_from_unsupported_tensors(self):
        self.claim(bad=entry(VARIANT, [1], 6, offset=100), wrong=behind(UINT8, [6], 6, 1))
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
