# SPDX-License-Identifier: Apache-2.0
import json
import struct
import unittest

from support import TOOL, ToolCase, run

FILE = "m.safetensors"
MODEL = {"bias": ("double", [2], [0.5, -2]), "flags": ("bool", [3], [True, False, True]), "none": ("float", [0, 4], []),
         "half": ("half", [1], [1.5]), "step": ("int64", [], [-9007199254740993]), "z": ("complex64", [1], [1, -2]),
         "layer/weights": ("float", [2, 3], [1, -0.0, float("inf"), 4, 5, float("nan")]), "unsigned": ("uint64", [1], [2**64 - 1]),
         "hooksess/hook/counter": ("uint8", [3], [1, 2, 3])}
OTHER = {"other": ("int32", [1], [7])}


class Case(ToolCase):
    def setUp(self):
        super().setUp()
        self.make("m", MODEL)

    def convert(self, from_, to):
        self.assertEqual(self.prints("checkpoint", "convert", from_, to), "")

    def refuses(self, from_, to):
        """The error. No file may be created or changed."""
        before = self.files()
        said = self.says("checkpoint", "convert", from_, to)
        self.assertEqual(self.files(), before)
        return said

    def files(self):
        """The contents of all files but the lock file."""
        return {str(path.relative_to(self.directory)): path.read_bytes() for path in self.directory.rglob("*")
                if path.is_file() and path.name != ".hooksess.lock"}

    def assert_same(self, one, other):
        """Asserts that both have the same names, dtypes, shapes and bits."""
        self.prints("checkpoint", "diff", one, other)
        self.assertEqual(self.prints("checkpoint", "ls", one), self.prints("checkpoint", "ls", other))


class ThereAndBack(Case):
    def test_a_checkpoint_round_trips(self):
        self.convert("m", FILE)
        self.convert(FILE, "back")
        self.assert_same("m", "back")
        self.prints("checkpoint", "verify", "back")

    def test_a_file_round_trips_byte_for_byte(self):
        self.convert("m", FILE)
        self.convert(FILE, "back")
        self.convert("back", "again.safetensors")
        self.assertEqual(self.bytes_of("again.safetensors"), self.bytes_of(FILE))

    def test_json_output(self):
        self.assertEqual(self.json("checkpoint", "convert", "--json", "m.index", FILE), {"from": "m", "to": FILE, "skipped": []})
        self.assertIn("gone", self.says("checkpoint", "convert", "--json", "gone", FILE))

    def test_the_file_has_the_bytes_of_the_tensors(self):
        self.convert("m", FILE)
        data = self.bytes_of(FILE)
        end = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:end])
        self.assertEqual(header.keys(), MODEL.keys())
        begin, stop = header["bias"]["data_offsets"]
        self.assertEqual((header["bias"]["dtype"], header["bias"]["shape"]), ("F64", [2]))
        self.assertEqual(struct.unpack("<2d", data[end + begin:end + stop]), (0.5, -2))

    def test_no_tensors(self):
        self.make("empty", {})
        self.convert("empty", FILE)
        self.convert(FILE, "back")
        self.assertEqual(self.prints("checkpoint", "ls", "back"), "")

    def test_every_standard_file_closed(self):
        for from_, to in ("m", FILE), (FILE, "back"):
            self.assertEqual(run("bash", "-c", '"$@" <&- >&- 2>&-', "bash", TOOL, "checkpoint", "convert", from_, to,
                                 cwd=self.directory).returncode, 0)
        self.assert_same("m", "back")

    def test_no_other_file_remains(self):
        self.convert("m", FILE)
        before = self.files()
        self.convert(FILE, "back")
        self.assertEqual(self.files().keys() - before.keys(), {"back.index", "back.data-00000-of-00001"})


class Names(Case):
    def test_a_checkpoint_may_be_named_by_its_index_file(self):
        self.convert("m.index", FILE)
        self.convert(FILE, "back")
        self.assert_same("m", "back")

    def test_a_directory_means_its_newest_checkpoint(self):
        (self.directory / "run").mkdir()
        self.save("run/m-1", 1, 2)
        self.save("run/m-2", 2, 2)
        self.convert("run", FILE)
        self.convert(FILE, "back")
        self.assert_same("run/m-2", "back")
        self.prints("checkpoint", "diff", "run/m-1", "back", status=1)

    def test_a_missing_directory_is_created(self):
        self.convert("m", "new/" + FILE)
        self.convert("new/" + FILE, "newer/m")
        self.assert_same("m", "newer/m")
        self.assertIn("parent directory does not exist", self.refuses("m", "no/such/" + FILE))

    def test_exactly_one_name_must_end_in_safetensors(self):
        self.convert("m", FILE)
        for from_, to in ("m", "other"), (FILE, "other.safetensors"):
            self.assertIn("exactly one of the two names must end in .safetensors", self.refuses(from_, to))

    def test_the_output_needs_a_name(self):
        self.convert("m", FILE)
        (self.directory / "run").mkdir()
        self.assertIn("'run' is a directory", self.refuses(FILE, "run"))
        self.assertIn("'run/' is a directory", self.refuses(FILE, "run/"))
        self.assertIn("without .index", self.refuses(FILE, "back.index"))
        self.assertIn("is missing", self.refuses(FILE, ""))

    def test_missing_files_are_named(self):
        self.assertIn("gone: No such file or directory, and no checkpoint (", self.refuses("gone", FILE))
        self.assertIn("gone.safetensors", self.refuses("gone.safetensors", "back"))
        (self.directory / "run").mkdir()
        self.assertIn("run: contains no file 'checkpoint' that names an existing checkpoint", self.refuses("run", FILE))
        self.assertIn("is missing", self.refuses("", FILE))


