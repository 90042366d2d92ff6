# SPDX-License-Identifier: Apache-2.0
"""The trainer of the examples: its files, and that it loses nothing when it is killed."""
import fcntl
import os
import pathlib
import pty
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import support
from support import TestCase, tf

sys.path.append(str(support.SOURCE / "tests/docs"))
import blocks

TRAINER = support.BUILD / "examples/trainer/trainer"
TOOL = support.BUILD / "src/tool/hooksess"
STEPS = 400
SAVE_STEPS = 25
SHORT = ["--max-steps", str(STEPS), "--save-steps", str(SAVE_STEPS), "--seed", "7", "--threads", "1", "--no-progress",
         "--summary-steps", "10", "--eval-steps", "200"]
SMALL = ["--hidden", "32,16"]
SLOTS = {"sgd": [], "momentum": ["momentum"], "adam": ["adam_m", "adam_v"]}
LONGEST_DELAY = 0.03  # seconds, in which a fast machine makes some dozens of steps
LAST_LINE = re.compile(r"test accuracy (0\.\d{4}) at step (\d+)")
TIMEOUT = 300


class TrainerCase(TestCase):
    def command(self, name, *options):
        """The command of the trainer, with a model directory and a losses file of that name."""
        return [str(TRAINER), "--model-dir", self.path(name), "--losses", self.path(name + ".losses"), *SHORT, *options]

    def train(self, name, *options):
        """Trains to the end. Returns the last line."""
        done = subprocess.run(self.command(name, *options), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.rstrip("\n").rsplit("\n", 1)[-1]

    def newest(self, name):
        """The step of the checkpoint from which a new run would resume. 0: none."""
        state = tf.train.get_checkpoint_state(self.path(name))
        return int(state.model_checkpoint_path.rsplit("-", 1)[1]) if state else 0

    def wait_for_checkpoint(self, name, trainer):
        """Waits until the trainer has saved its next checkpoint, or has ended."""
        before = self.newest(name)
        until = time.monotonic() + TIMEOUT
        while self.newest(name) <= before and trainer.poll() is None and time.monotonic() < until:
            time.sleep(0.002)

    def kill_after(self, name, delay, *options):
        """Kills it N seconds after it has saved its next checkpoint."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(self.command(name, *options), **quiet) as trainer:
            self.wait_for_checkpoint(name, trainer)
            time.sleep(delay)
            trainer.kill()
        self.assertEqual(trainer.returncode, -signal.SIGKILL, "it was over before it could be killed")

    def stop_with(self, number, name, *options):
        """Sends a signal after the next checkpoint. The program must succeed. Returns the step that it prints at its end."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(self.command(name, *options), **pipes) as trainer:
            self.wait_for_checkpoint(name, trainer)
            trainer.send_signal(number)
            output, complaints = trainer.communicate(timeout=TIMEOUT)
        self.assertEqual(trainer.returncode, 75, complaints)
        found = LAST_LINE.fullmatch(output.rstrip("\n").rsplit("\n", 1)[-1])
        self.assertTrue(found, output[-500:])
        self.assertLess(int(found[2]), STEPS, "it was over before it could be stopped")
        return int(found[2])

    def losses(self, name):
        return (self.directory / (name + ".losses")).read_bytes()

    def tensors(self, name, step=STEPS):
        """The tensors of a checkpoint: {name: (type, shape, bytes)}."""
        reader = tf.train.load_checkpoint(self.path(f"{name}/model.ckpt-{step}"))
        arrays = {tensor: numpy.asarray(reader.get_tensor(tensor)) for tensor in reader.get_variable_to_shape_map()}
        return {tensor: (array.dtype, array.shape, array.tobytes()) for tensor, array in arrays.items()}

    def first_steps(self, name):
        """The first step of each run in that directory, from its event file (once for each of its summary savers)."""
        starts = [{event.step for event in tf.train.summary_iterator(str(path))
                   if event.session_log.status == tf.SessionLog.START}
                  for path in sorted((self.directory / name).glob("events.*"))]
        return [step for steps in starts for step in steps]

    def charts(self, name):
        return EventAccumulator(self.path(name), size_guidance={"scalars": 0}).Reload()

    def assert_one_line(self, name):
        """Checks that the chart has the losses, each step once. Returns its steps."""
        losses = dict(line.split() for line in self.losses(name).decode().splitlines())
        points = [(event.step, event.value) for event in self.charts(name).Scalars("curves/loss")]
        steps = [step for step, _ in points]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(points, [(step, float.fromhex(losses[str(step)])) for step in steps])
        return steps


class Files(TrainerCase):
    """The files of one run."""

    def variables_of(self, optimizer):
        layers = [f"{kind}{layer}" for kind in "wb" for layer in (1, 2, 3)]
        return {"global_step", *(f"{group}/{layer}" for group in ("model", *SLOTS[optimizer]) for layer in layers)}

    def test_the_newest_checkpoint_has_every_variable(self):
        for optimizer in SLOTS:
            with self.subTest(optimizer=optimizer):
                self.train(optimizer, *SMALL, "--optimizer", optimizer)
                self.assertEqual(tf.train.latest_checkpoint(self.path(optimizer)),
                                 self.path(f"{optimizer}/model.ckpt-{STEPS}"))
                names = {name for name, _ in tf.train.list_variables(self.path(optimizer))}
                variables = {name for name in names if not name.startswith("hooksess/")}
                self.assertEqual(variables, self.variables_of(optimizer))
                self.assertTrue(names - variables, "the position in the data is missing")

    def test_shapes_and_step_are_the_models(self):
        self.train("run", *SMALL)
        shapes = dict(tf.train.list_variables(self.path("run")))
        self.assertEqual([shapes[name] for name in ("model/w1", "model/b1", "model/w3", "model/b3")], [[784, 32], [32], [16, 10], [10]])
        self.assertEqual(tf.train.load_variable(self.path("run"), "global_step"), STEPS)

    def test_the_charts_are_read(self):
        self.train("run", *SMALL)
        tags = self.charts("run").Tags()["scalars"]
        self.assertEqual(sorted(tags), ["curves/loss", "curves/test_accuracy", "global_step/sec"])
        self.assertEqual(self.assert_one_line("run"), [*range(1, STEPS + 1, 10), STEPS])

    def test_the_charts_end_with_the_last_step(self):
        accuracy = LAST_LINE.fullmatch(self.train("run", *SMALL, "--max-steps", "130", "--eval-steps", "60"))[1]
        points = [(event.step, f"{event.value:.4f}") for event in self.charts("run").Scalars("curves/test_accuracy")]
        self.assertEqual([step for step, _ in points], [60, 120, 130])
        self.assertEqual(points[-1][1], accuracy)
        self.assertEqual(self.assert_one_line("run")[-2:], [121, 130])

    def test_every_step_has_its_loss(self):
        self.train("run", *SMALL)
        steps = [int(line.split()[0]) for line in self.losses("run").splitlines()]
        self.assertEqual(steps, list(range(1, STEPS + 1)))

    def test_the_last_line_has_accuracy_and_step(self):
        found = LAST_LINE.fullmatch(self.train("run", *SMALL))
        self.assertTrue(found)
        self.assertEqual(int(found[2]), STEPS)
        self.assertGreater(float(found[1]), 0.5)


class Again(TrainerCase):
    def test_the_same_command_makes_the_same_run(self):
        lines = [self.train(name, *SMALL) for name in ("one", "two")]
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(self.tensors("one"), self.tensors("two"))
        self.assertEqual(self.losses("one"), self.losses("two"))

    def test_started_when_it_is_finished_it_trains_nothing(self):
        last = self.train("run", *SMALL)
        files = {path.name: path.stat().st_mtime_ns for path in (self.directory / "run").glob("model.ckpt-*")}
        losses = self.losses("run")
        self.assertEqual(self.train("run", *SMALL), last)
        self.assertEqual(self.losses("run"), losses)
        self.assertEqual({path.name: path.stat().st_mtime_ns for path in (self.directory / "run").glob("model.ckpt-*")},
                         files)

    def test_a_longer_run_resumes_a_shorter_one(self):
        self.train("short", *SMALL, "--max-steps", "110")
        self.assertEqual(self.train("short", *SMALL), self.train("long", *SMALL))
        self.assertEqual(self.first_steps("short"), [1, 111])
        self.assertEqual(self.tensors("short"), self.tensors("long"))
        self.assertEqual(self.losses("short"), self.losses("long"))

    def test_fresh_starts_from_the_beginning(self):
        last = self.train("run", *SMALL)
        self.assertEqual(self.train("run", *SMALL, "--fresh"), last)
        self.assertEqual(self.first_steps("run"), [1])


class Verified(TrainerCase):
    """hooksess verify-resume proves that the trainer resumes exactly, and changes no run."""

    @unittest.skipUnless(TOOL.exists(), "the tool is not built")
    def test_every_optimizer_resumes_exactly(self):
        self.train("run", *SMALL, "--max-steps", "50")
        files = {path: path.read_bytes() for path in (self.directory / "run").iterdir()}
        for optimizer in SLOTS:
            with self.subTest(optimizer=optimizer):
                trainer = [str(TRAINER), "--model-dir", self.path("run"), *SHORT, *SMALL, "--optimizer", optimizer]
                done = subprocess.run([str(TOOL), "verify-resume", "--steps", "30", "--", *trainer],
                                      capture_output=True, text=True, timeout=TIMEOUT)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"^resumed at step 15 and at step 16: 30 equal steps, .*\n$")
        self.assertEqual({path: path.read_bytes() for path in (self.directory / "run").iterdir()}, files)

    def test_the_data_are_known_by_their_contents(self):
        self.train("run", *SMALL, "--max-steps", "50")
        identity = tf.train.load_checkpoint(self.path("run")).get_tensor("hooksess/state/input:identity").decode()
        self.assertRegex(identity, r"^60000 images of 784 pixels, CRC-32 [0-9a-f]{8} and [0-9a-f]{8}$")


