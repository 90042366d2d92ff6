# SPDX-License-Identifier: Apache-2.0
import json
import os
import unittest

from support import ToolCase

MODEL = {
    "layer/weights": ("float", [2, 3], [0] * 6),
    "global_step": ("int64", [], [12]),
    "empty": ("int32", [16, 0], []),
    "words": ("string", [2], [b"one", b"three"]),
}


class Listing(ToolCase):
    def setUp(self):
        super().setUp()
        self.make("m", MODEL)

    def test_a_line_for_each_tensor_in_columns(self):
        self.assertEqual(self.prints("checkpoint", "ls", "m"), """\
empty          int32   [16,0]   0
global_step    int64   []       8
layer/weights  float   [2,3]   24
words          string  [2]     14
""")

    def test_a_safetensors_file_must_be_converted_first(self):
        self.write("m.safetensors", b"")
        self.assertIn("hooksess checkpoint convert", self.says("checkpoint", "ls", "m.safetensors"))

    def test_slices_are_one_tensor(self):
        self.make("m", {"parts": ("float", [3, 2], [0] * 6, 2)})
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m"), [{"name": "parts", "dtype": "float", "shape": [3, 2]}])
        self.assertEqual(self.prints("checkpoint", "ls", "m").split(), ["parts", "float", "[3,2]", "24"])

    def test_json_is_one_array_and_nothing_else(self):
        expected = [{"name": name, "dtype": dtype, "shape": shape} for name, (dtype, shape, _) in sorted(MODEL.items())]
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m"), expected)

    def test_the_option_may_come_last(self):
        self.assertEqual(self.prints("checkpoint", "ls", "m", "--json"), self.prints("checkpoint", "ls", "--json", "m"))

    def test_no_tensors(self):
        self.make("none", {})
        self.assertEqual(self.prints("checkpoint", "ls", "none"), "")
        self.assertEqual(self.json("checkpoint", "ls", "--json", "none"), [])


class Prefixes(ToolCase):
    """The names of checkpoints that commands accept."""

    def setUp(self):
        super().setUp()
        (self.directory / "run").mkdir()

    def n_of(self, operand):
        return len(self.json("checkpoint", "ls", "--json", operand))

    def test_a_directory_means_its_newest_checkpoint(self):
        self.save("run/model-1", 1, 1)
        self.save("run/model-2", 1, 2)
        self.assertEqual(self.n_of("run"), 2)
        self.assertEqual(self.n_of("run/"), 2)
        self.assertEqual(self.n_of("run/model-1"), 1)

    def test_an_index_file_means_its_checkpoint(self):
        self.save("run/model-1", 1, 1)
        self.assertEqual(self.n_of("run/model-1.index"), 1)

    def test_a_checkpoint_may_be_called_index(self):
        self.make("m", {"a": MODEL["empty"]})
        self.make("m.index", MODEL)
        self.assertEqual(self.n_of("m.index"), 4)

    def test_a_checkpoint_and_a_directory_with_the_same_name(self):
        self.save("run/model-1", 1, 1)
        self.make("run", MODEL)
        self.assertEqual(self.n_of("run"), 4)

    def test_a_directory_without_checkpoints(self):
        self.assertIn("run: contains no file 'checkpoint' that names an existing checkpoint", self.says("checkpoint", "ls", "run"))

    def test_a_directory_whose_newest_checkpoint_is_deleted(self):
        self.save("run/model-1", 1, 1)
        (self.directory / "run/model-1.index").unlink()
        self.assertIn("run/model-1", self.says("checkpoint", "ls", "run"))

    def test_a_damaged_state_file(self):
        self.write("run/checkpoint", b"model_checkpoint_path: {")
        self.assertIn("run/checkpoint", self.says("checkpoint", "ls", "run"))

    def test_missing_files_are_named(self):
        self.assertIn("nowhere.index", self.says("checkpoint", "ls", "nowhere"))
        self.assertIn("is missing", self.says("checkpoint", "ls", ""))

    def test_a_data_file_does_not_name_a_checkpoint(self):
        self.make("m", MODEL)
        self.assertIn("not the prefix of a checkpoint", self.says("checkpoint", "ls", "m.data-00000-of-00001"))

    def test_a_damaged_index_cannot_be_listed(self):
        self.write("m.index", b"\0" * 100)
        self.assertIn("m.index", self.says("checkpoint", "ls", "m"))


class HostileNames(ToolCase):
    NAMES = {  # and the text output
        b"\x01\x1b[31mred": "\\x01\\x1b[31mred",
        b"a\nb\t": "a\\x0ab\\x09",
        b"back\\slash": "back\\\\slash",
        b'quote"': 'quote"',
        "größe".encode(): "größe",
        "\U0001f600".encode(): "\U0001f600",
        b"x\xc2\x9b1m": "x\\xc2\\x9b1m",  # a C1 control character
        b"y\xc3": "y\\xc3",
        b"y\xed\xa0\x80": "y\\xed\\xa0\\x80",  # a surrogate
        b"y\xed\x9f\xbf": "y\ud7ff",  # the last character before the surrogates
        b"z\xf4\x8f\xbf\xbf": "z\U0010ffff",
        b"z\xf4\x90\x80\x80": "z\\xf4\\x90\\x80\\x80",  # beyond the last character
        b"z\xc0\xaf\xff": "z\\xc0\\xaf\\xff",  # overlong
        b"z\xe0\x9f\xbf": "z\\xe0\\x9f\\xbf",
        b"z\xe0\xa0\x80": "z\u0800",
        b"z\xf0\x8f\xbf\xbf": "z\\xf0\\x8f\\xbf\\xbf",
        b"z\xf0\x90\x80\x80": "z\U00010000",
        b"%s%n": "%s%n",
    }

    def setUp(self):
        super().setUp()
        self.make("m", {os.fsdecode(name): ("uint8", [1], [0]) for name in self.NAMES})

    def test_a_terminal_gets_only_printable_characters(self):
        shown = [self.NAMES[name] for name in sorted(self.NAMES)]
        width = max(map(len, shown))
        self.assertEqual(self.prints("checkpoint", "ls", "m"), "".join(f"{name:{width}}  uint8  [1]  1\n" for name in shown))

    def test_json_has_u_fffd_for_each_wrong_byte(self):
        found = [tensor["name"] for tensor in self.json("checkpoint", "ls", "--json", "m")]
        expected = []
        for name in sorted(self.NAMES):
            text = name.decode(errors="surrogateescape")
            expected.append("".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in text))
        self.assertEqual(found, expected)

    def test_long_names(self):
        name = "n" * 100000
        self.make("long", {name: ("uint8", [1], [0])})
        self.assertEqual(self.prints("checkpoint", "ls", "long"), f"{name}  uint8  [1]  1\n")
        self.assertEqual(self.json("checkpoint", "ls", "--json", "long")[0]["name"], name)

    def test_the_name_of_a_checkpoint_is_escaped_too(self):
        self.assertIn("hooksess: a\\x1b[2J\\x0ab.index: ", self.says("checkpoint", "ls", "a\x1b[2J\nb"))


if __name__ == "__main__":
    unittest.main()
