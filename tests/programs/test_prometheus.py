# SPDX-License-Identifier: Apache-2.0
"""examples/prometheus: its file is in Prometheus' text format, complete whenever it is read, and has the last numbers."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["PROMETHEUS"]
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
GAUGE = re.compile(rf"# HELP ({NAME}) ([^\n\\]|\\\\|\\n)+\n# TYPE \1 gauge\n\1 (NaN|[+-]Inf|-?[0-9][0-9.e+-]*)\n")


def parse(text):
    """Returns the names and values. The text must consist of gauges with their HELP and TYPE lines."""
    values, at = {}, 0
    while at < len(text):
        gauge = GAUGE.match(text, at)
        assert gauge, text[at:]
        assert gauge[1] not in values, gauge[1]
        values[gauge[1]] = float(gauge[3])
        at = gauge.end()
    return values


class Prometheus(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.file = self.directory / "training.prom"

    def start(self, steps):
        return subprocess.Popen([PROGRAM, self.file, str(steps)], cwd=self.directory, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_it_has_the_numbers_of_the_last_step(self):
        program = self.start(105)
        printed, log = program.communicate()
        self.assertEqual((program.returncode, log), (0, ""))
        values = parse(self.file.read_text())
        self.assertEqual(set(values), {"training_global_step", "training_train_loss", "training_x"})
        self.assertEqual(values["training_global_step"], 105)
        self.assertEqual(values["training_train_loss"], float(printed))
        self.assertLess(abs(values["training_x"] - 3), 0.01)
        self.assertEqual(os.listdir(self.directory), ["training.prom"])

    def test_it_is_whole_whenever_it_is_read(self):
        program = self.start(20000)
        steps = set()
        while program.poll() is None:
            if self.file.exists():
                steps.add(parse(self.file.read_text())["training_global_step"])
        program.communicate()
        self.assertEqual(program.returncode, 0)
        self.assertGreater(len(steps), 5)

    def test_a_directory_that_is_not_there_ends_no_training(self):
        self.file = self.directory / "nowhere" / "training.prom"
        program = self.start(30)
        _, log = program.communicate()
        self.assertEqual(program.returncode, 0)
        self.assertEqual(log.count("; training continues\n"), 1)


if __name__ == "__main__":
    unittest.main()