class Messages(TrainerCase):
    """What a user reads on stderr."""

    def log_of(self, *options, code=0):
        done = subprocess.run(self.command("run", *SMALL, *options), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_a_line_for_each_epoch(self):
        log = self.log_of("--epochs", "2", "--max-steps", "1000", "--batch-size", "500", "--eval-steps", "120")
        lines = [line for line in log.splitlines() if "epoch" in line]
        self.assertEqual(len(lines), 2, log)
        for epoch, line in enumerate(lines, 1):
            self.assertRegex(line, rf"^step {120 * epoch}, epoch {epoch}/2: loss = \d\.\d{{4}}, test accuracy = 0\.\d{{4}}$")
        self.assertNotIn("steps/s", log)

    def test_missing_parent_directories_are_created_without_a_warning(self):
        log = self.log_of("--max-steps", "10", "--model-dir", self.path("new/runs/run"))
        self.assertNotIn("warning", log)
        self.assertTrue((self.directory / "new/runs/run/heartbeat.json").exists())

    def test_a_resume_with_other_threads_logs_that_sums_are_rounded_differently(self):
        self.log_of("--max-steps", "10")
        self.assertNotIn("--threads", self.log_of("--max-steps", "20"))
        log = self.log_of("--max-steps", "30", "--threads", "2")
        self.assertIn("this run used --threads 1 until now and continues with 2: sums are rounded differently", log)
        self.assertNotIn("--threads", self.log_of("--max-steps", "40", "--threads", "2"))

    def test_an_error_about_another_model_advises_fresh_in_one_line(self):
        self.log_of("--max-steps", "10")
        for options, misfit in ((["--hidden", "8"], "'model/w1' is float [784,32] in the checkpoint, but float [784,8] in the model"),
                                (["--optimizer", "adam"], "'adam_m/w1' is not in its checkpoint")):
            trains = ["train", "train-and-evaluate"]
            for mode in trains if "--optimizer" in options else [*trains, "evaluate", "predict"]:
                self.assertEqual(self.log_of("--mode", mode, "--max-steps", "20", *options, code=1),
                                 f"trainer: the run in {self.path('run')} was made with other options: {misfit}; "
                                 "give its options, or start a new run with --fresh\n")
        self.log_of("--max-steps", "20", "--hidden", "8", "--fresh")

    def test_errors_about_other_failures_do_not_advise_fresh(self):
        self.log_of("--max-steps", "10")
        self.assertNotIn("--fresh", self.log_of("--data", self.path("nowhere"), code=1))
        self.assertNotIn("--fresh", self.log_of("--max-steps", "20", "--losses", self.path("nowhere/losses"), code=1))


class Killed(TrainerCase):
    """kill -9 at three moments, then the same command: the run equals an uninterrupted run."""

    def assert_survives(self, seed, *options):
        delays = random.Random(seed)
        last = self.train("whole", *options)
        for _ in range(3):
            self.kill_after("killed", delays.uniform(0, LONGEST_DELAY), *options)
        self.assertEqual(self.train("killed", *options), last)
        firsts = self.first_steps("killed")
        self.assertEqual((len(firsts), firsts[0], firsts), (4, 1, sorted(set(firsts))))
        self.assertEqual(self.assert_one_line("killed"), self.assert_one_line("whole"))
        self.assertEqual(self.losses("killed"), self.losses("whole"))
        self.assertEqual(self.tensors("killed"), self.tensors("whole"))

    def test_gradient_descent(self):
        self.assert_survives(1, "--optimizer", "sgd")

    def test_momentum(self):
        self.assert_survives(2, "--optimizer", "momentum")

    def test_adam(self):
        self.assert_survives(3, "--optimizer", "adam")

    def test_on_two_threads_and_saving_often(self):
        self.assert_survives(4, "--threads", "2", "--save-steps", "5")


class Stopped(TrainerCase):
    """Ctrl-C and kill: the step is finished, a checkpoint is saved, and the next start resumes there."""

    def assert_stops(self, number):
        last = self.train("whole")
        firsts = [1]
        for _ in range(2):
            step = self.stop_with(number, "stopped")
            self.assertEqual(self.newest("stopped"), step)
            self.assertEqual(len(self.losses("stopped").splitlines()), step)
            firsts.append(step + 1)
        self.assertEqual(self.train("stopped"), last)
        self.assertEqual(self.first_steps("stopped"), firsts)
        self.assertEqual(self.assert_one_line("stopped"), self.assert_one_line("whole"))
        self.assertEqual(self.losses("stopped"), self.losses("whole"))
        self.assertEqual(self.tensors("stopped"), self.tensors("whole"))

    def test_interrupted(self):
        self.assert_stops(signal.SIGINT)

    def test_terminated(self):
        self.assert_stops(signal.SIGTERM)


FOREIGN = {"csv": b"1,2,3\n4,5,6\n", "notes": b"3 ideas for the next run\n", "list": b"1. read\n2. write\n",
           "text": b"the losses of yesterday\n", "blank": b"\n", "number": b"17\n", "binary": bytes(range(256)),
           "zeros": bytes(4096), "program": b"\x7fELF\2\1\1\0\0\n\0"}


class Losses(TrainerCase):
    """--losses names an existing file that the trainer did not write."""

    def test_other_files_are_not_changed(self):
        for name, contents in FOREIGN.items():
            with self.subTest(name):
                file = self.directory / (name + ".losses")
                file.write_bytes(contents)
                done = subprocess.run(self.command(name, *SMALL), capture_output=True, text=True, timeout=TIMEOUT)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"losses file '{file}': its first line is not 'STEP LOSS'; not changed", done.stderr)
                self.assertEqual(file.read_bytes(), contents)

    def test_an_empty_one_is_used(self):
        (self.directory / "run.losses").write_bytes(b"")
        self.train("run", *SMALL)
        self.assertEqual(len(self.losses("run").splitlines()), STEPS)


