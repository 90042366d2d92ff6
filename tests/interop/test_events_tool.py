# SPDX-License-Identifier: Apache-2.0
"""The command `hooksess events` reads TensorFlow's files, and TensorBoard reads the files that it writes."""
import json
import os
import subprocess
import time
import unittest

from tensorboard.backend.event_processing.directory_watcher import DirectoryWatcher
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader, RawEventFileLoader
from tensorboard.backend.event_processing.io_wrapper import IsTensorFlowEventsFile

from support import BUILD, TIMEOUT, TestCase, program, tensorflow, tf

EVERYTHING = {name: 0 for name in ("scalars", "histograms", "images", "audio", "tensors", "compressedHistograms")}


class EventsTool(TestCase):
    def tool(self, *arguments, status=0):
        command = [str(BUILD / "src/tool/hooksess"), "events", *arguments]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def lines(self, *arguments):
        return [json.loads(line) for line in self.tool("cat", "--json", *arguments).splitlines()]

    def write_v1(self, name, first, steps):
        with tf.Graph().as_default():
            writer = tf.summary.FileWriter(self.path("run"), filename_suffix=name)
            writer.add_session_log(tf.SessionLog(status=tf.SessionLog.START), first)
            for step in steps:
                loss = tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=step + len(name))])
                loss.value.add(tag="weights").histo.CopyFrom(tf.HistogramProto(min=step, num=2))
                writer.add_summary(loss, step)
            writer.add_graph(tf.get_default_graph())
            writer.close()

    def write_v2(self):
        writer = tensorflow.summary.create_file_writer(self.path("run"))
        with writer.as_default():
            for step in range(5):
                tensorflow.summary.scalar("v2/loss", step * 0.5, step)
            tensorflow.summary.text("v2/note", "hello", 1)
            tensorflow.summary.histogram("v2/weights", [1.0, 2.0, 3.0], 2)
            tensorflow.summary.image("v2/image", tensorflow.zeros([1, 4, 4, 3]), 3)
        writer.close()

    def files(self):
        return sorted((self.directory / "run").iterdir())

    def shown(self):
        """TensorBoard's data of a run: all values of all tags, and the graph."""
        loaded = EventAccumulator(self.path("run"), EVERYTHING).Reload()
        tags = loaded.Tags()
        values = {tag: [(e.wall_time, e.step, e.value) for e in loaded.Scalars(tag)] for tag in tags["scalars"]}
        tensors = {tag: [(e.wall_time, e.step, e.tensor_proto.SerializeToString()) for e in loaded.Tensors(tag)]
                   for tag in tags["tensors"]}
        histograms = {tag: [(e.wall_time, e.step, e.histogram_value.min) for e in loaded.Histograms(tag)]
                      for tag in tags["histograms"]}
        return values, tensors, histograms, tags["graph"]

    def test_cat_has_what_the_iterator_has(self):
        self.write_v1("a", 1, range(1, 4))
        self.write_v2()
        found = [(e["step"], e["wall_time"], e["tag"], e.get("plugin", "")) for e in self.lines("run") if e["event"] == "summary"]
        expected = [(e.step, e.wall_time, v.tag, v.metadata.plugin_data.plugin_name)
                    for path in self.files() for e in tf.train.summary_iterator(str(path)) for v in e.summary.value]
        self.assertEqual(found, expected)
        self.assertEqual([e["value"] for e in self.lines("--tag", "v2/loss", "run")], [0, 0.5, 1, 1.5, 2])
        kinds = {t["tag"]: (t["kind"], t["plugin"]) for t in json.loads(self.tool("ls", "--json", "run"))["tags"]}
        self.assertEqual(kinds, {"loss": ("scalar", None), "weights": ("histogram", None), "v2/loss": ("tensor", "scalars"),
                                 "v2/note": ("tensor", "text"), "v2/weights": ("tensor", "histograms"),
                                 "v2/image": ("tensor", "images")})
        self.assertIn("no damage", self.tool("check", "run"))

    def test_damage_is_where_tensorboards_loader_stops(self):
        self.write_v1("a", 1, range(1, 4))
        path = self.files()[0]
        data = path.read_bytes()
        for cut in range(0, len(data), 7):
            path.write_bytes(data[:cut])
            whole = len(list(RawEventFileLoader(str(path)).Load()))
            printed = subprocess.run([str(BUILD / "src/tool/hooksess"), "events", "ls", "--json", "run"], cwd=self.directory,
                                     capture_output=True, text=True, timeout=TIMEOUT).stdout
            files = json.loads(printed)["files"] if printed else []  # nothing is printed of a run without events
            self.assertEqual(files[0]["records"] if files else 0, whole)

    def test_what_a_killed_writer_leaves_is_read_to_its_last_whole_record(self):
        for i in range(20):
            run = self.directory / f"killed{i}"
            writer = subprocess.Popen([program("write_events"), str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            writer.stdin.write(b"\n" * 1000)
            writer.stdin.flush()
            writer.stdout.readline()  # something is in the file
            time.sleep(0.001 * i)
            writer.kill()
            writer.communicate()
            (path,) = run.iterdir()
            with open(path, "ab") as file:  # and once more, inside the last record
                file.truncate(max(path.stat().st_size - i, 0))
            theirs = len(list(RawEventFileLoader(str(path)).Load()))
            done = subprocess.run([str(BUILD / "src/tool/hooksess"), "events", "ls", "--json", str(run)], capture_output=True,
                                  text=True, timeout=TIMEOUT)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            (found,) = json.loads(done.stdout)["files"]
            self.assertEqual(found["records"], theirs)
            self.assertLessEqual(found["damaged"], 1)

    def test_files_come_as_the_watcher_reads_them(self):
        for name, first in ("a", 1), ("b", 3):
            self.write_v1(name, first, range(first, first + 3))
        watcher = DirectoryWatcher(self.path("run"), EventFileLoader, IsTensorFlowEventsFile)
        steps = [(e.step, e.wall_time) for e in watcher.Load() if [v for v in e.summary.value if v.tag == "loss"]]
        self.assertEqual([(e["step"], e["wall_time"]) for e in self.lines("--tag", "loss", "run")], steps)

    def test_tensorboard_shows_the_same_after_compacting(self):
        self.write_v1("a", 1, range(1, 10))
        self.write_v1("bb", 5, range(5, 9))
        self.write_v1("ccc", 7, range(7, 12))
        before = self.shown()
        self.assertEqual([step for _, step, _ in before[0]["loss"]], list(range(1, 12)))
        self.tool("compact", "--output", "all", "run")
        os.rename(self.path("all"), str(self.files()[-1]) + ".compacted")  # as if --delete had been interrupted
        self.assertEqual(len(self.files()), 4)
        self.assertEqual(self.shown(), before)
        self.tool("compact", "--delete", "run")
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(self.shown(), before)
        self.assertEqual([e["step"] for e in self.lines("--tag", "loss", "run")], list(range(1, 12)))
        self.write_v1("dddd", 9, range(9, 12))  # and training continues
        self.assertEqual([value for _, step, value in self.shown()[0]["loss"] if step >= 9], [13, 14, 15])


if __name__ == "__main__":
    unittest.main()
