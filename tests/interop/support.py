# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of interoperability: the programs, their folders, and TensorFlow without its log."""
import logging
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

for name, value in {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}.items():
    os.environ.setdefault(name, value)

import tensorflow  # after its environment is set

tensorflow.get_logger().setLevel(logging.ERROR)
logging.getLogger("tensorboard").setLevel(logging.ERROR)
tf = tensorflow.compat.v1

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts a job in the background has it ignored

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("HOOKSESS_BUILD", SOURCE / "build/release"))
TIMEOUT = 120  # of one run of one program, in seconds; none needs more than a few


def program(name):
    return str(BUILD / "tests/interop" / name)


def finish(status, name, *arguments, given=None):
    """Runs a program of the tests, which must end with this status. `given` is its standard input."""
    done = subprocess.run([program(name), *map(str, arguments)], input=given, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != status:
        raise AssertionError(f"{name} ended with {done.returncode} instead of {status}: {done.stderr}")
    return done


def run(name, *arguments, given=None):
    """Runs a program, which must succeed. Returns its output."""
    return finish(0, name, *arguments, given=given).stdout


def run_failing(name, *arguments, status=1, given=None):
    """Runs a program, which must fail. Returns its error output."""
    return finish(status, name, *arguments, given=given).stderr


class TestCase(unittest.TestCase):
    """A test with its own directory."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name)

    def path(self, name):
        return str(self.directory / name)
