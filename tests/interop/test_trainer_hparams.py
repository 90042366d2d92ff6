# SPDX-License-Identifier: Apache-2.0
"""The trainer's hyperparameters, through interruptions and failures."""
import signal
import subprocess
import unittest

from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from support import tf
from test_trainer import SMALL, TIMEOUT, TrainerCase


class Session(TrainerCase):
    """The session's events: its start once, and its end if it is final."""

    def start_and_ends(self, name):
        """Returns the values of the start, and the statuses of all ends."""
        starts, ends = [], []
        for path in sorted((self.directory / name).glob("events.*")):
            for event in tf.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    content = value.metadata.plugin_data.content
                    if value.tag == "_hparams_/session_start_info":
                        starts.append(HParamsPluginData.FromString(content).session_start_info.hparams)
                    elif value.tag == "_hparams_/session_end_info":
                        ends.append(HParamsPluginData.FromString(content).session_end_info.status)
        self.assertEqual(len(starts), 1)
        return starts[0], ends

    def test_a_run_that_is_interrupted_and_resumed_ends_once(self):
        self.stop_with(signal.SIGTERM, "run")
        self.assertEqual(self.start_and_ends("run")[1], [])
        self.train("run")
        values, ends = self.start_and_ends("run")
        self.assertEqual((values["optimizer"].string_value, values["learning_rate"].number_value), ("momentum", 0.05))
        self.assertEqual(ends, [STATUS_SUCCESS])
        self.train("run")  # there is nothing to do
        self.assertEqual(self.start_and_ends("run")[1], [STATUS_SUCCESS])

    def test_a_run_that_fails_has_the_status_failure(self):
        command = self.command("run", *SMALL, "--optimizer", "sgd", "--learning-rate", "1e9")
        self.assertEqual(subprocess.run(command, capture_output=True, timeout=TIMEOUT).returncode, 1)
        self.assertEqual(self.start_and_ends("run")[1], [STATUS_FAILURE])


if __name__ == "__main__":
    unittest.main()
