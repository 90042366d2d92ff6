# SPDX-License-Identifier: Apache-2.0
import json
import os
import struct
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
tensor         dtype   shape       size
empty          int32   [16,0]   0 bytes
global_step    int64   []       8 bytes
layer/weights  float   [2,3]   24 bytes
words          string  [2]     14 bytes
""")

    def test_slices_are_one_tensor(self):
        self.make("m", {"parts": ("float", [3, 2], [0] * 6, 2)})
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m"), [{"name": "parts", "dtype": "float", "shape": [3, 2], "bytes": 24}])
        self.assertEqual(self.prints("checkpoint", "ls", "m").splitlines()[1].split(), ["parts", "float", "[3,2]", "24", "bytes"])

    def test_sizes_have_the_unit_of_the_log(self):
        self.make("m", {"a": ("uint8", [1], [0]), "b": ("float", [300], [0] * 300), "c": ("double", [300000], [0] * 300000)})
        self.assertEqual([line.split()[-2:] for line in self.prints("checkpoint", "ls", "m").splitlines()[1:]],
                         [["1", "byte"], ["1.2", "KiB"], ["2.3", "MiB"]])
        self.assertEqual([tensor["bytes"] for tensor in self.json("checkpoint", "ls", "--json", "m")], [1, 1200, 2400000])

    def test_a_long_name_does_not_move_the_columns_of_other_rows(self):
        name = "encoder/" * 13 + "kernel"
        self.make("m", {"bias": ("float", [2], [1, 2]), name: ("float", [2], [1, 2])})
        header, bias, long = self.prints("checkpoint", "ls", "m").splitlines()
        self.assertLessEqual(len(bias), 130)
        self.assertEqual(header.index("dtype"), bias.index("float"))
        self.assertEqual(long, f"{name}  float  [2]    8 bytes")
        shown = self.terminal("checkpoint", "ls", "m", columns=70, TERM="dumb").splitlines()
        self.assertEqual(shown[2], name)
        self.assertEqual(shown[3].index("float"), shown[1].index("float"))
        self.assertEqual([line for line in shown if len(line) > 70], [name])

    def test_json_is_one_array_and_nothing_else(self):
        bytes_of = {"layer/weights": 24, "global_step": 8, "empty": 0, "words": 14}
        expected = [{"name": name, "dtype": dtype, "shape": shape, "bytes": bytes_of[name]} for name, (dtype, shape, _) in sorted(MODEL.items())]
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m"), expected)

    def test_the_option_may_come_last(self):
        self.assertEqual(self.prints("checkpoint", "ls", "m", "--json"), self.prints("checkpoint", "ls", "--json", "m"))

    def test_no_tensors(self):
        self.make("none", {})
        self.assertEqual(self.prints("checkpoint", "ls", "none"), "")
        self.assertEqual(self.json("checkpoint", "ls", "--json", "none"), [])


class Safetensors(ToolCase):
    """Commands read a safetensors file as a checkpoint."""

    def setUp(self):
        super().setUp()
        self.make("m", {"a": ("float", [2], [1, 2]), "b": ("int64", [3], [4, 5, 6])})
        self.prints("checkpoint", "convert", "m", "m.safetensors")

    def test_its_tensors_are_listed_by_name(self):
        self.assertEqual(self.prints("checkpoint", "ls", "m.safetensors"), "tensor  dtype  shape      size\na       float  [2]     8 bytes\nb       int64  [3]    24 bytes\n")
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m.safetensors"), self.json("checkpoint", "ls", "--json", "m"))

    def test_its_statistics(self):
        self.assertEqual(self.prints("checkpoint", "stat", "m.safetensors"), self.prints("checkpoint", "stat", "m"))

    def test_it_is_compared_with_a_checkpoint(self):
        self.assertIn("2 tensors equal", self.prints("checkpoint", "diff", "m", "m.safetensors"))
        self.make("n", {"a": ("float", [2], [1, 3]), "b": ("int64", [3], [4, 5, 6])})
        self.assertRegex(self.prints("checkpoint", "diff", "m.safetensors", "n", status=1), r"\n~ a +2 +1  \[1\] ")

    def test_it_has_no_checksums_to_verify(self):
        output, said = self.tool("checkpoint", "verify", "m.safetensors", status=2)
        self.assertEqual(said.count("have no checksums"), 1)
        self.assertNotIn("no damage", output)

    def test_a_damaged_file_is_named(self):
        data = self.bytes_of("m.safetensors")
        for damaged in b"", data[:7], data[:40], data[:-1], data.replace(b'"I64"', b'"I32"'), b"\xff" * 100:
            self.write("m.safetensors", damaged)
            for command in "ls", "stat":
                self.assertIn("m.safetensors: ", self.says("checkpoint", command, "m.safetensors"))
        self.assertIn("gone.safetensors", self.says("checkpoint", "ls", "gone.safetensors"))

    def test_hostile_names_are_escaped(self):
        header = json.dumps({"x\x1b[2J\n": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
        self.write("h.safetensors", len(header).to_bytes(8, "little") + header + b"\7")
        self.assertIn("\nx\\x1b[2J\\x0a  uint8  [1]    1 byte\n", self.prints("checkpoint", "ls", "h.safetensors"))
        header = json.dumps({"a\x7f\x9b31m": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
        self.write("h.safetensors", len(header).to_bytes(8, "little") + header + b"\7")
        self.assertEqual(self.prints("checkpoint", "ls", "--json", "h.safetensors"),
                         '[\n {"name": "a\\u007f\\u009b31m", "dtype": "uint8", "shape": [1], "bytes": 1}\n]\n')


class UnknownTypes(ToolCase):
    """A safetensors file with dtypes and a shape that the library does not know."""

    def setUp(self):
        super().setUp()
        self.write_file("m.safetensors", b"\x38\x40\x80")

    def write_file(self, name, scaled, dtype="F8_E4M3"):
        header = json.dumps({"odd\n": {"dtype": "\x1b[2J", "shape": [], "data_offsets": [11, 12]},
                             "rank9": {"dtype": "U8", "shape": [1] * 9, "data_offsets": [12, 13]},
                             "scaled": {"dtype": dtype, "shape": [3], "data_offsets": [0, 3], "scale": 0.5},
                             "w": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]}}).encode()
        self.write(name, len(header).to_bytes(8, "little") + header + scaled + struct.pack("<ff", 1, 2) + b"ab")

    def test_all_tensors_are_listed(self):
        self.assertEqual(self.prints("checkpoint", "ls", "m.safetensors"), """\
