# SPDX-License-Identifier: Apache-2.0
"""The trainer on a disk that is full for a while: a small tmpfs, if one can be mounted."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

TRAINER = os.environ["TRAINER"]
SIZE = 24 << 20
OPTIONS = ["--save-steps", "20", "--keep", "1", "--batch-size", "32", "--log-steps", "10", "--summary-steps", "10",
           "--eval-steps", "0", "--seed", "3", "--threads", "1", "--no-progress", "--hidden", "64"]
PATIENCE = 60


class FullDisk(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.disk = pathlib.Path(temporary.name, "disk")
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.disk)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("a tmpfs cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.disk)], check=True)
        self.log = open(pathlib.Path(temporary.name, "log"), "w+")
        self.addCleanup(self.log.close)

    def start(self, *options):
        data = [] if "TRAINER_DATA" not in os.environ else ["--data", os.environ["TRAINER_DATA"]]
        return subprocess.Popen([TRAINER, "--model-dir", str(self.disk / "run"), *data, *OPTIONS, *options],
                                stdout=subprocess.DEVNULL, stderr=self.log)

    def said(self):
        return pathlib.Path(self.log.name).read_text()

    def await_true(self, what, trainer):
        end = time.monotonic() + PATIENCE
        while not what():
            self.assertIsNone(trainer.poll(), "it ended too early: " + self.said()[-2000:])
            self.assertLess(time.monotonic(), end, self.said()[-2000:])
            time.sleep(0.01)

    def has_saved(self):
        return any(path.name != "model.ckpt-0.index" for path in (self.disk / "run").glob("model.ckpt-*.index"))

    def fill(self):
        with open(self.disk / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError:
                pass

    def outcome(self):
        return json.loads((self.disk / "run/outcome.json").read_text())

    def test_training_continues_and_the_end_is_saved(self):
        trainer = self.start("--max-steps", "1000000")
        self.await_true(self.has_saved, trainer)
        self.fill()
        self.await_true(lambda: self.said().count(": not saved: ") > 1, trainer)
        (self.disk / "filler").unlink()
        trainer.send_signal(signal.SIGTERM)
        self.assertEqual(trainer.wait(PATIENCE), 75, self.said()[-2000:])
        outcome = self.outcome()
        self.assertEqual(outcome["last_saved_step"], outcome["step"])
        savers = [failure for failure in outcome["failures"] if failure["hook"] == "checkpoint_saver"]
        self.assertEqual(len(savers), 1)
        self.assertGreater(savers[0]["failures"], 1)
        self.assertEqual(list((self.disk / "run").glob("*.tmp")), [])
        again = self.start("--max-steps", str(outcome["step"] + 10))
        self.assertEqual(again.wait(PATIENCE), 0, self.said()[-2000:])
        self.assertEqual(self.outcome()["step"], outcome["step"] + 10)

    def test_an_end_that_cannot_be_saved_fails_and_keeps_the_checkpoints(self):
        trainer = self.start("--max-steps", "1000000")
        self.await_true(self.has_saved, trainer)
        self.fill()
        self.await_true(lambda: ": not saved: " in self.said(), trainer)
        trainer.send_signal(signal.SIGTERM)
        self.assertEqual(trainer.wait(PATIENCE), 128 + signal.SIGTERM, self.said()[-2000:])
        (self.disk / "filler").unlink()
        again = self.start("--max-steps", "1")
        self.assertEqual(again.wait(PATIENCE), 0, self.said()[-2000:])
        self.assertEqual(self.outcome()["reason"], "already done")


if __name__ == "__main__":
    unittest.main()
