# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and TensorBoard's own reader read the event files that this library writes."""
import pathlib
import random
import signal
import subprocess
import time
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from support import TestCase, program, run, run_failing, tensorflow, tf

START, STOP, CHECKPOINT = tf.SessionLog.START, tf.SessionLog.STOP, tf.SessionLog.CHECKPOINT
BATCH = 10  # steps that write_events writes for each line it is given


class Writer:
    """The program write_events, which writes on request."""

    def __init__(self, test):
        self.process = subprocess.Popen([program("write_events"), str(test.directory)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        test.addCleanup(self.kill)

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def write(self):
        """Requests that the next steps are written and flushed. Returns the file."""
        self.ask()
        return self.process.stdout.readline().rstrip("\n")

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def events_of(path):
    """The events before the end, or before a truncated one."""
    events = []
    try:
        for event in tf.train.summary_iterator(str(path)):
            events.append(event)
    except tensorflow.errors.DataLossError:
        pass
    return events


def kinds_of(events):
    return [event.WhichOneof("what") for event in events]


def steps_of(events):
    """The steps of the summaries, without those of global_step/sec."""
    return [event.step for event in events
            if event.WhichOneof("what") == "summary" and event.summary.value[0].tag != "global_step/sec"]


def accumulate(path):
    reader = EventAccumulator(str(path), size_guidance={"scalars": 0}, purge_orphaned_data=True)
    return reader.Reload()


def points(reader, tag):
    return [(event.step, event.value) for event in reader.Scalars(tag)]


HEAD = ["file_version", "session_log", "graph_def", "meta_graph_def"]
STEPS = ["summary", "summary"] * BATCH + ["session_log"]  # of one batch


class Records(TestCase):
    def setUp(self):
        super().setUp()
        self.writer = Writer(self)

    def test_wr_001_events_come_back_in_their_order(self):
        path = self.writer.write()
        self.assertEqual(self.writer.close(), 0)
        events = list(tf.train.summary_iterator(path))
        self.assertEqual(kinds_of(events), HEAD + STEPS + ["session_log"])
        self.assertEqual(events[0].file_version, "brain.Event:2")
        self.assertEqual(steps_of(events), [step for step in range(1, BATCH + 1) for _ in range(2)])

    def test_wr_001_session_logs_say_what_they_were_given(self):
        path = self.writer.write()
        self.writer.close()
        logs = [(event.step, event.session_log) for event in tf.train.summary_iterator(path)
                if event.HasField("session_log")]
        self.assertEqual([(step, log.status) for step, log in logs], [(1, START), (BATCH, CHECKPOINT), (BATCH, STOP)])
        self.assertEqual((logs[1][1].checkpoint_path, logs[1][1].msg), ("run/model.ckpt", "saved"))

    def test_wr_024s_times_are_those_of_the_calls(self):
        before = time.time()
        path = self.writer.write()
        after = time.time()
        times = [event.wall_time for event in tf.train.summary_iterator(path)][1:]
        self.assertEqual(times, sorted(times))
        self.assertLess(before - 1, times[0])  # the program was started a little earlier
        self.assertLess(times[-1], after)

    def test_values_are_unchanged(self):
        reader = accumulate(self.writer.write())
        steps = range(1, BATCH + 1)
        self.assertEqual(reader.Tags()["scalars"], ["loss", "metrics/accuracy", "metrics/größe"])
        self.assertEqual(points(reader, "metrics/accuracy"), [(step, step / 4) for step in steps])
        for (step, value), wanted in zip(points(reader, "loss"), steps, strict=True):
            self.assertEqual(step, wanted)
            self.assertAlmostEqual(value, 1 / step, delta=1e-7)

    def test_graphs_are_parsed(self):
        reader = accumulate(self.writer.write())
        names = {node.name for node in reader.Graph().node}
        self.assertLessEqual({"weights", "train", "global_step"}, names)
        self.assertEqual({node.name for node in reader.MetaGraph().graph_def.node}, names)

    def test_wr_101_it_is_read_while_it_grows(self):
        path = self.writer.write()
        reader = accumulate(path)
        self.assertEqual(kinds_of(tf.train.summary_iterator(path)), HEAD + STEPS)
        self.assertEqual(len(points(reader, "loss")), BATCH)
        self.writer.write()
        self.assertEqual(kinds_of(tf.train.summary_iterator(path)), HEAD + STEPS + STEPS)
        self.assertEqual([step for step, _ in points(reader.Reload(), "loss")], list(range(1, 2 * BATCH + 1)))


class CutOff(TestCase):
    """Files that end in the middle of a record."""

    def test_wr_030s_cut_at_any_byte_it_is_read_up_to_the_record_before(self):
        writer = Writer(self)
        whole = pathlib.Path(writer.write()).read_bytes()
        writer.close()
        last = len(whole) - 200  # in the last few records
        path = self.directory / "events.out.tfevents.cut"
        counts = []
        for end in range(last, len(whole) + 1):
            path.write_bytes(whole[:end])
            counts.append(len(events_of(path)))
        self.assertEqual(counts[-1], len(HEAD + STEPS))
        self.assertEqual(counts, sorted(counts))
        self.assertLess(counts[0], counts[-1] - 1)

    def test_killed_after_a_flush_nothing_is_lost(self):
        writer = Writer(self)
        path = writer.write()
        writer.kill()
        self.assertEqual(kinds_of(tf.train.summary_iterator(path)), HEAD + STEPS)
        self.assertEqual(len(points(accumulate(self.directory), "loss")), BATCH)

    def test_killed_at_any_time_the_beginning_is_read(self):
        delays = random.Random(1)
        for _ in range(5):
            with self.subTest():
                directory = self.directory / str(delays.random())
                trainer = subprocess.Popen([program("train_model"), "-l", "1000000000", "-s", "100", str(directory)],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(trainer.kill)
                while not list(directory.glob("*-100.index")):
                    self.assertIsNone(trainer.poll())
                time.sleep(delays.uniform(0, 0.05))
                trainer.kill()
                trainer.wait()
                steps = steps_of(events_of(next(directory.glob("events.*"))))
                self.assertEqual(steps, list(range(1, len(steps) + 1)))
                self.assertGreaterEqual(len(steps), 100)
                self.assertEqual(len(points(accumulate(directory), "loss")), len(steps))


class Killed(TestCase):
    def test_wr_030s_killed_at_a_hundred_instants_each_file_reads_to_its_last_whole_record(self):
        instants = random.Random(2)
        counts = []
        for kill in range(100):
            process = subprocess.Popen([program("write_events"), str(self.directory), "on"], text=True,
                                       stdout=subprocess.PIPE)
            path = process.stdout.readline().rstrip("\n")
            time.sleep(instants.uniform(0, 0.02))
            process.kill()
            process.wait()
            process.stdout.close()
            with self.subTest(kill=kill):
                events = events_of(path)
                self.assertEqual(events[0].file_version, "brain.Event:2")
                self.assertEqual(steps_of(events), list(range(1, len(events))))
                counts.append(len(events) - 1)
        self.assertEqual(len(list(self.directory.glob("events.*"))), 100)
        self.assertGreater(max(counts), 100)
        # TensorBoard's reader reads all of them, and returns each complete record.
        self.assertEqual(len(points(accumulate(self.directory), "loss")), sum(counts))


class OneLine(TestCase):
    """A run that is killed at step 100, with a checkpoint of step 60, and resumes to step 120. Its loss is the step, plus 0.5
    in the second run."""

    last, saved, killed = 120, 60, 100

    def setUp(self):
        super().setUp()
        run_failing("train_model", "-l", self.last, "-s", self.saved, "-k", self.killed, self.directory,
                    status=-signal.SIGKILL)
        self.first = next(self.directory.glob("events.*"))

    def go_on(self):
        said = run("train_model", "-l", self.last, "-s", self.saved, "-o", 0.5, self.directory)
        self.assertEqual(said, "60 120 120 120 120\n")

    def wanted(self):
        return [(step, step + (0.5 if step > self.saved else 0)) for step in range(1, self.last + 1)]

    def test_bh_099s_what_the_killed_run_had_beyond_its_checkpoint_is_dropped(self):
        self.assertEqual(steps_of(events_of(self.first)), list(range(1, self.killed + 1)))
        self.go_on()
        reader = accumulate(self.directory)
        self.assertEqual(points(reader, "loss"), self.wanted())
        self.assertEqual(points(reader, "metrics/accuracy"), [(step, -value) for step, value in self.wanted()])

    def test_bh_099s_each_run_logs_its_first_step(self):
        self.go_on()
        logs = [(event.step, event.session_log.status) for path in sorted(self.directory.glob("events.*"))
                for event in events_of(path) if event.HasField("session_log")]
        self.assertEqual([step for step, status in logs if status == START], [1, self.saved + 1])

    def test_bh_085s_checkpoints_are_logged(self):
        self.go_on()
        paths = [(event.step, event.session_log.checkpoint_path) for path in sorted(self.directory.glob("events.*"))
                 for event in events_of(path) if event.session_log.status == CHECKPOINT]
        wanted = [(step, str(self.directory / f"model.ckpt-{step}")) for step in (0, self.saved, self.last)]
        self.assertEqual(paths, wanted)

    def test_the_graph_is_shown(self):
        self.go_on()
        reader = accumulate(self.directory)
        self.assertIn("weights", {node.name for node in reader.Graph().node})

    def assert_one_line_after(self, seconds, process):
        """Renames the killed run's file: another time and process in its name."""
        name = self.first.name.split(".")
        name[3], name[-2] = str(int(name[3]) + seconds), process
        self.first.rename(self.directory / ".".join(name))
        self.go_on()
        self.assertEqual(points(accumulate(self.directory), "loss"), self.wanted())

    def test_two_runs_in_one_second(self):
        self.assert_one_line_after(0, "999999999")

    def test_a_clock_that_was_set_back(self):
        self.assert_one_line_after(1000, "1")

    def test_a_third_run_that_has_nothing_to_do_changes_nothing(self):
        self.go_on()
        run("train_model", "-l", self.last, "-s", self.saved, "-o", 9, self.directory)
        self.assertEqual(points(accumulate(self.directory), "loss"), self.wanted())


if __name__ == "__main__":
    unittest.main()
