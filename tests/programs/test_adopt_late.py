# SPDX-License-Identifier: Apache-2.0
"""The adopted loop of examples/adopt/late, which adds its moments late: its losses are those of the original loop, wherever it is killed."""
import os
import signal
import subprocess
import time
import unittest

import adopt
from adopt import AFTER

DATA = "/usr/share/datasets/fashion-mnist"


@unittest.skipUnless(os.path.isdir(DATA), "the data set is not installed (Debian: dataset-fashion-mnist)")
class Late(adopt.Program, unittest.TestCase):
    def stop_after(self, number, step):
        """Sends the program a signal when the checkpoint of this step exists. Returns its exit status."""
        with subprocess.Popen([AFTER], cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not os.path.exists(f"{self.directory}/run/model.ckpt-{step}.index"):
                time.sleep(0.001)
            process.send_signal(number)
        return process.returncode

    def test_after_kill_9(self):
        for step in 100, 200:
            self.assertEqual(self.stop_after(signal.SIGKILL, step), -signal.SIGKILL)
        self.assert_continues_to_the_end()

    def test_after_sigterm(self):
        self.assertEqual(self.stop_after(signal.SIGTERM, 100), 75)
        self.assert_no_result()
        self.assert_continues_to_the_end()


class Readme(adopt.Readme, unittest.TestCase):
    most_added = 22


if __name__ == "__main__":
    unittest.main()
