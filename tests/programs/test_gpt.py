# SPDX-License-Identifier: Apache-2.0
"""The program examples/gpt: killed or stopped and started again, it computes the losses of an undisturbed run."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

GPT, TOOL = os.environ["GPT"], os.environ["HOOKSESS_TOOL"]
TEXT = pathlib.Path(os.environ["GPT_TEXT"])
STEPS = 60
SMALL = ["--layers", "2", "--heads", "2", "--width", "32", "--context", "32"]
SHORT = ["--text", str(TEXT), "--batch-size", "4", "--accumulate", "2", "--dropout", "0.1", "--threads", "2", "--save-steps", "5",
         "--log-steps", "10", "--eval-steps", "30"]
TIMEOUT = 250
LONGEST_DELAY = 0.05  # seconds


class Program(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)

    def command(self, name, *options):
        return [GPT, "--model-dir", str(self.directory / name), "--losses", str(self.directory / (name + ".losses")), *SHORT,
                "--max-steps", str(STEPS), *options]

    def run_gpt(self, *command, code=0):
        done = subprocess.run([GPT, *command] if command[0] != GPT else command, capture_output=True, text=True, errors="replace",
                              timeout=TIMEOUT)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def train(self, name, *options, code=0):
        return self.run_gpt(*self.command(name, *options), code=code)

    def newest(self, name):
        """The step of the newest checkpoint. 0 without one."""
        try:
            state = (self.directory / name / "checkpoint").read_text()
        except FileNotFoundError:
            return 0
        return int(state.split('"')[1].rsplit("-", 1)[1])

    def disturb(self, name, number, delay, *options):
        """Sends a signal some seconds after the next checkpoint. Returns the exit status."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(self.command(name, *options), **quiet) as process:
            before, until = self.newest(name), time.monotonic() + TIMEOUT
            while self.newest(name) <= before and process.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(delay)
            process.send_signal(number)
        return process.returncode

    def losses(self, name):
        return (self.directory / (name + ".losses")).read_text()

    def assert_equal_runs(self, one, two):
        self.assertEqual(self.losses(one), self.losses(two))
        self.assertEqual(*((self.directory / name / "model.safetensors").read_bytes() for name in (one, two)))


