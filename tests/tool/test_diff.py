# SPDX-License-Identifier: Apache-2.0
import json
import math
import re
import unittest

from support import ToolCase

inf, nan = math.inf, math.nan
MODEL = {"bias": ("double", [2], [0.5, -2]), "weights": ("float", [2, 3], [1, 2, 3, 4, 5, 6]), "words": ("string", [2], [b"a", b"b"])}


class Diff(ToolCase):
    def compare(self, dtype, shape, a, b):
        """The difference of two tensors."""
        self.make("a", {"x": (dtype, shape, a)})
        self.make("b", {"x": (dtype, shape, b)})
        return self.json("checkpoint", "diff", "--json", "a", "b", status=1)[0]

    def assert_is(self, found, **expected):
        self.assertEqual({key: found[key] for key in expected}, expected)

    def test_equal(self):
        self.make("a", MODEL)
        self.make("b", MODEL)
        self.assertEqual(self.prints("checkpoint", "diff", "a", "b"),
                         "3 tensors equal, 0 different, 0 only in A (-), 0 only in B (+)\n")
        self.assertEqual(self.json("checkpoint", "diff", "--json", "a", "b"), [])

    def test_every_kind_of_difference(self):
        self.make("a", {**MODEL, "first": ("int32", [], [1]), "turned": ("float", [2, 3], [0] * 6),
                        "wide": ("double", [1], [1])})
        self.make("b", {"bias": MODEL["bias"], "weights": ("float", [2, 3], [1, 2, 3, 4, 6, 4]), "another": ("uint8", [1], [1]),
                        "words": ("string", [2], [b"a", b"bb"]), "turned": ("float", [3, 2], [0] * 6),
                        "wide": ("float", [1], [1])})
        self.assertEqual(self.prints("checkpoint", "diff", "a", "b", status=1), """\
  tensor   elements  differ  first  absolute  relative
+ another  uint8 [1]
- first    int32 []
~ turned   float [2,3] -> float [3,2]
~ weights         6       2  [1,1]         2    0.3333
~ wide     double [1] -> float [1]
~ words           2       1  [1]
1 tensor equal, 4 different, 1 only in A (-), 1 only in B (+)
""")
        self.assertEqual(self.json("checkpoint", "diff", "--json", "a", "b", status=1), [
            {"name": "another", "dtype": "uint8", "shape": [1], "difference": "only_in_b"},
            {"name": "first", "dtype": "int32", "shape": [], "difference": "only_in_a"},
            {"name": "turned", "difference": "shape", "a": {"dtype": "float", "shape": [2, 3]},
             "b": {"dtype": "float", "shape": [3, 2]}},
            {"name": "weights", "dtype": "float", "shape": [2, 3], "difference": "values", "elements": 6, "differing": 2,
             "first_index": [1, 1], "largest_absolute": 2.0, "largest_relative": 2 / 6},
            {"name": "wide", "difference": "dtype", "a": {"dtype": "double", "shape": [1]}, "b": {"dtype": "float", "shape": [1]}},
            {"name": "words", "dtype": "string", "shape": [2], "difference": "values", "elements": 2, "differing": 1,
             "first_index": [1]},
        ])

    def test_the_last_tensors_of_both_are_compared(self):
        self.make("a", {"a": ("uint8", [1], [0])})
        self.make("b", {"b": ("uint8", [1], [0]), "c": ("uint8", [1], [0])})
        self.assertIn("0 different, 1 only in A (-), 2 only in B", self.prints("checkpoint", "diff", "a", "b", status=1))
        self.assertIn("0 different, 2 only in A (-), 1 only in B", self.prints("checkpoint", "diff", "b", "a", status=1))

    def test_the_largest_differences_may_be_of_different_elements(self):
        found = self.compare("double", [3], [1000, 0.5, 1], [1010, 1, 1])
        self.assert_is(found, differing=2, first_index=[0], largest_absolute=10.0, largest_relative=0.5)

    def test_elements_are_compared_bit_by_bit(self):
        self.assert_is(self.compare("float", [2], [1, 0.0], [1, -0.0]), differing=1, first_index=[1], largest_absolute=0.0,
                       largest_relative=0.0)

    def test_equal_bits_are_equal_for_every_dtype(self):
        self.make("a", {"x": ("float", [2], [nan, inf])})
        self.assertEqual(self.json("checkpoint", "diff", "--json", "a", "a"), [])

    def test_infinity_and_nan_differ_infinitely_from_other_numbers(self):
        for other in nan, inf, -inf:
            found = self.compare("float", [], [1], [other])
            self.assert_is(found, first_index=[], largest_absolute=None, largest_relative=None)
        self.make("a", {"x": ("float", [1], [inf])})
        self.make("b", {"x": ("float", [1], [-inf])})
        self.assertRegex(self.prints("checkpoint", "diff", "a", "b", status=1), r"\n~ x +1 +1  \[0\] +inf +inf\n")

    def test_two_nans_differ_only_in_their_bits(self):
        found = self.compare("half", [1], [nan], [-nan])
        self.assert_is(found, differing=1, largest_absolute=0.0)

    def test_integers_are_exact(self):
        self.assert_is(self.compare("int64", [1], [2**62], [2**62 + 1]), largest_absolute=1.0)
        self.assert_is(self.compare("uint64", [1], [0], [2**64 - 1]), largest_absolute=2.0**64, largest_relative=1.0)

    def test_complex_numbers(self):
        self.assert_is(self.compare("complex64", [2], [1, 0, 3, 4], [1, 0, 0, 0]), differing=1, first_index=[1],
                       largest_absolute=5.0, largest_relative=1.0)

    def test_slices_of_a_tensor_do_not_matter(self):
        values = [1, 2, 3, 4, 5, 6]
        self.make("a", {"x": ("double", [3, 2], values, 1)})
        self.make("b", {"x": ("double", [3, 2], values, 2)})
        self.make("c", {"x": ("double", [3, 2], values)})
        self.assertEqual(self.json("checkpoint", "diff", "--json", "a", "b"), [])
        self.assertEqual(self.json("checkpoint", "diff", "--json", "b", "c"), [])
        self.make("c", {"x": ("double", [3, 2], values[:5] + [8])})
        self.assertRegex(self.prints("checkpoint", "diff", "a", "c", status=1), r"\n~ x +6 +1  \[2,1\] +2 +0.25\n")

    def test_an_unknown_dtype_is_never_a_known_one(self):
        self.make("strings", {"x": ("string", [1], [b"a"])})
        self.make("floats", {"x": ("float", [4], [1, 2, 3, 4])})
        for prefix, dtype, shape in ("strings", "string", [1]), ("floats", "float", [4]):
            header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, 16]}}).encode()
            self.write("f.safetensors", len(header).to_bytes(8, "little") + header + b"A" * 16)
            known, unknown = f"{dtype} {shape}", f"'{dtype}' {shape}"
            self.assertIn(f"~ x       {known} -> {unknown}\n", self.prints("checkpoint", "diff", prefix, "f.safetensors", status=1))
            self.assertIn(f"~ x       {unknown} -> {known}\n", self.prints("checkpoint", "diff", "f.safetensors", prefix, status=1))
            self.assertEqual(self.json("checkpoint", "diff", "--json", prefix, "f.safetensors", status=1), [
                {"name": "x", "difference": "dtype", "a": {"dtype": dtype, "shape": shape}, "b": {"dtype": f"'{dtype}'", "shape": shape}}])
            self.assertEqual(self.json("checkpoint", "diff", "--json", "f.safetensors", "f.safetensors"), [])
            self.assertRegex(self.prints("checkpoint", "ls", "f.safetensors"), rf"\nx +'{dtype}' +{re.escape(str(shape))} ") or self.assertTrue(self.prints("checkpoint", "ls", "f.safetensors"))

    def test_a_tensor_that_cannot_be_read_is_an_error(self):
        self.make("a", MODEL)
        self.make("b", {**MODEL, "words": ("string", [2], [b"a", b"c"])})
        data = bytearray(self.bytes_of("b.data-00000-of-00001"))
        data[0] ^= 1
        self.write("b.data-00000-of-00001", data)
        output, said = self.tool("checkpoint", "diff", "a", "b", status=2)
        self.assertIn("checksum mismatch of 'bias'", said)
        self.assertRegex(output, r"\n~ words +2 +1  \[1\]\n")

    def test_a_missing_checkpoint_is_an_error(self):
        self.make("a", MODEL)
        for operands in ("a", "nowhere"), ("nowhere", "a"):
            self.assertIn("nowhere: No such file or directory, and no checkpoint (", self.says("checkpoint", "diff", *operands))

    def test_the_state_of_hooks_is_compared_too(self):
        self.assertRegex(self.of_states([1, 2], [1, 3]), r"\n~ hooksess/rng +2 +1  \[1\]\n")  # no distance

    def test_differences_within_the_tolerance_are_none(self):
        self.make("a", {"x": ("float", [4], [1, 1e-9, 1e9, 0.0]), "z": ("complex64", [1], [1, 1])})
        self.make("b", {"x": ("float", [4], [1.001, 2e-9, 1.001e9, -0.0]), "z": ("complex64", [1], [1.001, 1])})
        self.assertEqual(self.json("checkpoint", "diff", "--json", "--tolerance", "0.01", "a", "b"), [])
        found = self.json("checkpoint", "diff", "--json", "--tolerance", "1e-6", "a", "b", status=1)
        self.assertEqual([(tensor["name"], tensor["differing"]) for tensor in found], [("x", 2), ("z", 1)])
        found = self.json("checkpoint", "diff", "--json", "--tolerance", "0", "a", "b", status=1)
        self.assertEqual([(tensor["name"], tensor["differing"]) for tensor in found], [("x", 3), ("z", 1)])
        self.assertEqual(self.json("checkpoint", "diff", "--json", "a", "b", status=1)[0]["differing"], 4)

    def test_the_tolerance_is_for_floating_point_numbers_alone(self):
        self.make("a", {"global_step": ("int64", [], [1000000]), "hooksess/h": ("float", [1], [1]), "words": ("string", [1], [b"a"])})
        self.make("b", {"global_step": ("int64", [], [1000001]), "hooksess/h": ("float", [1], [2]), "words": ("string", [1], [b"b"])})
        found = self.json("checkpoint", "diff", "--json", "--tolerance", "10", "a", "b", status=1)
        self.assertEqual([tensor["name"] for tensor in found], ["global_step", "hooksess/h", "words"])

    def test_infinity_is_beyond_each_tolerance(self):
        self.make("a", {"x": ("float", [2], [inf, nan])})
        self.make("b", {"x": ("float", [2], [1, 1])})
        self.assertEqual(self.json("checkpoint", "diff", "--json", "--tolerance", "1e30", "a", "b", status=1)[0]["differing"], 2)

    def test_tolerances_that_are_none(self):
        for text in "", "x", "1x", "-1", "nan":
            self.assertIn(f"--tolerance: '{text}' is not a number from 0 on", self.says("checkpoint", "diff", "--tolerance", text, "a", "b"))

    def test_colors_are_for_terminals_that_want_them(self):
        self.make("a", {"first": ("int32", [], [1]), "x": ("float", [1], [1])})
        self.make("b", {"another": ("int32", [], [1]), "x": ("float", [1], [2])})
        command = "checkpoint", "diff", "a", "b"
        shown = self.terminal(*command, columns=80, status=1)
        for color, text in ("32", "+ another"), ("31", "- first"), ("33", "~ x"):
            self.assertIn(f"\x1b[{color}m{text}", shown)
        plain = self.prints(*command, status=1)
        self.assertEqual(re.sub("\x1b\\[\\d+m", "", shown), plain)
        self.assertEqual(self.terminal(*command, columns=80, status=1, NO_COLOR="1"), plain)

    def of_states(self, a, b):
        self.make("a", {"hooksess/rng": ("uint8", [2], a)})
        self.make("b", {"hooksess/rng": ("uint8", [2], b)})
        return self.prints("checkpoint", "diff", "a", "b", status=1)


if __name__ == "__main__":
    unittest.main()
