# SPDX-License-Identifier: Apache-2.0
"""The example that trains TensorFlow's graphs: both of its graphs, killed and stopped, and its error messages."""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

import pictures
import support
from support import tf
from test_trainer import TrainerCase

from tensorflow.core.protobuf import meta_graph_pb2  # after the environment is set

EXAMPLE = support.SOURCE / "examples/tensorflow"
TRAIN_GRAPH = support.BUILD / "examples/tensorflow/train_graph"
PICTURES, BATCH, STEPS, SAVE_STEPS = 600, 32, 60, 5
FEEDS = ["--feed", "images=images", "--feed", "labels=labels"]
ENDLESS = ["--max-steps", "1000000"]  # for runs that are killed or stopped, however late
TIMEOUT = 300


def setUpModule():
    """A small data set, and the graphs that the example's script makes."""
    global ROOT
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    ROOT = pathlib.Path(folder.name)
    pictures.write(ROOT, "train", PICTURES)
    pictures.write(ROOT, "t10k", 200)
    python("export_graph.py", ROOT / "feed.meta")
    python("export_graph.py", ROOT / "ps.meta", "--parameter-servers", 1)
    queue = ["--input", "queue", "--data", ROOT, "--batch-size", BATCH, "--capacity", 200]
    python("export_graph.py", ROOT / "queue.meta", *queue)
    python("export_graph.py", ROOT / "epochs.pbtxt", *queue, "--epochs", 3)


