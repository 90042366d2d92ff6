# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the Python package: the C programs that write the files, and a temporary directory."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HOOKSESS_BUILD", SOURCE / "build/release"))
PACKAGE = SOURCE / "python"
TIMEOUT = 60  # of one run of one program, in seconds; each needs less than one


def run(name, *arguments, status=0, given=None):
    """Runs a program of the tests, such as "python/write_run". It must end with this status."""
    done = subprocess.run([BUILD / "tests" / name, *map(str, arguments)], input=given, capture_output=True, timeout=TIMEOUT)
    if done.returncode != status:
        raise AssertionError(f"{name} ended with {done.returncode} instead of {status}: {done.stderr.decode(errors='replace')}")


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name)