class Resumed(Program):
    def test_killed_at_random_instants_it_computes_the_same(self):
        self.train("whole", *SMALL)
        delays = random.Random(1)
        for _ in range(4):
            self.assertEqual(self.disturb("killed", signal.SIGKILL, delays.uniform(0, LONGEST_DELAY), *SMALL), -signal.SIGKILL)
        self.train("killed", *SMALL)
        self.assert_equal_runs("killed", "whole")
        self.assertEqual(len(self.losses("whole").splitlines()), STEPS)

    def test_stopped_by_a_signal_it_saves_and_continues(self):
        self.train("whole", *SMALL)
        for number in (signal.SIGTERM, signal.SIGINT):
            self.assertEqual(self.disturb("stopped", number, 0, *SMALL), 75)
            self.assertEqual(len(self.losses("stopped").splitlines()), self.newest("stopped"))
        self.train("stopped", *SMALL)
        self.assert_equal_runs("stopped", "whole")

    def test_a_complete_run_trains_nothing(self):
        first = self.train("run", *SMALL)
        again = self.train("run", *SMALL)
        self.assertIn("training is already done", again.stderr)
        self.assertEqual(again.stdout, first.stdout)
        self.assertRegex(first.stdout, rf"^validation loss \d\.\d{{4}} at step {STEPS}\n$")

    @unittest.skipUnless(TOOL, "the tool is not built")
    def test_the_tool_finds_no_state_that_is_not_saved(self):
        done = subprocess.run([TOOL, "verify-resume", "--steps", "20", "--", GPT, "--model-dir", str(self.directory / "run"), *SHORT, *SMALL],
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("20 equal steps", done.stdout)

    def test_the_sizes_come_from_the_checkpoint(self):
        self.train("run", *SMALL, "--max-steps", "10")
        self.train("run")
        done = self.train("run", "--heads", "4", code=1)
        self.assertEqual(done.stderr, f"gpt: --heads 4: the checkpoint in {self.directory / 'run'} has 2; omit the option, or choose another "
                                      "--model-dir\n")

    def test_another_text_is_refused(self):
        self.train("run", *SMALL, "--max-steps", "10")
        other = self.directory / "text"
        other.write_bytes(TEXT.read_bytes()[::-1])
        self.assertIn("FNV-1a", self.train("run", "--text", str(other), code=1).stderr)


    def test_an_accumulated_batch_is_that_batch(self):
        logs = [self.train(name, *SMALL, "--dropout", "0", "--max-steps", "10", "--log-steps", "1", "--batch-size", size, "--accumulate", n).stderr
                for name, size, n in (("whole", "8", "1"), ("parts", "2", "4"))]
        values = [[float(value) for value in re.findall(r"(?:loss|gradient_norm) = (\d\.\d+)", log)] for log in logs]
        self.assertGreater(len(values[0]), 20)
        for one, other in zip(*values, strict=True):
            self.assertLess(abs(one / other - 1), 1e-4)

    def test_a_damaged_checkpoint_needs_the_sizes(self):
        self.train("run", *SMALL, "--max-steps", "10")
        index = self.directory / "run/model.ckpt-10.index"
        index.write_bytes(index.read_bytes()[:100])
        self.assertIn("gpt: the sizes of the saved model are unknown; give --context", self.train("run", code=1).stderr)
        for sizes in [], SMALL:
            generated = self.run_gpt("--model-dir", str(self.directory / "run"), *sizes, "--generate", "The", code=1)
            self.assertIn("index", generated.stderr)
        self.assertIn("restored " + str(self.directory / "run/model.ckpt-5"), self.train("run", *SMALL).stderr)


class Diverged(Program):
    def test_it_returns_to_the_last_checkpoint(self):
        self.train("run", *SMALL, "--max-steps", "20")
        (self.directory / "run/control").write_text("set learning_rate=1000\n")
        (self.directory / "run/control").chmod(0o600)
        log = self.train("run", "--save-steps", "1000").stderr
        self.assertRegex(log, r"is NaN; rolled back to step 20 .*, rollback 1 of at most 3; \d+ batches skipped\n")
        self.assertNotIn("rollback 2", log)
        self.assertEqual([int(line.split()[0]) for line in self.losses("run").splitlines()], list(range(1, STEPS + 1)))
        self.assertRegex(log, rf"step {STEPS}: loss = [0-5]\.")


class Replicas(Program):
    """Several processes, over TCP. tests/replicas/test_mpi.py has those of mpirun."""
    STEPS = 30
    # Another order of additions changed losses by 1.2e-7 of their value in 60 steps; another dropout on one of two ranks, by 1.7e-3.
    ROUNDING = 1e-5

    def start(self, n, name, *options, last=()):
        """Starts n ranks. Each writes its output and log to a file. `last`: further options of the last one."""
        ranks = []
        self.addCleanup(lambda: [rank.kill() or rank.wait() for rank in ranks])
        for rank in range(n):
            with open(self.directory / f"{name}.{rank}", "w") as log:
                ranks.append(subprocess.Popen(self.command(name, *SMALL, "--replicas", "--max-steps", str(self.STEPS), "--threads", "1", *options,
                                                           *(last if rank == n - 1 else ())),
                                              stdout=log, stderr=log, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(n)}))
        return ranks

    def output(self, name, rank=0):
        return (self.directory / f"{name}.{rank}").read_text(errors="replace")

    def end(self, ranks, name, code=0):
        for rank, process in enumerate(ranks):
            self.assertEqual(process.wait(TIMEOUT), code, self.output(name, rank))

    def train_ranks(self, n, name, *options, code=0):
        self.end(self.start(n, name, *options), name, code)

    def validation_loss(self, log):
        return float(re.search(rf"step {self.STEPS}: eval: validation_loss = ([0-9.]+)", log).group(1))

    def numbers(self, name):
        return [float.fromhex(line.split()[1]) for line in self.losses(name).splitlines()]

    def wait_for_save(self, name, ranks):
        before, until = self.newest(name), time.monotonic() + TIMEOUT
        while self.newest(name) <= before and ranks[0].poll() is None and time.monotonic() < until:
            time.sleep(0.002)

    def test_any_number_of_ranks_computes_the_same(self):
        alone = self.validation_loss(self.train("alone", *SMALL, "--threads", "1", "--max-steps", str(self.STEPS)).stderr)
        self.train_ranks(1, "1")
        self.assert_equal_runs("1", "alone")
        for n in (2, 3, 4): # of 4 sequences in a batch
            self.train_ranks(n, str(n))
            for loss, expected in zip(self.numbers(str(n)), self.numbers("alone"), strict=True):
                self.assertLess(abs(loss / expected - 1), self.ROUNDING)
            self.assertLess(abs(self.validation_loss(self.output(str(n))) / alone - 1), self.ROUNDING)
            self.assertRegex(self.output(str(n)), rf"validation loss \d\.\d{{4}} at step {self.STEPS}\n$")
            self.assertEqual([self.output(str(n), rank) for rank in range(1, n)], [""] * (n - 1))

    def test_a_rank_killed_at_random_instants(self):
        """The other ranks end, too. All started again, they compute what undisturbed ranks do."""
        self.train_ranks(4, "whole")
        numbers, killed = random.Random(1), 0
        while killed < 3 and self.newest("killed") < self.STEPS:
            ranks = self.start(4, "killed")
            self.wait_for_save("killed", ranks)
            time.sleep(numbers.uniform(0, LONGEST_DELAY))
            victim = numbers.choice(ranks)
            victim.kill()
            killed += victim.wait() == -signal.SIGKILL
            others = {rank.wait(TIMEOUT) for rank in ranks if rank is not victim}
            self.assertLessEqual(others, {75, 0}, self.output("killed")) # 0: it had trained to the end
        self.assertGreater(killed, 0)
        self.train_ranks(4, "killed")
        self.assert_equal_runs("killed", "whole")

    def test_a_signal_to_one_rank_stops_all(self):
        self.train_ranks(2, "whole")
        ranks = self.start(2, "stopped")
        self.wait_for_save("stopped", ranks)
        ranks[1].send_signal(signal.SIGTERM)
        self.end(ranks, "stopped", 75)
        self.assertEqual(len(self.losses("stopped").splitlines()), self.newest("stopped"))
        self.train_ranks(2, "stopped")
        self.assert_equal_runs("stopped", "whole")

    def test_all_return_to_the_last_checkpoint(self):
        self.train_ranks(2, "run", "--max-steps", "20")
        (self.directory / "run/control").write_text("set learning_rate=1000\n")
        (self.directory / "run/control").chmod(0o600)
        self.train_ranks(2, "run", "--save-steps", "1000", "--max-steps", str(STEPS))
        self.assertRegex(self.output("run"), r"rolled back to step 20 .*, rollback 1 of at most 3; \d+ batches skipped\n")
        self.assertRegex(self.output("run"), rf"step {STEPS}: loss = [0-5]\.")

    def test_another_option_of_a_rank_is_named(self):
        self.end(self.start(2, "run", last=["--dropout", "0.2"]), "run", 1)
        self.assertRegex(self.output("run"), r"--dropout 0\.1.*--dropout 0\.2|--dropout 0\.2.*--dropout 0\.1")

    def test_what_is_refused(self):
        self.train_ranks(3, "run", "--batch-size", "2", code=1)
        self.assertEqual(self.output("run", 2), "gpt: --batch-size 2: fewer sequences than the 3 processes\n")


