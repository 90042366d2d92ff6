# SPDX-License-Identifier: Apache-2.0
"""The package finds the C library, refuses others, and declares structs with the library's sizes."""
import ctypes
import ctypes.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import hooksess
from hooksess import _library
from support import SOURCE, TIMEOUT

LIBRARY = pathlib.Path(os.environ["HOOKSESS_LIBRARY"])


def python(code, **variables):
    """Runs Python code with these environment variables. None removes a variable."""
    environment = {key: value for key, value in (os.environ | variables).items() if value is not None}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=TIMEOUT)


class Loading(unittest.TestCase):
    def test_the_argument_comes_first(self):
        done = python(f"import hooksess; print(hooksess.load({str(LIBRARY)!r}))", HOOKSESS_LIBRARY="/no/such/library.so")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, hooksess.version()), done.stderr)

    def test_the_environment_variable_comes_next(self):
        done = python("import hooksess; print(hooksess.version())")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, hooksess.version()), done.stderr)

    def test_the_loader_of_the_system_comes_last(self):
        with tempfile.TemporaryDirectory() as directory:
            os.symlink(LIBRARY, os.path.join(directory, _library.SONAME))
            done = python("import hooksess; print(hooksess.version())", HOOKSESS_LIBRARY=None, LD_LIBRARY_PATH=directory)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, hooksess.version()), done.stderr)

    def test_a_missing_library_is_named_with_the_remedy(self):
        done = python("import hooksess; hooksess.latest('.')", HOOKSESS_LIBRARY="/no/such/library.so")
        self.assertRegex(done.stderr, r"ImportError: .*/no/such/library\.so.*hooksess\.load\(\).*HOOKSESS_LIBRARY")

    def test_another_library_is_refused(self):
        other = ctypes.util.find_library("z")
        self.assertIsNotNone(other)
        done = python("import hooksess; hooksess.version()", HOOKSESS_LIBRARY=other)
        self.assertRegex(done.stderr, rf"ImportError: '{re.escape(other)}' is not a libhooksess")

    def test_another_release_is_refused(self):
        done = python("from hooksess import _library; _library.RELEASES = '0.2.'; _library.load()")
        self.assertRegex(done.stderr, rf"ImportError: .* is libhooksess {re.escape(hooksess.version())}; this package needs 0\.2\.x")

    def test_an_older_library_is_refused(self):
        done = python("from hooksess import _library as l\n"
                      "class Later(l.EventReaderOptions): _fields_ = [('added', l.ctypes.c_int64)]\n"
                      "l.SIZED[b'hs_event_reader_options'] = Later\n"
                      "l.load()")
        self.assertRegex(done.stderr, "ImportError: .*older than this package")

    def test_a_second_library_is_refused(self):
        hooksess.load()
        with self.assertRaisesRegex(RuntimeError, "call it first"):
            hooksess.load(LIBRARY)

    def test_importing_the_package_loads_no_library(self):
        done = python("import hooksess; print(hooksess.status('/'))", HOOKSESS_LIBRARY="/no/such/library.so")
        self.assertEqual(done.stdout.strip(), "None", done.stderr)


class Declarations(unittest.TestCase):
    def test_structs_have_the_sizes_of_the_library(self):
        for name, struct in _library.SIZED.items():
            self.assertEqual(_library.library().hs_struct_size(name), ctypes.sizeof(struct), name)

    def test_frozen_structs_have_the_sizes_of_the_check_of_the_abi(self):
        known = dict(re.findall(r"^FROZEN\((\w+), (\d+)\);", (SOURCE / "tests/checks/test_abi.c").read_text(), re.M))
        for name, struct in {"hs_error": _library.ErrorStruct, "hs_string": _library.Bytes, "hs_bytes": _library.Bytes,
                             "hs_shape": _library.Shape, "hs_tensor": _library.Tensor, "hs_event": _library.EventStruct,
                             "hs_event_value": _library.EventValue, "hs_event_damage": _library.EventDamage}.items():
            self.assertEqual(int(known[name]), ctypes.sizeof(struct), name)

    def test_the_version_is_that_of_the_headers(self):
        version, header = hooksess.__version__, (SOURCE / "include/hooksess/version.h").read_text()
        self.assertEqual(version, re.search(r'HS_VERSION_STRING "(.*)"', header)[1])
        self.assertEqual(version, hooksess.version())
        self.assertTrue(version.startswith(_library.RELEASES) and _library.SONAME.endswith(_library.RELEASES.rstrip(".")))


if __name__ == "__main__":
    unittest.main()
