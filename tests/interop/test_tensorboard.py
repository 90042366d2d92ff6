# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's server shows the data of a run, while it runs and after it was killed and started again."""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from support import TestCase, run, run_failing

PATIENCE = 60  # seconds that the server has for anything; it needs a few
PAUSE = 0.1
ALONE = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Server:
    """TensorBoard on a free port that it chooses."""

    def __init__(self, test, directory, *options):
        self.log = []
        self.address = None
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", str(directory), "--host", "127.0.0.1", "--port", "0",
             "--reload_interval", "1", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ALONE)
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        test.addCleanup(self.stop)
        self.wait(lambda: self.address)

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"at (http://[^ ]*?)/? ", line)
            if found:
                self.address = found[1]

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    def wait(self, condition):
        """Repeats the request until there is an answer."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            answer = condition()
            if answer:
                return answer
            if self.process.poll() is not None:
                break
            time.sleep(PAUSE)
        raise AssertionError("TensorBoard does not show the expected data:\n" + "".join(self.log))

    def get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        try:
            with DIRECTLY.open(f"{self.address}/data/plugin/{path}?{query}", timeout=PATIENCE) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            return None  # not yet

    def points(self, tag):
        """(step, value) of a chart. Empty while the chart does not exist."""
        return [(step, value) for _, step, value in self.get("scalars/scalars", run=".", tag=tag) or []]

    def wait_for_points(self, tag, wanted):
        return self.wait(lambda: self.points(tag) == wanted)


def line(first, last, offset=0.0):
    return [(step, step + offset) for step in range(first, last + 1)]


def negative(points):
    return [(step, -value) for step, value in points]


class Charts(TestCase):
    def test_both_charts_of_a_run(self):
        run("train_model", "-l", 50, self.directory)
        server = Server(self, self.directory)
        tags = server.wait(lambda: (server.get("scalars/tags") or {}).get("."))
        self.assertEqual(set(tags), {"loss", "metrics/accuracy"})
        server.wait_for_points("loss", line(1, 50))
        server.wait_for_points("metrics/accuracy", negative(line(1, 50)))
        self.assertTrue(server.wait(lambda: server.get("graphs/info"))["."]["run_graph"])

    def test_a_run_that_is_killed_and_started_again_is_one_line(self):
        server = Server(self, self.directory)
        run_failing("train_model", "-l", 120, "-s", 60, "-k", 100, self.directory, status=-signal.SIGKILL)
        server.wait_for_points("loss", line(1, 100))
        run("train_model", "-l", 120, "-s", 60, "-o", 0.5, self.directory)
        wanted = line(1, 60) + line(61, 120, 0.5)
        server.wait_for_points("loss", wanted)
        server.wait_for_points("metrics/accuracy", negative(wanted))

    def test_both_runs_before_it_is_started(self):
        run_failing("train_model", "-l", 120, "-s", 60, "-k", 100, self.directory, status=-signal.SIGKILL)
        run("train_model", "-l", 120, "-s", 60, "-o", 0.5, self.directory)
        server = Server(self, self.directory)
        server.wait_for_points("loss", line(1, 60) + line(61, 120, 0.5))


if __name__ == "__main__":
    unittest.main()
