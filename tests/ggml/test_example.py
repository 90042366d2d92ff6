#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains examples/ggml, kills it at random, and compares the resumed training with an undisturbed one, bit for bit.

EXAMPLE: the program. HOOKSESS_TOOL: the command hooksess.
"""
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile
import time
import unittest

STEPS = 300  # of 100 samples
SAVED = 100  # steps between saves


def write_data(directory, prefix, n):
    """Noise, with a bright row for the label."""
    directory.mkdir(exist_ok=True)
    pixels = random.Random(1)
    labels = bytes(pixels.randrange(10) for _ in range(n))
    images = bytearray(pixels.randbytes(784 * n))
    for i, label in enumerate(labels):
        images[784 * i + 56 * label : 784 * i + 56 * label + 28] = b"\xff" * 28
    (directory / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, n, 28, 28) + images)
    (directory / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, n) + labels)


class Example(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.data = cls.folder / "data"
        write_data(cls.data, "train", 6000)
        write_data(cls.data, "t10k", 200)
        cls.whole = cls.folder / "whole"
        cls.finish(cls.start(cls.whole), 0)

    @classmethod
    def start(cls, run):
        return subprocess.Popen([os.environ["EXAMPLE"], str(cls.data), str(run), "5"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    @staticmethod
    def finish(process, code):
        _, err = process.communicate(timeout=300)
        if process.returncode != code:
            raise AssertionError(f"exit code {process.returncode}, not {code}\n{err}")

    def end(self, run, step, how):
        """Starts the training, and sends a signal at some time after this step was saved. Returns the exit code."""
        process = self.start(run)
        for line in process.stderr:
            if f"model.ckpt-{step}" in line and "saved" in line:
                break
        else:
            self.fail(f"the training ended before it saved step {step}")
        time.sleep(random.uniform(0, 0.5))
        process.send_signal(how)
        process.communicate(timeout=300)
        return process.returncode

    def tool(self, *words):
        return subprocess.run([os.environ["HOOKSESS_TOOL"], *map(str, words)], stdout=subprocess.PIPE, text=True, check=True).stdout

    def losses(self, run):
        """Step -> loss; that of a resumed step replaces the earlier one."""
        events = map(json.loads, self.tool("events", "cat", "--json", "--tag", "loss", run).splitlines())
        return {event["step"]: event["value"] for event in events}

    def assert_equal_to_whole(self, run):
        self.tool("checkpoint", "diff", self.whole / f"model.ckpt-{STEPS}", run / f"model.ckpt-{STEPS}")
        self.assertEqual((run / "mnist-fc.gguf").read_bytes(), (self.whole / "mnist-fc.gguf").read_bytes())
        self.assertEqual(self.losses(run), self.losses(self.whole))

    def test_it_learns(self):
        losses = self.losses(self.whole)
        self.assertLess(losses[max(losses)], losses[min(losses)] / 2)

    def test_kills_lose_nothing(self):
        run = self.folder / "killed"
        for step in (0, SAVED, 2 * SAVED):
            self.assertIn(self.end(run, step, signal.SIGKILL), (-signal.SIGKILL, 0))
        self.finish(self.start(run), 0)
        self.assert_equal_to_whole(run)

    def test_sigterm_saves_the_step(self):
        run = self.folder / "stopped"
        self.assertIn(self.end(run, SAVED, signal.SIGTERM), (75, 0))
        self.finish(self.start(run), 0)
        self.assert_equal_to_whole(run)

    def test_gguf_has_the_weights(self):
        data = (self.whole / "mnist-fc.gguf").read_bytes()
        magic, version, n_tensors, n_keys = struct.unpack("<4sIqq", data[:24])
        self.assertEqual((magic, version, n_tensors, n_keys), (b"GGUF", 3, 4, 1))
        names = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
        for name in names:
            self.assertIn(struct.pack("<Q", len(name)) + name.encode(), data)
        self.assertGreater(len(data), 4 * (784 * 500 + 500 + 500 * 10 + 10))


if __name__ == "__main__":
    unittest.main()
