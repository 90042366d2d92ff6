#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with LibTorch, kills the process, and compares the resumed training with an undisturbed one, bit for bit.

TRAIN: the program of train.cpp.
"""
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile
import unittest

STEPS = 30


def start(directory, *words):
    return subprocess.Popen([os.environ["TRAIN"], str(directory), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=240)
    return process.returncode, out.splitlines(), err


def losses(lines):
    """Step -> loss; a later line of a step replaces an earlier one."""
    return {int(step): loss for step, loss in (line.split() for line in lines if not line.startswith("checksum"))}


def checksum(lines):
    return lines[-1].split(",")[0]


class Torch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def whole(self, optimizer, sampler):
        code, lines, err = finish(start(self.folder / "whole", optimizer, sampler, str(STEPS)))
        self.assertEqual(code, 0, err)
        self.assertEqual(len(losses(lines)), STEPS)
        self.assertEqual(len(set(losses(lines).values())), STEPS, "losses that are equal show nothing")
        return lines

    def killed(self, directory, optimizer, sampler, step):
        """Trains until the process has printed this step, then kills it. It may have made more steps meanwhile."""
        process, seen = start(directory, optimizer, sampler, str(STEPS)), []
        for line in process.stdout:
            seen.append(line.strip())
            if line.split()[0] == str(step):
                process.kill()
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertIn(process.wait(), (-signal.SIGKILL, 0), err)
        return seen

    def check(self, optimizer, sampler):
        whole = self.whole(optimizer, sampler)
        first, second = random.randrange(1, 12), random.randrange(12, 20)
        with self.subTest(first=first, second=second):
            directory = self.folder / "killed"
            lines = self.killed(directory, optimizer, sampler, first) + self.killed(directory, optimizer, sampler, second)
            code, last, err = finish(start(directory, optimizer, sampler, str(STEPS)))
            self.assertEqual(code, 0, err)
            self.assertEqual(losses(lines + last), losses(whole))
            self.assertEqual(checksum(last), checksum(whole))

    def test_adamw_with_groups(self):
        self.check("adamw", "random")

    def test_adam_with_amsgrad(self):
        self.check("adam", "random")

    def test_sgd_with_momentum(self):
        self.check("sgd", "sequential")

    def test_rmsprop(self):
        self.check("rmsprop", "random")

    def test_adagrad(self):
        self.check("adagrad", "sequential")

    def test_consumed_samples_are_not_read_again(self):
        directory = self.folder / "run"
        finish(start(directory, "sgd", "random", "10"))
        code, lines, err = finish(start(directory, "sgd", "random", "14"))  # the rest of the second epoch
        self.assertEqual(code, 0, err)
        self.assertLessEqual(int(lines[-1].split()[-3]), 100 - 3 * 16)

    def test_sigterm_saves_the_step(self):
        whole = self.whole("adamw", "random")
        code, lines, err = finish(start(self.folder / "run", "adamw", "random", str(STEPS), "sigterm"))
        self.assertEqual((code, list(losses(lines))), (75, list(range(1, 14))), err)
        code, last, err = finish(start(self.folder / "run", "adamw", "random", str(STEPS)))
        self.assertEqual((code, list(losses(last))), (0, list(range(14, STEPS + 1))), err)
        self.assertEqual(losses(lines + last), losses(whole))
        self.assertEqual(checksum(last), checksum(whole))

    def test_a_rollback_repeats_the_steps(self):
        whole = self.whole("adamw", "random")
        code, lines, err = finish(start(self.folder / "run", "adamw", "random", str(STEPS), "nan"))
        self.assertEqual(code, 0, err)
        self.assertEqual([int(line.split()[0]) for line in lines[:-1]], [*range(1, 14), *range(11, STEPS + 1)])
        self.assertEqual(losses(lines), losses(whole))
        self.assertEqual(checksum(lines), checksum(whole))

    def test_checks(self):
        code, _, err = finish(start(self.folder, "checks"))
        self.assertEqual(code, 0, err)
        with open(self.folder / "model.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        self.assertEqual(header["conv.weight"]["shape"], [4, 1, 3, 3])
        self.assertEqual((header["half"]["dtype"], header["seen"]["dtype"], header["steps"]["dtype"]), ("BF16", "BOOL", "I16"))
        self.assertIn("norm.num_batches_tracked", header)
        self.assertNotIn("linear.weight", header)  # tied


if __name__ == "__main__":
    unittest.main()