class Run(TrainerCase):
    """The script examples/run, in a tree where all is installed and built."""

    def setUp(self):
        super().setUp()
        self.caller = self.directory / "caller"
        self.caller.mkdir()
        self.project = self.directory / "project"
        self.put("project/cmake/install-packages.sh", "exit 0\n")
        self.put("bin/cmake", "#!/bin/sh\nexit 0\n")
        for name in "examples/run", "examples/trainer/options.c":
            shutil.copy(support.SOURCE / name, self.put(f"project/{name}", ""))
        self.put("project/build/release/examples/trainer/trainer", f'#!/bin/sh\nexec "{TRAINER}" "$@"\n')

    def put(self, name, text):
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def environment(self):
        return {**os.environ, "PATH": f"{self.directory / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def start(self, *options):
        return self.shell(shlex.join(["../project/examples/run", *SMALL, "--max-steps", "20", "--no-progress", *options]))

    def shell(self, command):
        """Runs a command in the caller's directory. It must succeed. Returns its output."""
        done = subprocess.run(command, shell=True, cwd=self.caller, env=self.environment(), capture_output=True, text=True,
                              timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def newest_in(self, model):
        return pathlib.Path(tf.train.latest_checkpoint(str(model))).name

    def test_relative_paths_are_the_callers(self):
        self.start("--model-dir", "mine", "--losses", "mine.losses")
        self.assertEqual(tf.train.latest_checkpoint(str(self.caller / "mine")), str(self.caller / "mine/model.ckpt-20"))
        self.assertTrue((self.caller / "mine.losses").exists())
        self.assertEqual([path for path in self.project.rglob("*") if "mine" in path.name], [])

    def test_an_unknown_option_is_refused_before_the_build(self):
        for given, said in (["--foo"], "unrecognized option '--foo'"), (["--epochs"], "option '--epochs' requires an argument"), \
                (["--fresh=1"], "option '--fresh' doesn't allow an argument"), (["--s", "1"], "option '--s' is ambiguous"), \
                (["fresh"], "only options are expected, not: 'fresh'"):
            command = ["../project/examples/run", *SMALL, *given]
            done = subprocess.run(command, cwd=self.caller, env={**self.environment(), "LC_ALL": "C"}, capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(said, done.stderr)
            self.assertTrue(done.stderr.endswith("Try '../project/examples/run --help'.\n"), done.stderr)
        self.assertFalse((self.project / "build/run.log").exists())

    def test_the_trainers_help_names_its_options(self):
        text = (support.SOURCE / "examples/trainer/options.c").read_text()
        tables = text[text.index("numbers[] = {"):text.index("N_OTHERS =")]
        self.assertEqual(set(re.findall(r'^    "  --([a-z-]+) ', text, re.M)), set(re.findall(r'\{"([a-z-]+)", ', tables)))

    def test_without_any_the_model_is_in_the_project(self):
        model = self.project / "build/runs/fashion-mnist"
        self.assertIn(str(model), self.start())
        self.assertEqual(tf.train.latest_checkpoint(str(model)), str(model / "model.ckpt-20"))
        self.assertEqual(list(self.caller.iterdir()), [])

    def test_a_signal_to_the_script_alone_saves_and_stops(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number.name):
                model = f"run {number.name}"
                command = ["../project/examples/run", *SMALL, "--model-dir", model, "--epochs", "20", "--save-steps", "5"]
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
                with subprocess.Popen(command, cwd=self.caller, env=self.environment(), **pipes) as script:
                    while not tf.train.latest_checkpoint(str(self.caller / model)) and script.poll() is None:
                        time.sleep(0.01)
                    script.send_signal(number)
                    output, log = script.communicate(timeout=TIMEOUT)
                self.assertEqual(script.returncode, 75, log)
                step = re.search(r"test accuracy 0\.\d+ at step (\d+)", output)[1]
                self.assertEqual(self.newest_in(self.caller / model), f"model.ckpt-{step}")
                self.assertRegex(output, rf"To continue: \.\./project/examples/run .* --model-dir '{model}' .* --epochs 20\n$")

    def test_the_commands_that_it_prints_run(self):
        tool = self.put("project/build/release/src/tool/hooksess", "")
        tool.unlink()
        tool.symlink_to(TOOL)
        for given in (["--model-dir", "my runs/x y's"], ["--mode", "train", "--model=a\"$b"], ["--mode=train", "--model", "plain"]):
            with self.subTest(options=given):
                model = self.caller / given[-1].removeprefix("--model=")
                printed = self.start("--fresh", *given)
                self.assertIn("Training; ", printed)
                chart = re.search("A chart in the terminal:\n +(.*)", printed)[1]
                self.assertIn("curves/loss", self.shell(chart))
                further, fresh = re.search("Train further, or start again from step 0:\n +(.*)\n +(.*)\n", printed).groups()
                self.shell(further)
                self.assertEqual(self.newest_in(model), "model.ckpt-40")
                self.shell(fresh)
                self.assertEqual(self.newest_in(model), "model.ckpt-20")
                self.assertEqual(printed.count("--fresh"), 1)
                self.assertEqual(shlex.split(re.search("bin/tensorboard (.*)", printed)[1]), ["--logdir", str(model.relative_to(self.caller))])

    def test_tensorboard_gets_the_folder_of_the_runs(self):
        for model in (self.project / "build/runs/mine", self.caller / "mine"):
            with self.subTest(model=model):
                logdir = model.parent if self.project in model.parents else "mine"
                self.assertIn(f"--logdir {logdir}\n", self.start("--model-dir", str(model)))

    def test_a_prediction_has_no_other_text(self):
        self.start("--model-dir", "mine")
        for mode in (["--mode", "predict"], ["--mode=predict"]):
            lines = self.start("--model-dir", "mine", *mode).splitlines()
            self.assertRegex(lines[-1], "^image 0: ")
            self.assertNotIn("Training", "".join(lines))


VARIES = [  # in the README's output
    r"(?<=loss = )\d\.\d+",  # OpenBLAS adds in an order that depends on the processor
    r"(?<=accuracy = 0\.8)\d+|(?<=accuracy 0\.8)\d+",
    r"\b[\d.]+ s\b",  # a time
    r"(?<=step |ckpt-)1[4-9]\d\d",  # Ctrl-C comes a moment after step 1407
]
CTRL_C = "\x03"


class Terminal:
    """A terminal of 80 columns with a program in it. `output` is all text that it has written, `screen` the lines that a user sees."""

    def __init__(self, command, directory, environment):
        self.output = ""
        self.process, self.descriptor = pty.fork()
        if not self.process:
            os.chdir(directory)
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 80, 0, 0))

    def write(self, text):
        os.write(self.descriptor, text.encode())

    def read_until(self, expression):
        """Reads until what the program has written matches the regular expression, or the program has ended."""
        while not re.search(expression, self.output):
            try:
                more = os.read(self.descriptor, 1 << 16)
            except OSError:  # the program has ended
                break
            self.output += more.decode()

    def finish(self):
        """Returns the exit code."""
        self.read_until("\0")
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def screen(self):
        lines = []
        for written in self.output.replace("\r\n", "\n").split("\n"):
            line, column = [], 0
            for character in written:
                if character == "\r":
                    column = 0
                else:
                    line[column:column + 1] = character
                    column += 1
            lines.append("".join(line).rstrip())
        return lines


class Readme(Run):
    """The output of examples/run that README.md shows."""

    def run_in_terminal(self, typed=None):
        terminal = Terminal(["examples/run"], self.project, self.environment())
        if typed:
            terminal.read_until("epoch 3/10.*\n")  # the whole line: the terminal shows ^C where the cursor is
            terminal.write(typed)
        code = terminal.finish()
        # Saves every 10 seconds depend on the time.
        lines = [line.replace(str(self.project), "/root/hooksess") for line in terminal.screen()]
        return code, "\n".join(line for line in lines if not re.match(r"step \d+: saved ", line))

    def compare(self, shown, printed):
        """A line "..." stands for any lines, and so does the ^C, over which the terminal erases the bar."""
        text = "\n".join("..." if line == "^C" else line for line in shown).rstrip("\n")
        for expression in VARIES:
            text, printed = (re.sub(expression, "(varies)", lines) for lines in (text, printed))
        pattern = r"\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in text.split("\n"))
        if not re.fullmatch(pattern, printed.rstrip("\n")):
            self.fail(f"README.md shows\n{text}\nand the terminal\n{printed}")

    def test_it_is_what_a_terminal_shows(self):
        shown = [block for block in blocks.parse(support.SOURCE / "README.md") if "$ examples/run" in block.lines]
        self.assertEqual(len(shown), 1)
        (_, nothing), (_, first), (_, second) = blocks.commands(shown[0])
        self.assertEqual(nothing, [])
        self.assertEqual(first.count("^C"), 1)
        code, printed = self.run_in_terminal(CTRL_C)
        self.assertEqual(code, 75, printed)
        self.compare(first, printed)
        code, printed = self.run_in_terminal()
        self.assertEqual(code, 0, printed)
        self.compare(second, printed)

    def test_interrupted_and_resumed_it_is_an_uninterrupted_run(self):
        self.run_in_terminal(CTRL_C)
        resumed = self.run_in_terminal()[1]
        shutil.rmtree(self.project / "build/runs")
        whole = self.run_in_terminal()[1]
        for line in re.findall(r"^step \d+, epoch .*|^test accuracy .*", resumed, re.M):
            self.assertIn(line, whole)
        self.assertEqual(len(re.findall("^step .*, epoch", whole, re.M)), 10)


class Modes(TrainerCase):
    """Evaluation while another process trains, prediction, and both at the same time."""

    def mode(self, mode, name, *options):
        """Runs it to its end. Returns the lines of its output."""
        command = [str(TRAINER), "--mode", mode, "--model-dir", self.path(name), *SHORT, *SMALL, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def steps(self, directory, tag):
        chart = EventAccumulator(directory)
        chart.Reload()
        return [event.step for event in chart.Scalars(tag)]

    def test_a_second_process_evaluates_while_the_first_trains(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(self.command("run", *SMALL, "--save-steps", "3", "--keep", "1"), **quiet) as trainer:
            lines = self.mode("evaluate", "run")
        self.assertEqual(trainer.returncode, 0)
        self.assertRegex(lines[-1], f"^step {STEPS}: test accuracy 0")
        self.assertEqual(self.newest("run"), STEPS)
        evaluated = self.steps(self.path("run/eval"), "curves/test_accuracy")
        self.assertEqual(evaluated, sorted(set(evaluated)))
        self.assertEqual(len(evaluated), len(lines))
        self.assertIn(STEPS, evaluated)
        self.assertTrue(self.steps(self.path("run"), "curves/loss"))

    def test_training_and_evaluating_in_one_process_trains_the_same(self):
        lines = self.mode("train-and-evaluate", "both", "--losses", self.path("both.losses"))
        self.train("alone", *SMALL)
        self.assertEqual((self.directory / "both.losses").read_bytes(), (self.directory / "alone.losses").read_bytes())
        self.assertEqual(len(lines), STEPS // SAVE_STEPS)
        self.assertEqual(self.steps(self.path("both/eval"), "curves/loss"), list(range(SAVE_STEPS, STEPS + 1, SAVE_STEPS)))

    def test_predictions_have_image_class_and_probability(self):
        self.train("run", *SMALL)
        lines = self.mode("predict", "run", "--images", "0,5,17")
        for line, image in zip(lines, (0, 5, 17), strict=True):
            self.assertRegex(line, f"^image {image}: class [0-9], probability (0|1)\\.[0-9]{{4}}$")

    def test_images_that_are_not_there_are_refused(self):
        self.train("run", *SMALL)
        done = subprocess.run([str(TRAINER), "--mode", "predict", "--model-dir", self.path("run"), *SMALL, "--images", "10000"],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("numbers from 0 to 9999", done.stderr)


def sanitized():
    cache = support.BUILD / "CMakeCache.txt"
    return bool(re.search(r"^HOOKSESS_SANITIZE:\w+=.+", cache.read_text(), re.M)) if cache.exists() else False


class Accuracy(TestCase):
    @unittest.skipIf(sanitized(), "takes too long under sanitizers")
    def test_ten_epochs_of_defaults_reach_87_percent(self):
        done = subprocess.run([str(TRAINER), "--model-dir", self.path("run"), "--no-progress"], capture_output=True,
                              text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = LAST_LINE.fullmatch(done.stdout.rstrip("\n").rsplit("\n", 1)[-1])
        self.assertTrue(found, done.stdout[-500:])
        self.assertGreaterEqual(float(found[1]), 0.87)
        self.assertEqual(int(found[2]), 4690)


if __name__ == "__main__":
    unittest.main()