class Replacing(Case):
    def setUp(self):
        super().setUp()
        self.convert("m", FILE)
        self.make("other", OTHER)

    def test_a_file_of_the_name_is_replaced(self):
        self.convert("other", FILE)
        self.convert(FILE, "back")
        self.assert_same("other", "back")

    def test_a_checkpoint_of_the_name_is_replaced(self):
        self.convert(FILE, "other")
        self.assert_same("m", "other")
        self.assertEqual(sorted(name for name in self.files() if name.startswith("other")),
                         ["other.data-00001-of-00002", "other.index"])

    def test_the_newest_checkpoint_of_a_directory_does_not_change(self):
        self.save("m-1", 1, 2)
        before = self.bytes_of("checkpoint")
        self.convert(FILE, "m-2")
        self.assertEqual(self.bytes_of("checkpoint"), before)
        self.prints("checkpoint", "verify", "m-1")


class Skipped(Case):
    """Tensors that are left out."""

    def test_strings_such_as_the_object_graph_of_tensorflow_2_are_skipped_with_a_line(self):
        self.make("tf2", {"_CHECKPOINTABLE_OBJECT_GRAPH": ("string", [], [b"graph"]), "words": ("string", [2], [b"a", b"b"]), **OTHER})
        output, said = self.tool("checkpoint", "convert", "tf2", FILE)
        self.assertEqual((output, said.splitlines()), ("", [
            "hooksess: '_CHECKPOINTABLE_OBJECT_GRAPH' skipped: it has strings, which a safetensors file cannot hold",
            "hooksess: 'words' skipped: it has strings, which a safetensors file cannot hold"]))
        self.make("other", OTHER)
        self.convert(FILE, "back")
        self.assert_same("other", "back")
        output, _ = self.tool("checkpoint", "convert", "--json", "tf2", FILE)
        self.assertEqual(json.loads(output)["skipped"], ["_CHECKPOINTABLE_OBJECT_GRAPH", "words"])

    def test_named_tensors_are_skipped_in_both_directions(self):
        self.make("few", {name: MODEL[name] for name in ("bias", "none")})
        self.prints("checkpoint", "convert", "--skip", ",".join(name for name in MODEL if name not in ("bias", "none")), "m", FILE)
        self.convert(FILE, "back")
        self.assert_same("few", "back")
        self.convert("m", FILE)
        found = self.json("checkpoint", "convert", "--json", "--skip", "bias", FILE, "back")
        self.assertEqual(found["skipped"], ["bias"])
        self.assertNotIn("bias", [tensor["name"] for tensor in self.json("checkpoint", "ls", "--json", "back")])

    def test_a_tensor_of_an_unknown_dtype_can_be_skipped(self):
        header = json.dumps({"scaled": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]},
                             "w": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}).encode()
        self.write(FILE, struct.pack("<Q", len(header)) + header + b"ab")
        said = self.refuses(FILE, "back")
        self.assertIn("'scaled' has the dtype 'F8_E4M3', which is not supported", said)
        self.assertIn("hooksess: to leave tensors out, use --skip NAMES\n", said)
        self.prints("checkpoint", "convert", "--skip", "scaled", FILE, "back")
        self.assertEqual([tensor["name"] for tensor in self.json("checkpoint", "ls", "--json", "back")], ["w"])

    def test_a_name_that_does_not_exist_is_an_error(self):
        before = self.files()
        for from_, to in ("m", FILE), (FILE, "back"):
            self.assertIn("has no tensor 'bios' to skip", self.says("checkpoint", "convert", "--skip", "bias,bios", from_, to))
            self.assertEqual(self.files(), before)
            self.convert("m", FILE)
            before = self.files()


class Refused(Case):
    def test_every_wrong_byte_of_a_checkpoints_data(self):
        data = self.bytes_of("m.data-00000-of-00001")
        self.write(FILE, b"an older file")
        for at in range(len(data)):
            self.write("m.data-00000-of-00001", data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])
            self.assertIn("checksum mismatch", self.refuses("m", FILE))

    def test_a_damaged_index(self):
        self.write("m.index", self.bytes_of("m.index")[:-1])
        self.assertIn("m.index", self.refuses("m", FILE))

    def test_a_missing_data_file(self):
        (self.directory / "m.data-00000-of-00001").unlink()
        self.assertIn("m.data-00000-of-00001", self.refuses("m", FILE))

    def test_every_truncation_of_a_file(self):
        self.convert("m", FILE)
        whole = self.bytes_of(FILE)
        for n in range(0, len(whole), 5):
            self.write(FILE, whole[:n])
            self.assertIn(FILE, self.refuses(FILE, "back"))

    def test_other_files_are_refused(self):
        self.write(FILE, b"\x89PNG\r\n\x1a\n" + bytes(100))
        self.assertIn(FILE, self.refuses(FILE, "back"))
        self.write(FILE, struct.pack("<Q", 2) + b"[]")
        self.assertIn("not a safetensors file", self.refuses(FILE, "back"))

    def test_names_are_escaped(self):
        self.make("m", {"\x1b[2J": ("string", [1], [b"x"])})
        self.assertIn("'\\x1b[2J' skipped", self.tool("checkpoint", "convert", "m", FILE)[1])


if __name__ == "__main__":
    unittest.main()
