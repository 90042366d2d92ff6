# SPDX-License-Identifier: Apache-2.0
"""What the tests of the tool share: the tool, and checkpoints to show it."""
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HOOKSESS_BUILD", SOURCE / "build/release"))
TOOL = str(BUILD / "src/tool/hooksess")
TIMEOUT = 60  # of one run, in seconds; none needs one
ALLOCATOR = re.compile(r"==\d+==WARNING: AddressSanitizer failed to allocate .*\n")  # the sanitizer's, where malloc gives NULL

# Numbers and struct's letters of the types that the tests use; complex numbers are given as their parts.
DTYPES = {"float": (1, "f"), "double": (2, "d"), "int32": (3, "i"), "uint8": (4, "B"), "int8": (6, "b"), "string": (7, None),
          "complex64": (8, "f"), "int64": (9, "q"), "bool": (10, "?"), "half": (19, "e"), "uint64": (23, "Q")}


def dims_of(shape):
    return "".join(f"{dim}," for dim in shape) or "-"


def line_of(name, dtype, shape, values):
    number, letter = DTYPES[dtype]
    data = ",".join(v.hex() for v in values) if letter is None else struct.pack(f"<{len(values)}{letter}", *values).hex()
    return f"={os.fsencode(name).hex()} {number} {dims_of(shape)} ={data}\n"


def lines_of(name, dtype, shape, values, cut=None):
    """Of a tensor, or of its slices: rows [0, cut) and the others."""
    if cut is None:
        return line_of(name, dtype, shape, values)
    slices, row = "", len(values) // shape[0]
    for begin, end in (0, cut), (cut, shape[0]):
        line = line_of(name, dtype, [end - begin, *shape[1:]], values[begin * row:end * row])
        slices += f"{line.rstrip()} {dims_of([begin] + [0] * (len(shape) - 1))} {dims_of(shape)}\n"
    return slices


def run(*command, **options):
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT, **options)


class ToolCase(unittest.TestCase):
    """A test with a directory of its own, in which it is."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name)

    def make(self, prefix, tensors, *shards):
        """A checkpoint of {name: (dtype, shape, values)}; a number after the values: in slices, so many rows in the first."""
        text = "".join(lines_of(name, *tensor) for name, tensor in tensors.items())
        done = run(str(BUILD / "tests/tool/make_checkpoint"), prefix, *map(str, shards), input=text.encode(), cwd=self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)

    def save(self, prefix, generation, n_variables):
        """A checkpoint by a saver, with a state file."""
        done = run(str(BUILD / "tests/interop/save_checkpoint"), prefix, str(generation), str(n_variables), cwd=self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)

    def tool(self, *arguments, status=0):
        """Runs the tool, which must end with this status; returns what it printed, and what it said."""
        done = run(TOOL, *arguments, cwd=self.directory)
        output, said = done.stdout.decode(), ALLOCATOR.sub("", done.stderr.decode())
        self.assertEqual(done.returncode, status, output + said)
        self.assertEqual([line for line in said.splitlines() if not line.startswith("hooksess: ")], [])
        return output, said

    def prints(self, *arguments, status=0):
        """What it prints, where it has nothing to complain of."""
        output, said = self.tool(*arguments, status=status)
        self.assertEqual(said, "")
        return output

    def says(self, *arguments, status=2):
        """What it complains of, where it has nothing to print."""
        output, said = self.tool(*arguments, status=status)
        self.assertEqual(output, "")
        return said

    def json(self, *arguments, status=0):
        def no_such_number(text):
            raise AssertionError(f"{text} is no JSON")

        return json.loads(self.prints(*arguments, status=status), parse_constant=no_such_number)

    def bytes_of(self, name):
        return (self.directory / name).read_bytes()

    def write(self, name, data):
        (self.directory / name).write_bytes(data)
