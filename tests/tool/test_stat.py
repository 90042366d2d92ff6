# SPDX-License-Identifier: Apache-2.0
import math
import unittest

from support import ToolCase

inf, nan = math.inf, math.nan


class Statistics(ToolCase):
    def of(self, dtype, values):
        """The statistics of a tensor."""
        self.make("m", {"x": (dtype, [len(values) // 2 if dtype == "complex64" else len(values)], values)})
        return self.json("checkpoint", "stat", "--json", "m")["tensors"][0]

    def assert_is(self, found, **expected):
        self.assertEqual({key: found[key] for key in expected}, expected)

    def test_columns(self):
        self.make("m", {
            "bias": ("double", [2], [0.5, -2]),
            "layer/weights": ("float", [2, 3], [3, 0, nan, -4, inf, -inf]),
            "none": ("float", [0], []),
            "step": ("int64", [], [-9007199254740993]),
            "words": ("string", [3], [b"one", b"", b"three"]),
            "hooksess/hook/timer": ("uint8", [3], [1, 2, 3]),
            "hooksess/rng": ("uint8", [16], [0] * 16),
        })
        self.assertEqual(self.prints("checkpoint", "stat", "m"), """\
tensor         shape                min                max        mean       norm  nan  inf  zeros
bias           [2]                   -2                0.5       -0.75      2.062    0    0      0
layer/weights  [2,3]                 -4                  3     -0.3333          5    1    2      1
none           [0]                    -                  -           -          -    0    0      0
step           []     -9007199254740993  -9007199254740993  -9.007e+15  9.007e+15    0    0      0
words          [3]    8 bytes of strings
floats         [8]                   -4                  3        -0.5      5.408    1    2      1
strings        [3]    8 bytes of strings

state                    size
hooksess/hook/timer   3 bytes
hooksess/rng         16 bytes
total                19 bytes
""")

    def test_integers_do_not_count_for_the_totals(self):
        self.make("m", {"a": ("float", [2], [3, 4]), "global_step": ("int64", [], [1000]), "z": ("complex64", [1], [0, 12])})
        found = self.json("checkpoint", "stat", "--json", "m")["total"]
        self.assert_is(found, tensors=3, elements=3, min=3, max=4, mean=3.5, norm=13)
        self.assertRegex(self.prints("checkpoint", "stat", "m"), r"\nfloats +\[3\] +3 +4 +3\.5 +13 +0 +0 +0\n")

    def test_json(self):
        self.make("m", {"a": ("float", [2, 1], [3, 4]), "b": ("string", [], [b"text"]), "hooksess/c": ("uint8", [1], [0])})
        self.assertEqual(self.json("checkpoint", "stat", "m", "--json"), {
            "tensors": [
                {"name": "a", "dtype": "float", "shape": [2, 1], "elements": 2, "min": 3.0, "max": 4.0, "mean": 3.5, "norm": 5.0,
                 "nan": 0, "positive_infinity": 0, "negative_infinity": 0, "zeros": 0},
                {"name": "b", "dtype": "string", "shape": [], "elements": 1, "bytes": 4},
            ],
            "states": [{"name": "hooksess/c", "bytes": 1}],
            "total": {"tensors": 2, "elements": 2, "min": 3.0, "max": 4.0, "mean": 3.5, "norm": 5.0, "nan": 0,
                      "positive_infinity": 0, "negative_infinity": 0, "zeros": 0, "strings": 1, "string_bytes": 4, "states": 1,
                      "state_bytes": 1},
        })

    def test_no_tensors(self):
        self.make("m", {})
        found = self.json("checkpoint", "stat", "--json", "m")
        self.assertEqual((found["tensors"], found["states"]), ([], []))
        self.assert_is(found["total"], tensors=0, elements=0, min=None, mean=None, norm=None)

    def test_only_finite_numbers_count_for_min_max_mean_and_norm(self):
        found = self.of("float", [nan, -3, inf, 4, -inf, nan])
        self.assert_is(found, elements=6, min=-3, max=4, mean=0.5, norm=5, nan=2, positive_infinity=1, negative_infinity=1)

    def test_no_finite_numbers(self):
        found = self.of("double", [nan, inf])
        self.assert_is(found, min=None, max=None, mean=None, norm=None, nan=1, positive_infinity=1)

    def test_minus_zero_is_zero(self):
        self.assert_is(self.of("double", [-0.0, 0.0, 5e-324]), zeros=2, max=5e-324)

    def test_integers_are_exact(self):
        self.assert_is(self.of("int64", [-2**63, 2**63 - 1]), min=-2**63, max=2**63 - 1, mean=-0.5)
        self.assert_is(self.of("int64", [2**53 + 1]), min=2**53 + 1)
        self.assert_is(self.of("uint64", [2**63 - 1, 2**64 - 1]), min=2**63 - 1, max=2.0**64)

    def test_sums_are_more_precise_than_doubles(self):
        self.assert_is(self.of("double", [2.0**53] + [1.0] * 4096 + [-2.0**53]), mean=4096 / 4098)

    def test_a_norm_beyond_the_squares_of_doubles(self):
        self.assert_is(self.of("double", [3e300, 4e300]), norm=5e300)

    def test_other_types(self):
        self.assert_is(self.of("half", [0.5, -inf]), min=0.5, negative_infinity=1)
        self.assert_is(self.of("bool", [True, False, True]), min=0, max=1, zeros=1)
        self.assert_is(self.of("int8", [-128, 127]), min=-128, max=127)

    def test_complex_numbers_have_only_a_norm(self):
        found = self.of("complex64", [3, 4, 0, 0, nan, inf, 1, inf, -inf, 1, 0, 12])
        self.assert_is(found, elements=6, min=None, max=None, mean=None, norm=13, nan=1, positive_infinity=1, negative_infinity=1,
                       zeros=1)

    def test_slices_count_as_one_tensor(self):
        self.make("m", {"parts": ("float", [3, 2], [0, 1, 2, 3, 4, nan], 2), "whole": ("int32", [], [7])})
        found = self.json("checkpoint", "stat", "--json", "m")
        self.assert_is(found["tensors"][0], name="parts", shape=[3, 2], elements=6, min=0, max=4, mean=2, nan=1, zeros=1)
        self.assert_is(found["total"], tensors=2, elements=6)
        self.assertRegex(self.prints("checkpoint", "stat", "m"), r"\nparts +\[3,2\] +0 +4 ")

    def test_a_damaged_tensor_is_reported_and_the_others_are_shown(self):
        self.make("m", {"a": ("uint8", [2], [1, 2]), "b": ("uint8", [2], [3, 4])})
        self.write("m.data-00000-of-00001", b"\1\0\3\4")
        output, said = self.tool("checkpoint", "stat", "m", status=2)
        self.assertIn("checksum mismatch of 'a'", said)
        self.assertRegex(output, r"\nb +\[2\] +3 +4 ")
        self.assertNotIn("\na ", output)


if __name__ == "__main__":
    unittest.main()
