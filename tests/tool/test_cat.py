# SPDX-License-Identifier: Apache-2.0
import math
import unittest

from support import ToolCase

inf, nan = math.inf, math.nan


class Elements(ToolCase):
    def of(self, *tensor):
        """The output of `checkpoint cat`."""
        self.make("m", {"x": tensor})
        return self.prints("checkpoint", "cat", "m", "x")

    def values(self, *tensor):
        self.make("m", {"x": tensor})
        return self.json("checkpoint", "cat", "--json", "m", "x")["values"]

    def test_rows_begin_lines(self):
        self.assertEqual(self.of("float", [2, 3], [3, 0, nan, -4, inf, 0.1]),
                         "float [2,3], 24 bytes\n[0,0]    3    0  nan\n[1,0]   -4  inf  0.1\n")

    def test_a_scalar_has_no_index(self):
        self.assertEqual(self.of("int64", [], [-9007199254740993]), "int64 [], 8 bytes\n-9007199254740993\n")

    def test_without_elements(self):
        self.assertEqual(self.of("float", [0, 3], []), "float [0,3], 0 bytes\n")

    def test_different_numbers_are_printed_differently(self):
        for dtype, value, text in (("float", 0.1, "0.1"), ("float", 16777216.0, "16777216"), ("double", 1 / 3, "0.3333333333333333"),
                                   ("uint64", 2**64 - 1, str(2**64 - 1)), ("int64", -2**63, str(-2**63)), ("bool", True, "1"),
                                   ("half", -inf, "-inf"), ("double", -nan, "nan")):
            self.assertEqual(self.of(dtype, [], [value]).splitlines()[1], text)

    def test_complex_numbers(self):
        self.assertEqual(self.of("complex64", [2], [3, -4, 0, 1]), "complex64 [2], 16 bytes\n[0]  3-4i  0+1i\n")
        self.assertEqual(self.values("complex64", [2], [3, -4, 0, nan]), [[3, -4], [0, None]])

    def test_only_the_first_elements_are_printed(self):
        self.make("m", {"x": ("float", [20, 17], [i / 7 for i in range(340)])})
        for columns in 40, 80:
            shown = self.terminal("checkpoint", "cat", "m", "x", columns=columns).splitlines()
            self.assertLessEqual(max(map(len, shown)), columns)
            self.assertEqual(shown[-1], "... 240 more; --json prints all")
            self.assertEqual(len([word for line in shown[1:-1] for word in line.split()[1:]]), 100)
        self.assertEqual(shown[2].split()[:2], ["[0,6]", "0.85714287"])
        self.assertEqual(len(self.json("checkpoint", "cat", "--json", "m", "x")["values"]), 340)

    def test_a_narrow_terminal_has_a_number_per_line(self):
        self.make("m", {"x": ("int32", [3], [1, 2, 3])})
        self.assertEqual(self.terminal("checkpoint", "cat", "m", "x", columns=2).splitlines()[1:], ["[0]  1", "[1]  2", "[2]  3"])

    def test_strings_are_escaped_and_cut(self):
        self.assertEqual(self.of("string", [4], [b"one", b"", b"a\n\x1b[2J\xff", b"x" * 300]),
                         'string [4], 319 bytes\n[0]  "one"\n[1]  ""\n[2]  "a\\x0a\\x1b[2J\\xff"\n'
                         f'[3]  "{"x" * 58}"... (300 bytes)\n')
        for text in "ä" * 100, "\n" * 100, "\0" * 100, "€uro" * 30:
            self.make("m", {"x": ("string", [], [text.encode()])})
            line = self.prints("checkpoint", "cat", "m", "x").splitlines()[1]
            self.assertLessEqual(len(line), 80)
            self.assertRegex(line, r'^"[^"]{10,}"\.\.\. \(\d+ bytes\)$')
            self.assertNotIn("\\xc3", line)

    def test_strings_in_json(self):
        self.assertEqual(self.values("string", [2, 1], [b"a\n\"", b"x" * 300]), ['a\n"', "x" * 300])

    def test_json(self):
        self.make("m", {"x": ("float", [2, 3], [3, 0, nan, -4, inf, 0.5])})
        self.assertEqual(self.json("checkpoint", "cat", "m", "x", "--json"),
                         {"name": "x", "dtype": "float", "shape": [2, 3], "values": [3, 0, None, -4, None, 0.5]})
        self.assertEqual(self.values("int64", [2], [-2**63, 2**53 + 1]), [-2**63, 2**53 + 1])

    def test_a_partitioned_variable_is_one_tensor(self):
        self.assertEqual(self.of("float", [3, 1], [1, 2, 3], 2), "float [3,1], 12 bytes\n[0,0]  1\n[1,0]  2\n[2,0]  3\n")

    def test_the_newest_checkpoint_of_a_directory(self):
        (self.directory / "run").mkdir()
        self.save("run/model.ckpt-7", 1, 2)
        name = self.json("checkpoint", "ls", "--json", "run/model.ckpt-7")[0]["name"]
        self.assertEqual(self.prints("checkpoint", "cat", "run", name), self.prints("checkpoint", "cat", "run/model.ckpt-7", name))

    def test_a_missing_name_suggests_the_near_one(self):
        self.make("m", {"layer/weights": ("float", [], [1]), "step": ("int64", [], [1])})
        for typed, meant in ("stpe", "step"), ("weights", "layer/weights"):
            self.assertEqual(self.says("checkpoint", "cat", "m", typed),
                             f"hooksess: m: contains no tensor '{typed}'; did you mean '{meant}'?\n")
        self.assertEqual(self.says("checkpoint", "cat", "m", "optimizer"),
                         "hooksess: m: contains no tensor 'optimizer'; list its tensors: hooksess checkpoint ls\n")

    def test_a_damaged_tensor_is_not_printed(self):
        self.make("m", {"a": ("uint8", [2], [1, 2]), "b": ("uint8", [2], [3, 4])})
        self.write("m.data-00000-of-00001", b"\1\0\3\4")
        self.assertIn("checksum mismatch of 'a'", self.says("checkpoint", "cat", "m", "a"))
        self.assertEqual(self.prints("checkpoint", "cat", "m", "b"), "uint8 [2], 2 bytes\n[0]  3  4\n")

    def test_an_unknown_dtype_is_refused(self):
        header = b'{"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
        self.write("m.safetensors", len(header).to_bytes(8, "little") + header + b"\1\2")
        self.assertEqual(self.says("checkpoint", "cat", "m.safetensors", "x"),
                         "hooksess: m.safetensors: cannot print 'x', whose dtype is F8_E4M3\n")


if __name__ == "__main__":
    unittest.main()
