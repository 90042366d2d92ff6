# SPDX-License-Identifier: Apache-2.0
"""Metadata of runs, read by TensorFlow's and TensorBoard's own readers: step stats, partition graphs, timelines."""
import json
import os
import pathlib
import subprocess
import unittest

from tensorboard.backend.event_processing import event_accumulator
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import timeline

import support

GRAPHS = pathlib.Path(os.environ["HOOKSESS_GRAPHS"])
STEPS = 10
TRACED = (3, 6, 9)


class Profiled(support.TestCase):
    def profile(self, name):
        directory = pathlib.Path(self.path(name))
        done = subprocess.run([support.program("profile_meta"), GRAPHS / f"{name}.meta", directory, str(STEPS)], capture_output=True,
                              text=True, timeout=support.TIMEOUT)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        return directory

    def both(self):
        for name in "ref", "resource":
            with self.subTest(name):
                yield self.profile(name)

    def metadata(self, directory):
        """The events with run metadata that TensorBoard finds."""
        events = event_accumulator.EventAccumulator(str(directory))
        events.Reload()
        self.assertEqual(sorted(events.Tags()["run_metadata"]), sorted(f"step_{step}" for step in TRACED))
        found = {step: events.RunMetadata(f"step_{step}").SerializeToString() for step in TRACED}
        return {step: config_pb2.RunMetadata.FromString(data) for step, data in found.items()}  # not TensorBoard's classes

    @staticmethod
    def ops(metadata):
        return {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}

    def test_step_stats_are_of_the_graph(self):
        for directory in self.both():
            for metadata in self.metadata(directory).values():
                self.assertTrue(any(name.startswith("MatMul") for name in self.ops(metadata)), self.ops(metadata))
                self.assertTrue(any("Momentum" in name for name in self.ops(metadata)), self.ops(metadata))

    def test_partition_graphs_are_the_graph_as_it_was_run(self):
        for directory in self.both():
            for metadata in self.metadata(directory).values():
                nodes = {node.name for graph in metadata.partition_graphs for node in graph.node}
                self.assertIn("MatMul", {node.op for graph in metadata.partition_graphs for node in graph.node})
                self.assertTrue(nodes & self.ops(metadata))

    def test_our_timeline_has_the_ops_of_theirs(self):
        for directory in self.both():
            for step, metadata in self.metadata(directory).items():
                ours = json.loads((directory / f"timeline-{step}.json").read_text())
                theirs = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
                spans = [event for event in ours["traceEvents"] if event["ph"] == "X"]
                self.assertTrue(all(event["dur"] >= 0 and event["ts"] > 0 for event in spans))
                self.assertEqual(ours["metadata"]["step"], step)
                wanted = {event["args"]["name"] for event in theirs["traceEvents"] if event["ph"] == "X"}
                found = {event.get("args", {}).get("name", event["name"]) for event in spans}
                self.assertLessEqual(wanted, found)
                memory = [event["args"]["memory"] for event in spans if "memory" in event.get("args", {})]
                self.assertTrue(any(use["bytes"] > 0 for uses in memory for use in uses))

    def test_only_traced_runs_have_files(self):
        for directory in self.both():
            names = sorted(path.name for path in directory.glob("timeline-*"))
            self.assertEqual(names, sorted(f"timeline-{step}.json" for step in TRACED))


if __name__ == "__main__":
    unittest.main()
