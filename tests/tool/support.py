# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the tool: running the tool, and making checkpoints."""
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import tempfile
import termios
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HOOKSESS_BUILD", SOURCE / "build/release"))
TOOL = str(BUILD / "src/tool/hooksess")
TIMEOUT = 60  # of one run, in seconds; each needs less than one
ALLOCATOR = re.compile(r"==\d+==WARNING: AddressSanitizer failed to allocate .*\n")  # the sanitizer prints it if malloc returns NULL

# Numbers and struct's letters of the types that the tests use. Complex numbers are given as their parts.
DTYPES = {"float": (1, "f"), "double": (2, "d"), "int32": (3, "i"), "uint8": (4, "B"), "int8": (6, "b"), "string": (7, None),
          "complex64": (8, "f"), "int64": (9, "q"), "bool": (10, "?"), "half": (19, "e"), "uint64": (23, "Q")}


def dims_of(shape):
    return "".join(f"{dim}," for dim in shape) or "-"


def line_of(name, dtype, shape, values):
    number, letter = DTYPES[dtype]
    data = ",".join(v.hex() for v in values) if letter is None else struct.pack(f"<{len(values)}{letter}", *values).hex()
    return f"={os.fsencode(name).hex()} {number} {dims_of(shape)} ={data}\n"


def lines_of(name, dtype, shape, values, cut=None):
    """The lines of a tensor, or of its two slices: rows [0, cut) and the others."""
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
    """A test that runs the tool in a temporary directory."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name)

    def make(self, prefix, tensors, *shards):
        """Makes a checkpoint of {name: (dtype, shape, values)}. With a number after the values: in two slices, the first with
        this number of rows."""
        text = "".join(lines_of(name, *tensor) for name, tensor in tensors.items())
        done = run(str(BUILD / "tests/tool/make_checkpoint"), prefix, *map(str, shards), input=text.encode(), cwd=self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)

    def save(self, prefix, generation, n_variables):
        """Makes a checkpoint with a saver, which writes a state file."""
        done = run(str(BUILD / "tests/interop/save_checkpoint"), prefix, str(generation), str(n_variables), cwd=self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)

    def tool(self, *arguments, status=0):
        """Runs the tool, which must end with this status. Returns its standard output and standard error."""
        done = run(TOOL, *arguments, cwd=self.directory)
        output, said = done.stdout.decode(), ALLOCATOR.sub("", done.stderr.decode())
        self.assertEqual(done.returncode, status, output + said)
        self.assertEqual([line for line in said.splitlines() if not line.startswith("hooksess: ")], [])
        return output, said

    def prints(self, *arguments, status=0):
        """The standard output. Standard error must be empty."""
        output, said = self.tool(*arguments, status=status)
        self.assertEqual(said, "")
        return output

    def says(self, *arguments, status=2):
        """The standard error. Standard output must be empty."""
        output, said = self.tool(*arguments, status=status)
        self.assertEqual(output, "")
        return said

    def json(self, *arguments, status=0):
        def no_such_number(text):
            raise AssertionError(f"{text} is not JSON")

        return json.loads(self.prints(*arguments, status=status), parse_constant=no_such_number)

    def terminal(self, *arguments, columns=60, rows=18, status=0, **more):
        """What a terminal of this size gets."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}
        environment.pop("COLUMNS", None)
        process = subprocess.Popen([TOOL, *arguments], cwd=self.directory, env=environment, stdout=theirs, stderr=theirs)
        os.close(theirs)
        output = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the process has ended
                break
            output += piece
        os.close(ours)
        self.assertEqual(process.wait(TIMEOUT), status)
        return output.decode().replace("\r\n", "\n")

    def bytes_of(self, name):
        return (self.directory / name).read_bytes()

    def write(self, name, data):
        (self.directory / name).write_bytes(data)