class Sampled(Program):
    def test_text_is_continued(self):
        self.train("run", *SMALL)
        texts = [self.run_gpt("--model-dir", str(self.directory / "run"), "--generate", "The License", "--seed", seed).stdout
                 for seed in ("1", "1", "2")]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertTrue(texts[0].startswith("The License"))

    def test_without_a_checkpoint_there_is_a_message(self):
        done = self.run_gpt("--model-dir", str(self.directory / "none"), "--generate", "The", code=1)
        self.assertEqual(done.stderr, f"gpt: {self.directory / 'none'} has no checkpoint; train first, or choose another --model-dir\n")

    def test_the_log_has_losses_validation_and_samples(self):
        log = self.train("run", *SMALL).stderr
        for step in (30, STEPS):
            self.assertRegex(log, rf"step {step}: loss = ")
            self.assertRegex(log, rf"step {step}: sample:\n")
            self.assertRegex(log, rf"step {step}: eval: validation_loss = ")
        self.assertNotIn("warning", log.lower())


@unittest.skipUnless(shutil.which("bible") and os.path.isdir("/usr/share/games/fortunes"), "Debian's fortunes and bible-kjv are not installed")
class Script(Program):
    """The script examples/gpt/run, in a tree where all is installed and built."""

    def put(self, name, text):
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def test_it_makes_the_text_and_passes_options_on(self):
        script = self.put("project/examples/gpt/run", (TEXT.parent / "examples/gpt/run").read_text())
        self.put("project/cmake/install-packages.sh", "")
        self.put("bin/cmake", "#!/bin/sh\n")
        self.put("project/build/release/examples/gpt/gpt", f'#!/bin/sh\nexec "{GPT}" "$@"\n')
        environment = {**os.environ, "PATH": f"{self.directory / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        for steps in (2, 3):
            done = subprocess.run([script, "--max-steps", str(steps), *SMALL[:2], "--losses", "mine"], cwd=self.directory, env=environment,
                                  capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"validation loss \d\.\d{{4}} at step {steps}\n$")
            self.assertIn(f"step {steps}: sample:\n", done.stderr)
        self.assertEqual(len((self.directory / "mine").read_text().splitlines()), 3)
        text = (self.directory / "project/build/gpt.txt").read_text()
        self.assertIn("\n%\n", text)
        self.assertIn("\nIn the beginning God created the heaven and the earth.\n", text)
        self.assertTrue(text.endswith("The grace of our Lord Jesus Christ be with you all. Amen.\n"))


class Refused(Program):
    def test_invalid_options_are_named(self):
        for options, message in ((["--width", "30", "--heads", "4"], "--width 30 is not a multiple of --heads 4"),
                                 (["--context", "4000"], "bytes are too few for --context 4000"),
                                 (["--text", "/nowhere"], "--text '/nowhere'"), (["--text", "/"], "--text '/' is not a regular file"),
                                 (["--width", "16384", "--layers", "16", "--heads", "1"], "parameters is too large")):
            self.assertIn(message, self.train("run", *options, code=1).stderr)
        self.assertIn("--dropout '1': invalid value", self.train("run", "--dropout", "1", code=2).stderr)
        for n in (0, 1, 10, 39):
            (self.directory / "tiny").write_bytes(TEXT.read_bytes()[:n])
            self.assertIn(f"{n} bytes are too few for --context 2: 40 are needed",
                          self.train("run", "--context", "2", "--text", str(self.directory / "tiny"), code=1).stderr)
        self.assertIn("--generate needs one process", self.run_gpt("--replicas", "--generate", "The", code=2).stderr)
        with unittest.mock.patch.dict(os.environ, {"OMPI_COMM_WORLD_SIZE": "4"}):
            self.assertIn("OMPI_COMM_WORLD_SIZE is 4: give --replicas", self.train("run", code=2).stderr)
        self.assertIn("--text is missing", self.run_gpt("--max-steps", "1", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