tensor   dtype    shape     size
odd\\x0a  \\x1b[2J  []      1 byte
rank9    uint8    ?       1 byte
scaled   F8_E4M3  [3]    3 bytes
w        float    [2]    8 bytes
""")
        self.assertEqual(self.json("checkpoint", "ls", "--json", "m.safetensors"),
                         [{"name": "odd\n", "dtype": "\x1b[2J", "shape": [], "bytes": 1}, {"name": "rank9", "dtype": "uint8", "shape": None, "bytes": 1},
                          {"name": "scaled", "dtype": "F8_E4M3", "shape": [3], "bytes": 3}, {"name": "w", "dtype": "float", "shape": [2], "bytes": 8}])

    def test_statistics_of_unknown_dtypes_are_their_bytes(self):
        lines = self.prints("checkpoint", "stat", "m.safetensors").splitlines()
        self.assertRegex(lines[3], r"^scaled +\[3\] +3 bytes of F8_E4M3$")
        self.assertRegex(lines[4], r"^w +\[2\] +1  ")
        found = self.json("checkpoint", "stat", "--json", "m.safetensors")
        self.assertEqual(found["tensors"][2], {"name": "scaled", "dtype": "F8_E4M3", "shape": [3], "bytes": 3})
        self.assertEqual((found["total"]["tensors"], found["total"]["elements"]), (4, 2))

    def test_their_bytes_are_compared(self):
        self.assertIn("4 tensors equal", self.prints("checkpoint", "diff", "m.safetensors", "m.safetensors"))
        self.write_file("n.safetensors", b"\x38\x41\x81")
        self.assertRegex(self.prints("checkpoint", "diff", "m.safetensors", "n.safetensors", status=1), r"\n~ scaled +3 +2  byte 1\n")
        self.assertEqual(self.json("checkpoint", "diff", "--json", "m.safetensors", "n.safetensors", status=1),
                         [{"name": "scaled", "dtype": "F8_E4M3", "shape": [3], "difference": "values", "bytes": 3, "differing": 2}])
        self.write_file("n.safetensors", b"\x38\x40\x80", "F8_E5M2")
        self.assertIn("~ scaled  F8_E4M3 [3] -> F8_E5M2 [3]", self.prints("checkpoint", "diff", "m.safetensors", "n.safetensors", status=1))

    def test_they_are_not_converted(self):
        self.assertIn("'scaled' has the dtype 'F8_E4M3', which is not supported", self.says("checkpoint", "convert", "m.safetensors", "c"))


class Directories(ToolCase):
    """The checkpoints in a directory."""

    def setUp(self):
        super().setUp()
        (self.directory / "run").mkdir()

    def age(self, name, secs):
        """Sets the time of a file."""
        os.utime(self.directory / name, (1700000000 - secs, 1700000000 - secs))

    def save_three(self):
        for step in 1, 2, 10:
            self.save(f"run/model-{step}", 1, step)
            self.age(f"run/model-{step}.index", 100 - step)

    def size_of(self, prefix):
        return sum(path.stat().st_size for path in (self.directory / "run").glob(f"{prefix}.*"))

    def test_the_newest_is_marked(self):
        self.save_three()
        found = self.json("checkpoint", "ls", "--json", "run")
        self.assertEqual([(c["path"], c["step"], c["newest"], c["kind"]) for c in found],
                         [("run/model-1", 1, False, "checkpoint"), ("run/model-2", 2, False, "checkpoint"),
                          ("run/model-10", 10, True, "checkpoint")])
        self.assertEqual([c["bytes"] for c in found], [self.size_of(f"model-{step}") for step in (1, 2, 10)])
        self.assertEqual(found[2]["time"], "2023-11-14T22:11:50.000Z")
        lines = self.prints("checkpoint", "ls", "run/").splitlines()
        self.assertRegex(lines[0], r"^checkpoint    step +size  time$")
        self.assertRegex(lines[1], r"^run/model-1      1 +\d+ bytes  2023-11-14T22:11:41\.000Z$")
        self.assertRegex(lines[3], rf"^run/model-10    10 +{found[2]['bytes'] / 1024:.1f} KiB  2023-11-14T22:11:50\.000Z  newest$")
        self.assertEqual(len(lines), 4)

    def test_the_order_is_that_of_the_steps_after_a_copy(self):
        self.save_three()
        for step in 1, 2, 10:
            self.age(f"run/model-{step}.index", step)
        self.assertEqual([c["step"] for c in self.json("checkpoint", "ls", "--json", "run")], [1, 2, 10])

    def test_a_rolled_back_training_has_an_older_newest(self):
        self.save_three()
        self.write("run/checkpoint", b'model_checkpoint_path: "model-2"\n')
        self.assertEqual([c["step"] for c in self.json("checkpoint", "ls", "--json", "run") if c["newest"]], [2])

    def test_other_files(self):
        self.save_three()
        for old in list((self.directory / "run").glob("model-10.*")):
            old.rename(old.with_name(old.name.replace("model-10.", "model-10.abandoned.")))
        self.make("m", {"a": ("float", [2], [1, 2])})
        self.prints("checkpoint", "convert", "m", "run/export.safetensors")
        for name in "events.out.tfevents.1.a", "model-3.data-00000-of-00001", "model-4.index.tmp", "graph.pbtxt", ".index":
            self.write(f"run/{name}", b"x")
        self.write("run/checkpoint", b'model_checkpoint_path: "model-1"\n')
        found = self.json("checkpoint", "ls", "--json", "run")
        self.assertEqual([(c["path"], c["step"], c["kind"], c["newest"]) for c in found],
                         [("run/model-1", 1, "checkpoint", True), ("run/model-2", 2, "checkpoint", False),
                          ("run/model-10.abandoned", 10, "abandoned", False), ("run/export.safetensors", None, "safetensors", False)])
        self.assertRegex(self.prints("checkpoint", "ls", "run"), r"(?m)^run/model-10\.abandoned +10 .*Z  abandoned$")

    def test_hostile_names_are_escaped(self):
        self.save("run/model-1", 1, 1)
        (self.directory / "run/checkpoint").unlink()
        (self.directory / "run/model-1.index").rename(self.directory / "run/x\x1b[2J\n-7.index")
        self.assertRegex(self.prints("checkpoint", "ls", "run"), r"\nrun/x\\x1b\[2J\\x0a-7 +7  \d+ bytes  \S+\n$")
        (self.directory / "run/%s%n-99999999999999999999.index").write_bytes(b"x")
        (self.directory / "run/-.index").write_bytes(b"x")
        self.assertEqual(len(self.json("checkpoint", "ls", "--json", "run")), 3)

    def test_a_damaged_state_file_hides_no_checkpoint(self):
        self.save_three()
        self.write("run/checkpoint", b"model_checkpoint_path: {")
        output, said = self.tool("checkpoint", "ls", "run", status=2)
        self.assertEqual(output.count("\n"), 4)
        self.assertNotIn("newest", output)
        self.assertIn("run/checkpoint", said)

    def test_a_directory_without_checkpoints(self):
        self.assertIn("run: contains no checkpoint", self.says("checkpoint", "ls", "run"))
        self.assertIn("run: contains no checkpoint", self.says("checkpoint", "ls", "--json", "run"))


class Prefixes(ToolCase):
    """The names of checkpoints that commands accept."""

    def setUp(self):
        super().setUp()
        (self.directory / "run").mkdir()

    def n_of(self, operand):
        found = self.json("checkpoint", "stat", "--json", operand)
        return len(found["tensors"]) + len(found["states"])

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
        self.assertIn("run: contains no file 'checkpoint' that names an existing checkpoint", self.says("checkpoint", "stat", "run"))

    def test_a_directory_whose_newest_checkpoint_is_deleted(self):
        self.save("run/model-1", 1, 1)
        (self.directory / "run/model-1.index").unlink()
        self.assertIn("run/model-1", self.says("checkpoint", "stat", "run"))

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
        self.assertEqual(self.prints("checkpoint", "ls", "m"), f"{'tensor':{width}}  dtype  shape    size\n" +
                         "".join(f"{name:{width}}  uint8  [1]    1 byte\n" for name in shown))

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
        self.assertTrue(self.prints("checkpoint", "ls", "long").endswith(f"\n{name}  uint8  [1]    1 byte\n"))
        self.assertEqual(self.json("checkpoint", "ls", "--json", "long")[0]["name"], name)

    def test_the_name_of_a_checkpoint_is_escaped_too(self):
        self.assertIn("hooksess: a\\x1b[2J\\x0ab: No such file or directory, and no checkpoint (", self.says("checkpoint", "ls", "a\x1b[2J\nb"))


if __name__ == "__main__":
    unittest.main()
