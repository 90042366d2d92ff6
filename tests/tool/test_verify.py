# SPDX-License-Identifier: Apache-2.0
import unittest

from support import TOOL, ToolCase, run

INDEX, DATA = "m.index", "m.data-00000-of-00001"
FOOTER = 48  # bytes of an index's footer: offsets of blocks, padding, magic number; without a checksum
MODEL = {"numbers": ("float", [3], [1, 2, 3]), "words": ("string", [3], [b"one", b"", b"three"]), "zero": ("int32", [0], [])}


class Verify(ToolCase):
    def setUp(self):
        super().setUp()
        self.make("m", MODEL)

    def verify(self, status):
        return self.prints("checkpoint", "verify", "m", status=status)

    def test_no_damage(self):
        self.assertEqual(self.verify(0), "m: 3 tensors, 27 bytes, no damage\n")

    def test_no_tensors(self):
        self.make("m", {})
        self.assertEqual(self.verify(0), "m: 0 tensors, 0 bytes, no damage\n")

    def test_json_output(self):
        self.assertEqual(self.json("checkpoint", "verify", "--json", "m"),
                         {"checkpoint": "m", "tensors": 3, "bytes": 27, "damaged": [], "not_verified": 0})
        data, index = self.bytes_of(DATA), self.bytes_of(INDEX)
        self.write(DATA, b"x" + data[1:])
        found = self.json("checkpoint", "verify", "--json", "m", status=1)
        self.assertEqual([damage["tensor"] for damage in found["damaged"]], ["numbers"])
        self.assertIn(DATA, found["damaged"][0]["message"])
        self.write(INDEX, b"x" + index[1:])
        found = self.json("checkpoint", "verify", "--json", "m", status=1)
        self.assertEqual([damage["tensor"] for damage in found["damaged"]], [None])
        self.assertIn("gone", self.says("checkpoint", "verify", "--json", "gone"))

    def test_every_wrong_byte_of_the_data_is_found(self):
        data = self.bytes_of(DATA)
        for at in range(len(data)):
            with self.subTest(at=at):
                self.write(DATA, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])
                found = self.verify(1)
                self.assertIn(f"damaged: {'numbers' if at < 12 else 'words'}: {DATA}: ", found)
                self.assertTrue(found.endswith("\nm: damaged: 1 of 3 tensors\n"), found)

    def test_every_wrong_byte_of_the_index_except_the_footer_is_found(self):
        index = self.bytes_of(INDEX)
        for at in range(len(index) - FOOTER):
            with self.subTest(at=at):
                self.write(INDEX, index[:at] + bytes([index[at] ^ 1 << at % 8]) + index[at + 1:])
                found = self.verify(1)
                self.assertTrue(found.startswith(f"damaged: the index: {INDEX}: "), found)
                self.assertTrue(found.endswith("\nm: damaged: the index\n"), found)

    def test_a_wrong_byte_of_the_footer_is_found_or_harmless(self):
        index = self.bytes_of(INDEX)
        for at in range(len(index) - FOOTER, len(index)):
            self.write(INDEX, index[:at] + bytes([index[at] ^ 0xff]) + index[at + 1:])
            done = run(TOOL, "checkpoint", "verify", "m", cwd=self.directory)
            end = {0: b"no damage\n", 1: b"m: damaged: the index\n"}[done.returncode]
            self.assertTrue(done.stdout.endswith(end), done)
            self.assertTrue(done.returncode == 1 or at < len(index) - 8)  # the magic number is checked

    def test_every_truncation_is_found(self):
        for name in INDEX, DATA:
            whole = self.bytes_of(name)
            for n in range(len(whole)):
                self.write(name, whole[:n])
                self.assertIn(name, self.verify(1))
            self.write(name, whole)

    def test_bytes_after_the_last_tensor_have_no_checksum(self):
        self.write(DATA, self.bytes_of(DATA) + b"more")
        self.verify(0)

    def test_each_damaged_tensor_is_printed(self):
        data = bytearray(self.bytes_of(DATA))
        data[0] ^= 1
        data[-1] ^= 1
        self.write(DATA, data)
        self.assertRegex(self.verify(1), rf"""\Adamaged: numbers: {DATA}: checksum mismatch of 'numbers': stored [0-9a-f]{{8}}, found [0-9a-f]{{8}}
damaged: words: {DATA}: checksum mismatch of 'words': stored [0-9a-f]{{8}}, found [0-9a-f]{{8}}
m: damaged: 2 of 3 tensors
\Z""")

    def test_a_missing_data_file_is_damage_of_every_tensor_in_it(self):
        (self.directory / DATA).unlink()
        found = self.verify(1)
        self.assertEqual([line.split(": ")[1] for line in found.splitlines()[:-1]], ["numbers", "words", "zero"])
        self.assertIn(f"damaged: zero: {DATA}: ", found)

    def test_a_missing_checkpoint_is_not_damaged(self):
        (self.directory / INDEX).unlink()
        self.assertIn(INDEX, self.says("checkpoint", "verify", "m"))

    def test_files_that_cannot_be_read_are_not_verified(self):
        (self.directory / DATA).unlink()
        (self.directory / DATA).mkdir()
        output, said = self.tool("checkpoint", "verify", "m", status=2)
        self.assertEqual(output, "m: some tensors could not be verified\n")
        self.assertIn("'numbers': ", said)

    def test_names_are_escaped(self):
        self.make("m", {"\x1b[2J": ("uint8", [1], [0])})
        self.write(DATA, b"\1")
        self.assertIn("damaged: \\x1b[2J: ", self.verify(1))


class SaversOwn(ToolCase):
    def test_a_checkpoint_that_was_saved_over_itself(self):
        self.save("m", 1, 3)
        self.save("m", 2, 3)
        self.assertTrue((self.directory / "m.data-00001-of-00002").exists())
        self.assertFalse((self.directory / "m.data-00000-of-00002").exists())
        self.assertIn(", no damage\n", self.prints("checkpoint", "verify", "m"))

    def test_damage_of_the_second_of_two_data_files(self):
        self.make("m", MODEL, 1, 2)
        self.write("m.data-00001-of-00002", bytes(27))
        self.assertIn("damaged: 2 of 3 tensors", self.prints("checkpoint", "verify", "m", status=1))

    def test_the_newest_of_a_directory(self):
        self.save("m-1", 1, 2)
        self.save("m-2", 1, 2)
        self.write("m-1.data-00000-of-00001", b"")
        self.assertTrue(self.prints("checkpoint", "verify", ".").startswith("./m-2: "))
        self.prints("checkpoint", "verify", "m-1", status=1)


if __name__ == "__main__":
    unittest.main()