def python(script, *arguments, status=0):
    done = subprocess.run([sys.executable, EXAMPLE / script, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != status:
        raise AssertionError(f"{script} ended with {done.returncode} instead of {status}: {done.stderr}")
    return done.stdout or done.stderr


class GraphCase(TrainerCase):
    graph, feeds = "feed.meta", FEEDS

    def command(self, name, *options):
        return [str(TRAIN_GRAPH), "--meta-graph", str(ROOT / self.graph), *self.feeds, "--data", str(ROOT),
                "--model-dir", self.path(name), "--losses", self.path(name + ".losses"), "--batch-size", str(BATCH),
                "--max-steps", str(STEPS), "--save-steps", str(SAVE_STEPS), "--summary-steps", "10", "--log-steps", "20",
                "--threads", "1", *options]

    def stop_with(self, number, name):
        """Sends a signal after the next checkpoint. The program must succeed. Returns the step that it prints at its end."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(self.command(name, *ENDLESS), **pipes) as trainer:
            self.wait_for_checkpoint(name, trainer)
            trainer.send_signal(number)
            output, complaints = trainer.communicate(timeout=TIMEOUT)
        self.assertEqual(trainer.returncode, 75, complaints)
        return int(re.fullmatch(r"stopped at step (\d+)\n", output)[1])

    def steps_and_losses(self, name):
        lines = [line.split() for line in self.losses(name).decode().splitlines()]
        return [int(step) for step, _ in lines], [float.fromhex(loss) for _, loss in lines]


class Learns:
    """Tests of both graphs."""

    input_charts = set()  # of the queues

    def test_the_loss_falls(self):
        self.assertEqual(self.train("run"), f"stopped at step {STEPS}")
        steps, losses = self.steps_and_losses("run")
        self.assertEqual(steps, list(range(1, STEPS + 1)))
        self.assertLess(numpy.mean(losses[-10:]), numpy.mean(losses[:10]) / 2)

    def test_the_charts_are_the_graphs(self):
        self.train("run")
        charts = self.charts("run")
        self.assertEqual(set(charts.Tags()["scalars"]),
                         {"training_loss", "training_accuracy", "global_step/sec", *self.input_charts})
        self.assertEqual(charts.Tags()["histograms"], ["scores"])
        points = [(event.step, event.value) for event in charts.Scalars("training_loss")]
        losses = dict(zip(*self.steps_and_losses("run")))
        self.assertEqual(points, [(step, losses[step]) for step in range(1, STEPS, 10)])

    def test_tensorflow_reads_the_checkpoint(self):
        self.train("run")
        found = re.fullmatch(rf"model.ckpt-{STEPS}: test accuracy (\d\.\d{{4}})\n", python("evaluate.py", self.path("run"), ROOT))
        self.assertGreater(float(found[1]), 0.5)

    def test_it_resumes_after_an_interruption(self):
        step = self.stop_with(signal.SIGINT, "run")
        self.assertEqual(self.newest("run"), step)
        last = step + 10
        self.assertEqual(self.train("run", "--max-steps", str(last)), f"stopped at step {last}")
        self.assertEqual(self.steps_and_losses("run")[0], list(range(1, last + 1)))

    def test_when_done_it_is_done(self):
        self.train("run")
        self.assertEqual(self.train("run"), f"already done at step {STEPS}")


class Fed(Learns, GraphCase):
    def assert_is_the_whole(self, name):
        """After some more steps the run equals an uninterrupted run."""
        last = self.newest(name) + 10
        for run in name, "whole":
            self.train(run, "--max-steps", str(last))
        self.assertEqual(self.losses(name), self.losses("whole"))
        self.assertEqual(self.tensors(name, last), self.tensors("whole", last))

    def test_it_resumes_exactly_after_a_kill(self):
        for delay in 0, 0.02:
            self.kill_after("killed", delay, *ENDLESS)
        self.assert_is_the_whole("killed")

    def test_it_resumes_exactly_after_a_stop(self):
        self.stop_with(signal.SIGTERM, "stopped")
        self.assert_is_the_whole("stopped")

    def test_another_data_set_is_refused(self):
        self.train("run", "--max-steps", "5")
        pictures.write(self.directory, "train", 50)
        done = subprocess.run(self.command("run", "--data", str(self.directory)), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("600 images of 784 pixels", done.stderr)


class Queued(Learns, GraphCase):
    """The graph itself reads the files."""

    graph, feeds = "queue.meta", []
    input_charts = {"input_producer/fraction_of_32_full", "input_producer_1/fraction_of_32_full",
                    "shuffle_batch/fraction_over_100_of_100_full"}

    def test_no_placeholder_is_left(self):
        meta = meta_graph_pb2.MetaGraphDef.FromString((ROOT / "queue.meta").read_bytes())
        ops = {node.op for node in meta.graph_def.node} | {node.op for function in meta.graph_def.library.function
                                                           for node in function.node_def}
        self.assertEqual(ops & {"Placeholder", "PlaceholderV2", "PyFunc", "EagerPyFunc"}, set())
        self.assertIn("FixedLengthRecordReaderV2", ops)

    def test_picture_and_label_stay_together(self):
        """With the reader, the shuffling and the ends of two epochs."""
        data = pictures.write(self.directory, "train", 90)
        known = {image.tobytes(): label for image, label in zip(*data)}
        graph = self.path("queue.meta")
        python("export_graph.py", graph, "--input", "queue", "--data", self.directory, "--batch-size", 45, "--capacity", 60)
        with tf.Graph().as_default():
            tf.train.import_meta_graph(graph)
            with tf.train.MonitoredSession() as session:
                for _ in range(6):
                    images, labels = session.run(["shuffle_batch:0", "shuffle_batch:1"])
                    for image, label in zip(numpy.rint(images * 255).astype(numpy.uint8), labels, strict=True):
                        self.assertEqual(known[image.tobytes()], label)


class Ends(GraphCase):
    graph, feeds = "epochs.pbtxt", []

    def test_the_end_of_the_input_is_a_good_end(self):
        steps = -(-3 * PICTURES // BATCH)
        self.assertEqual(self.train("run"), f"end of input at step {steps}")
        self.assertEqual(self.newest("run"), steps)


class Mistakes(GraphCase):
    def complaint(self, *options, status):
        done = subprocess.run([str(TRAIN_GRAPH), *map(str, options)], capture_output=True, text=True, timeout=TIMEOUT, cwd=self.directory)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        return done.stderr

    def test_on_the_command_line(self):
        graph = "--meta-graph=feed.meta"
        for words, wanted in (
                ([], "--meta-graph is missing: it names the graph to train"),
                ([graph, "--feed", "images"], "--feed 'images': invalid value"),
                ([graph, "--feed", "=images"], "--feed '=images': invalid value"),
                ([graph, "--feed", "images=pictures"], "--feed 'images=pictures': invalid value"),
                ([graph, *["--feed", "a=images"] * 9], "--feed 'a=images': invalid value"),
                ([graph, "--max-steps", "0"], "--max-steps '0': invalid value"),
                ([graph, "--max-steps", "9x"], "--max-steps '9x': invalid value"),
                ([graph, "--train-op", ""], "--train-op '': invalid value"),
                ([graph, "--task", "worker"], "--task 'worker': invalid value"),
                ([graph, "--task", f"{'w' * 40}:0"], ":0': invalid value"),
                ([graph, "--cluster", "ps=a:1"], "--cluster needs --task"),
                ([graph, "--cluster", "ps=a:1", "--task", "ps:0", "--target", "grpc://a:1"], "give one of them"),
                ([graph, "--task", "worker:0"], "list its servers with --cluster, or name its server with --target"),
                ([graph, "--task", "ps:0", "--target", "grpc://a:1"], "list them with --cluster"),
                ([graph, "--losses", "file", "--loss", ""], "--losses needs a --loss"),
                ([graph, "--color", "red"], "--color"),
                ([graph, "red"], "'red': not an option")):
            with self.subTest(words):
                complaint = self.complaint(*words, status=2)
                self.assertIn(wanted, complaint)
                self.assertRegex(complaint, r"Try '.*train_graph --help'\.\n$")
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_of_the_graph_and_its_names(self):
        graph = ["--meta-graph", ROOT / "feed.meta", "--data", ROOT, "--max-steps", 2]
        for words, wanted in (
                (["--meta-graph", "none.meta"], "none.meta: No such file or directory"),
                (["--meta-graph", EXAMPLE / "export_graph.py"], "export_graph.py"),
                ([*graph, *FEEDS, "--train-op", "train_up"], "'train_up' is not in the graph; did you mean 'train_op'?"),
                ([*graph, *FEEDS, "--loss", "lss"], "'lss' is not in the graph; did you mean 'loss'?"),
                ([*graph, "--feed", "imges=images"], "'imges' is not in the graph; did you mean 'images'?"),
                ([*graph, "--feed", "labels=images"], "'labels:0' is int64 [-1], but was fed with float [128,784]"),
                (graph, "You must feed a value for placeholder"),
                ([*graph, *FEEDS, "--data", self.directory], "give the folder of the data: --data DIR"),
                ([*graph, *FEEDS, "--model-dir", ROOT / "feed.meta"], "feed.meta")):
            with self.subTest(words):
                self.assertIn(wanted, self.complaint(*words, status=1))

    def test_of_the_cluster(self):
        graph = ["--meta-graph", ROOT / "feed.meta"]
        for words, wanted in ((["--cluster", "ps=127.0.0.1:1", "--task", "worker:0"], "'worker'"),
                              (["--cluster", "ps=127.0.0.1:1", "--task", "ps:1"], "'ps'"),
                              (["--cluster", "ps=127.0.0.1", "--task", "ps:0"], "127.0.0.1")):
            with self.subTest(words):
                complaint = self.complaint(*graph, *words, status=1)
                self.assertRegex(complaint, "^train_graph: ")
                self.assertIn(wanted, complaint)

    def test_of_a_target_that_does_not_answer(self):
        """The program tries again, unless an option forbids it."""
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # and does not listen
            target = f"grpc://127.0.0.1:{unused.getsockname()[1]}"
            command = [TRAIN_GRAPH, "--meta-graph", ROOT / "feed.meta", "--model-dir", self.path("run"), "--target", target]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as trainer:
                self.addCleanup(trainer.kill)
                first = trainer.stderr.readline()
                trainer.terminate()
                _, rest = trainer.communicate(timeout=TIMEOUT)
        self.assertIn("retrying", first)
        self.assertIn(target, first)
        self.assertEqual(trainer.returncode, 75, rest)
        self.assertIn("a stop was requested", rest)

    def test_it_trains_without_a_loss(self):
        done = subprocess.run([TRAIN_GRAPH, "--meta-graph", ROOT / "feed.meta", *FEEDS, "--data", ROOT, "--loss", "", "--max-steps", "3",
                               "--model-dir", self.path("run"), "--save-steps", "0", "--summary-steps", "0", "--log-steps", "0"],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual((done.returncode, done.stdout), (0, "stopped at step 3\n"), done.stderr)
        self.assertEqual(list((self.directory / "run").glob("model.ckpt*")), [])

    def test_help_names_every_option(self):
        done = subprocess.run([TRAIN_GRAPH, "--help"], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for option in ("meta-graph", "train-op", "loss", "model-dir", "max-steps", "save-steps", "log-steps", "summary-steps", "target",
                       "task", "cluster", "feed", "losses", "data", "batch-size", "seed", "threads"):
            self.assertIn(f"--{option} ", done.stdout)

    def test_of_the_exporting_script(self):
        self.assertIn("dataset-fashion-mnist", python("export_graph.py", self.path("a.meta"), "--input", "queue", "--data", self.directory,
                                                      status=1))
        self.assertIn("exclude each other", python("export_graph.py", self.path("a.meta"), "--input", "queue", "--epochs", 1,
                                                    "--parameter-servers", 1, status=1))
        self.assertIn("no checkpoint in", python("evaluate.py", self.directory, ROOT, status=1))


class Cluster(GraphCase):
    """cluster.sh: a parameter server, a chief and two workers. All of them end with it."""

    graph = "ps.meta"

    def setUp(self):
        super().setUp()
        self.addCleanup(self.end)
        self.cluster = None

    def start(self, *options):
        command = [EXAMPLE / "cluster.sh", self.path("logs"), *self.command("run", *options)]
        self.cluster = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def end(self):
        if self.cluster and self.cluster.poll() is None:
            os.killpg(self.cluster.pid, signal.SIGKILL)
            self.cluster.communicate(timeout=TIMEOUT)

    def processes(self, task=""):
        """The cluster's processes with this on their command line."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                ours = os.getpgid(int(entry.name)) == self.cluster.pid
                if ours and (not task or task.encode() in (entry / "cmdline").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
            except (ProcessLookupError, FileNotFoundError):
                pass  # over meanwhile
        return found

    def finish(self, status):
        """Its output, and the error output of all processes."""
        output, complaints = self.cluster.communicate(timeout=TIMEOUT)
        complaints += "".join(path.read_text() for path in pathlib.Path(self.path("logs")).iterdir())
        self.assertEqual(self.cluster.returncode, status, complaints)
        self.assert_all_processes_ended()
        return output, complaints

    def assert_all_processes_ended(self):
        """A process that was killed at the end may need a moment."""
        until = time.monotonic() + TIMEOUT
        while left := [pid for pid in self.processes() if self.runs(pid)]:
            self.assertLess(time.monotonic(), until, f"{left} are left")
            time.sleep(0.01)

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except (ProcessLookupError, FileNotFoundError):
            return False

    def wait_for(self, what, holds):
        until = time.monotonic() + TIMEOUT
        while not holds():
            self.assertIsNone(self.cluster.poll(), f"it was over before {what}")
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.01)

    def wait_for_worker(self, number):
        """Waits until it has made a step."""
        log = self.directory / f"logs/worker-{number}.log"
        self.wait_for(f"{log.name} had a loss", lambda: log.exists() and "loss = " in log.read_text())

    def stop(self):
        """The step that the chief prints at its end."""
        self.cluster.terminate()
        step = int(re.fullmatch(r"stopped at step (\d+)\n", self.finish(75)[0])[1])
        self.assertEqual(self.newest("run"), step)
        return step

    def test_all_train_one_model_until_a_signal(self):
        self.start(*ENDLESS)
        self.wait_for_worker(0)
        self.wait_for_worker(1)
        last = self.stop()
        steps, _ = self.steps_and_losses("run")
        self.assertLess(len(steps), last, "the workers have made no steps")
        self.assertEqual(steps, sorted(set(steps)))

    def test_all_stop_at_the_last_step(self):
        self.start("--max-steps", "150")
        output, complaints = self.finish(0)
        # a worker may be in the middle of a step when another makes the last one
        step = int(re.fullmatch(r"stopped at step (\d+)\n", output)[1])
        self.assertIn(step, range(150, 153))
        self.assertIn(self.newest("run"), range(150, step + 1))
        self.assertLess(numpy.mean(self.steps_and_losses("run")[1][-10:]), 0.5)
        for worker in "worker-0", "worker-1":
            log = (self.directory / f"logs/{worker}.log").read_text()
            self.assertRegex(log, r"(?m)^(stopped|already done) at step 15[0-2]$", complaints)

    def test_a_killed_worker_does_not_stop_the_others(self):
        self.start(*ENDLESS)
        self.wait_for_worker(1)
        (worker,) = self.processes("worker:1")
        os.kill(worker, signal.SIGKILL)
        self.wait_for("it was gone", lambda: worker not in self.processes("worker:1"))
        before = self.newest("run")
        self.wait_for("the next checkpoint but one", lambda: self.newest("run") >= before + 2 * SAVE_STEPS)
        self.stop()

    def test_it_ends_with_the_status_of_the_training(self):
        self.start("--loss", "lss", "--max-steps", "150")
        self.assertIn("'lss' is not in the graph", self.finish(1)[1])


class Readme(support.TestCase):
    """The commands of README.md, with fewer steps and less data."""

    def setUp(self):
        super().setUp()
        for name in "build/venv/bin", "build/release/examples/tensorflow":
            (self.directory / name).mkdir(parents=True)
        (self.directory / "examples").symlink_to(support.SOURCE / "examples")
        (self.directory / "build/release/examples/tensorflow/train_graph").symlink_to(TRAIN_GRAPH)
        interpreter = self.directory / "build/venv/bin/python"
        interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        interpreter.chmod(0o755)

    def commands(self, section):
        """The lines of a section that begin with build/ or examples/, without the set-up."""
        text = (EXAMPLE / "README.md").read_text().split("\n## ")[section]
        return [shlex.split(line) for line in re.findall(r"^    ((?:build|examples)/.*)$", text, re.M)
                if not re.search("/setup$|/tensorboard ", line)]

    def follow(self, section):
        """Returns the output of the last command."""
        for command in self.commands(section):
            more = {"export_graph.py": ["--data", ROOT], "evaluate.py": [ROOT]}.get(pathlib.Path(command[1]).name)
            done = subprocess.run([*command, *(more or ["--data", ROOT, "--max-steps", "5"])], cwd=self.directory,
                                  capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_two_commands_train(self):
        self.assertEqual(len(self.commands(0)), 3)
        self.assertRegex(self.follow(0), r"^model.ckpt-5: test accuracy ")

    def test_the_queue_trains(self):
        self.assertEqual(len(self.commands(1)), 2)
        self.assertEqual(self.follow(1), "stopped at step 5\n")

    def test_the_cluster_trains(self):
        self.assertEqual(len(self.commands(2)), 2)
        self.assertRegex(self.follow(2), r"^stopped at step [5-7]\n$")


if __name__ == "__main__":
    unittest.main()
