# SPDX-License-Identifier: Apache-2.0
"""Groups over MPI: ranks that mpirun starts end together, and continue bit for bit."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import mpi
from mpi import FAR, RANKS, REPLICAS, SINGLE, TOOL, TRAINER

COUNTS = 1, 2, 4, 8
STEPS, AT = 50, 27  # the ranks save every 20 steps
FAULTS = int(os.environ.get("HOOKSESS_MPI_FAULTS", "20"))
KILLS = int(os.environ.get("HOOKSESS_MPI_KILLS", "10"))
SEED = int(os.environ.get("HOOKSESS_FAULT_SEED", "1"))


class Engine(mpi.Test):
    def test_the_calls(self):
        for n in (1, 2, 3, 4, 5, 8):
            with self.subTest(n=n):
                self.assertEqual(self.wait(self.start(n, RANKS, "calls")), ([], 0), self.log())

    def test_a_call_that_a_rank_does_not_join_ends_after_the_limit(self):
        self.assertIn("the limit ended the calls", self.wait(self.start(3, RANKS, "absent"))[0], self.log())

    def test_different_calls_are_an_error(self):
        for call in ("short", "long", "gather"):
            with self.subTest(call=call):
                self.assertIn("the ranks made different calls", self.wait(self.start(2, RANKS, "mixed", call))[0], self.log())

    def test_a_rank_that_fails_before_the_first_call_reports_its_error(self):
        lines, code = self.wait(self.start(3, RANKS, "refuse", options=mpi.RECOVERY))
        self.assertEqual(lines, ["the error of rank 1 ended the calls"], self.log())
        self.assertEqual(self.codes(), {0: 75, 1: 1, 2: 75}, self.log())


class Events(mpi.Test):
    """All ranks have the same outcome, whatever happens on one."""

    def train_with(self, n, event):
        lines, code, ends = self.train(n, STEPS, event, n - 1, AT)
        self.assertEqual(len(ends), n, self.log())
        self.assertEqual(len(set(ends.values())), 1, ends)
        self.assert_same_lines([line for line in lines if not line.endswith("nan")], self.undisturbed(n, STEPS)[0])
        return code, ends[0]

    def for_all(self, event, check):
        for n in COUNTS:
            with self.fresh(event=event, n=n):
                check(n, *self.train_with(n, event))

    def test_sigterm_to_one_rank(self):
        def check(n, code, end):
            self.assertEqual((code, end.code, end.step, end.saved, end.signal), (75, 75, AT + 1, AT + 1, signal.SIGTERM))
            self.assert_completes(n, STEPS)
        self.for_all("stop", check)

    def test_nan_on_one_rank(self):
        def check(n, code, end):
            self.assertEqual((code, end.code, end.step, end.saved, end.cause), (1, 1, AT + 1, 20, n - 1))
            self.assertIn("nan_tensor", end.message)
            self.assert_completes(n, STEPS)
        self.for_all("nan", check)

    def test_end_of_input_on_one_rank(self):
        self.for_all("end", lambda n, code, end: self.assertEqual((code, end.code, end.step, end.saved), (0, 0, AT, AT)))

    def test_a_failure_before_the_gate(self):
        def check(n, code, end):
            self.assertEqual((code, end.code, end.step, end.saved, end.cause), (1, 1, AT, 20, n - 1))
            self.assertIn("the op has failed", end.message)
        self.for_all("fail", check)

    def test_a_rank_leaves_its_loop(self):
        self.for_all("break", lambda n, code, end: self.assertEqual((code, end.code, end.step, end.saved), (0, 0, AT, AT)))

    def test_the_hook_that_stops_is_on_rank_0_only(self):
        """All ranks end, also if the training is complete when they begin."""
        def check(n, code, end):
            self.assertEqual((code, end), (0, self.undisturbed(n, STEPS)[1]))
            lines, code, ends = self.train(n, STEPS, "chief-stops", n - 1, AT)
            self.assertEqual((lines, code, len(ends), len(set(ends.values()))), ([], 0, n, 1))
        self.for_all("chief-stops", check)

    def test_a_lost_backend(self):
        def check(n, code, end):
            self.assertEqual((code, end), (0, self.undisturbed(n, STEPS)[1]))
            self.assertIn("the device is lost", self.log())
        self.for_all("lost", check)
        with self.fresh(event="lost", n=4, rank=0):
            lines, code, ends = self.train(4, STEPS, "lost", 0, AT)
            check(4, code, ends[0])
            self.assertEqual(len(set(ends.values())), 1)
            self.assert_same_lines(lines, self.undisturbed(4, STEPS)[0])

    def test_sigterm_to_mpirun(self):
        """It sends SIGTERM to all ranks, and reads no more of their output: they must not print much. Later it sends SIGKILL."""
        for n in (2, 4):
            with self.fresh(n=n):
                process = self.start(n, REPLICAS, self.directory, 10**9, 50, options=["--mca", "odls_base_sigkill_timeout", "5"])
                process.stdout.readline()
                process.send_signal(signal.SIGTERM)
                self.wait(process)
                outcome = json.loads((self.directory / "outcome.json").read_text())
                self.assertEqual((outcome["exit_code"], outcome["last_saved_step"]), (75, outcome["step"]), self.log())


class Failing(mpi.Test):
    """Ranks that die, or no longer respond: all others end, and can be started again."""
    LIMIT = 4

    def train_until(self, n, event, rank, step, options=()):
        """The limit may end the training too early on a busy machine. Then it is doubled."""
        limit = self.LIMIT
        while True:
            lines, _, ends = self.train(n, STEPS, event, rank, step, limit=limit, options=options)
            if self.happened(rank):
                return lines, ends
            limit *= 2
            self.assertLess(limit, FAR, self.log())
            shutil.rmtree(self.directory, ignore_errors=True)

    def fail_rank(self, n, event, rank, step=AT):
        # Only mpirun can end a frozen rank. It does so when another rank exits.
        options = [] if "freeze" in event else mpi.RECOVERY
        lines, ends = self.train_until(n, event, rank, step, options)
        self.assert_same_lines(lines, self.undisturbed(n, STEPS)[0])
        codes, saved = self.codes(), step // 20 * 20
        if "freeze" in event: # when the first rank has exited, mpirun wakes the frozen one and terminates all that still run
            others = {code for other, code in codes.items() if other != rank}
            self.assertTrue(75 in others and others <= {75, 128 + signal.SIGTERM}, self.log())
            self.assertEqual({(end.code, end.error, end.saved, end.cause) for other, end in ends.items() if other != rank} -
                             {(75, "UNAVAILABLE", saved, rank)}, set())
        else:
            died = {rank: 128 + signal.SIGKILL} if "kill" in event else {}
            self.assertEqual(codes, {other: 75 for other in range(n)} | died, self.log())
            self.assertEqual({(end.code, end.error, end.step, end.saved, end.cause) for end in ends.values()} -
                             {(75, "UNAVAILABLE", step, saved, rank)}, set())
            if rank != 0 or event == "late":
                outcome = json.loads((self.directory / "outcome.json").read_text())
                self.assertEqual((outcome["exit_code"], outcome["last_saved_step"]), (75, saved))
        log = self.log()
        self.assert_completes(n, STEPS)
        return log


class Failures(Failing):
    def fail_all(self, event, counts=(2, 4)):
        for n in counts:
            for rank in {0, n - 1}:
                with self.fresh(event=event, n=n, rank=rank):
                    self.fail_rank(n, event, rank)

    def test_kill_before_the_gate(self):
        self.fail_all("kill", (2, 4, 8))

    def test_kill_behind_the_gate(self):
        """The others wait in MPI_Allreduce."""
        self.fail_all("late-kill", (4,))

    def test_a_failure_behind_the_gate(self):
        self.fail_all("late", (4,))

    def test_a_rank_stalls_before_the_gate(self):
        """Its heartbeats continue. The others give it up, and then its detector ends it."""
        self.fail_all("stall")

    def test_a_rank_stalls_behind_the_gate(self):
        """The others wait in MPI_Allreduce. Each rank says where all are."""
        for n in (2, 4):
            for rank in {0, n - 1}:
                with self.fresh(n=n, rank=rank):
                    log = self.fail_rank(n, "late-stall", rank)
                    ranks = ", ".join(map(str, range(n)))
                    said = re.findall(f"exit code 75: .*: ranks {ranks} have been behind the gate of step {AT + 1} for ", log)
                    self.assertEqual(len(said), n, log)

    def test_a_rank_freezes(self):
        self.fail_all("freeze", (4,))

    def test_a_rank_freezes_behind_the_gate(self):
        self.fail_all("late-freeze", (4,))

    def test_a_rank_freezes_after_its_session(self):
        """The others do not wait in MPI_Finalize. mpirun wakes and ends the rank when the first has ended."""
        lines, ends = self.train_until(3, "end-freeze", 1, AT)
        self.assertEqual((lines, set(ends.values())), (self.undisturbed(3, STEPS)[0], {self.undisturbed(3, STEPS)[1]}))
        codes = {code for rank, code in self.codes().items() if rank != 1}
        self.assertEqual(codes - {128 + signal.SIGTERM}, {0}, self.log())


class Resume(mpi.Test):
    def test_with_another_number_of_ranks(self):
        for n in COUNTS:
            with self.fresh(n=n):
                self.train(n, 20)
            saved = self.directory.with_name("saved")
            self.directory.rename(saved)
            for m in COUNTS:
                with self.fresh(n=n, m=m):
                    shutil.copytree(saved, self.directory)
                    lines, code, ends = self.train(m, 40)
                    self.assertEqual((code, len(lines), len(set(ends.values()))), (0, 20, 1), self.log())
                    self.assertEqual((ends[0].step, ends[0].saved, ends[0].position), (40, 40, 20 * n + 20 * m))
                    if n == m:
                        self.assertEqual(ends[0], self.undisturbed(n, 40)[1])
            shutil.rmtree(saved)


class FullDisk(mpi.Test):
    def test_the_chief_cannot_save(self):
        self.directory.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(self.directory)]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("a tmpfs cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.directory)], check=True)
        _, code, ends = self.train(4, STEPS, "full", 0, AT)
        self.assertEqual((code, len(ends), len(set(ends.values()))), (1, 4, 1), self.log())
        self.assertEqual((ends[0].code, ends[0].error, ends[0].saved), (1, "RESOURCE_EXHAUSTED", 20))
        (self.directory / "filler").unlink()
        self.assert_completes(4, STEPS)


class Example(mpi.Test):
    """examples/replicas."""
    STEPS = 600

    def replicas(self, n, directory):
        return self.wait(self.start(n, REPLICAS, directory, self.STEPS, directory=directory), directory)

    def test_its_readme_shows_the_difference(self):
        source = pathlib.Path(os.environ["REPLICAS_SOURCE"])
        shown = re.search(r"```diff\n(.*?)```", (source / "README.md").read_text(), re.S)[1]
        diff = subprocess.run(["diff", "-u", "--label", "single.c", "--label", "replicas.c", "single.c", "replicas.c"],
                              cwd=source, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(shown, diff)
        removed, added = (sum(line.startswith(sign) for line in diff.splitlines()[2:]) for sign in "-+")
        self.assertLessEqual(added - removed, 15)
        self.assertIn(f"{added - removed} lines more, and {removed} that differ", (source / "README.md").read_text())

    def test_one_rank_computes_what_the_single_process_does(self):
        alone = subprocess.run([SINGLE, str(self.directory) + "-alone", str(self.STEPS)], capture_output=True, text=True)
        self.assertEqual(self.replicas(1, self.directory), (alone.stdout.splitlines(), 0), self.log())

    def test_killed_and_started_again(self):
        """Each time, one rank dies at a random step. The losses and the tensors are those of the undisturbed run."""
        other = self.directory.with_name("undisturbed")
        wanted, code = self.replicas(4, other)
        self.assertEqual((code, len(wanted)), (0, self.STEPS))
        numbers = random.Random(SEED)
        begun, kills = 0, 0
        while kills < KILLS:
            process = self.start(4, REPLICAS, self.directory, self.STEPS, 2)
            # not before its first line: it has opened its session
            lines = [process.stdout.readline().strip() for _ in range(numbers.randrange(1, 150))]
            victims = [pid for pid, arguments in mpi.processes(str(self.directory)) if arguments[0] == os.fsencode(REPLICAS)]
            os.kill(numbers.choice(victims), signal.SIGKILL)
            more, code = self.wait(process)
            kills += 1
            self.assertNotEqual(code, 0)
            begun = int(lines[0].split()[0]) - 1
            self.assertEqual(begun % 100, 0)
            self.assertEqual(lines + more, wanted[begun:begun + len(lines + more)])
            if begun + len(lines + more) >= self.STEPS - 100:
                shutil.rmtree(self.directory)
        lines, code = self.replicas(4, self.directory)
        self.assertEqual((code, lines), (0, wanted[len(wanted) - len(lines):]), self.log())
        diff = subprocess.run([TOOL, "checkpoint", "diff", str(self.directory), str(other)], capture_output=True, text=True)
        self.assertEqual(diff.returncode, 0, diff.stdout + diff.stderr)


class Trainer(mpi.Test):
    """examples/trainer with --replicas."""
    OPTIONS = ["--seed", "3", "--threads", "1", "--no-progress", "--hidden", "32", "--eval-steps", "0", "--save-steps", "20"]

    def setUp(self):
        super().setUp()
        if not TRAINER:
            self.skipTest("the trainer is not built")

    def learn(self, n, directory, steps, over_tcp=False):
        """Returns the losses."""
        losses = directory.with_suffix(".losses")
        data = ["--data", os.environ["TRAINER_DATA"]] if "TRAINER_DATA" in os.environ else []
        options = [*data, "--model-dir", str(directory), "--losses", str(losses), "--max-steps", str(steps), *self.OPTIONS]
        if over_tcp:
            ranks = [subprocess.Popen([TRAINER, "--replicas", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(n)}) for rank in range(n)]
            self.assertEqual([rank.wait() for rank in ranks], [0] * n)
        elif n:
            code = self.wait(self.start(n, TRAINER, "--replicas", *options, directory=directory), directory)[1]
            self.assertEqual(code, 0, self.log(directory))
        else:
            subprocess.run([TRAINER, *options], check=True, capture_output=True)
        return losses.read_text()

    def test_one_rank_computes_what_the_single_process_does(self):
        self.assertEqual(self.learn(1, self.directory, 60), self.learn(0, self.directory.with_name("alone"), 60))

    def test_three_ranks_continue_bit_for_bit(self):
        self.learn(3, self.directory, 33)
        losses = self.learn(3, self.directory, 60)
        self.assertEqual(losses, self.learn(3, self.directory.with_name("straight"), 60))
        self.assertEqual(len(losses.splitlines()), 60)
        self.learn(2, self.directory, 65) # another number of ranks

    def test_ranks_over_tcp_compute_the_same(self):
        over_tcp = self.learn(3, self.directory, 40, over_tcp=True)
        self.assertEqual(over_tcp, self.learn(3, self.directory.with_name("mpi"), 40))


class Gpt(mpi.Test):
    """examples/gpt with --replicas. tests/programs/test_gpt.py has its ranks over TCP."""
    STEPS = 40
    OPTIONS = ["--layers", "2", "--heads", "2", "--width", "32", "--context", "32", "--batch-size", "4", "--accumulate", "2", "--dropout", "0.1",
               "--save-steps", "5"]

    def setUp(self):
        super().setUp()
        if "GPT" not in os.environ:
            self.skipTest("gpt is not built")

    def start_gpt(self, directory):
        return self.start(4, os.environ["GPT"], "--replicas", "--text", os.environ["GPT_TEXT"], "--model-dir", str(directory), "--losses",
                          f"{directory}.losses", "--max-steps", str(self.STEPS), *self.OPTIONS, directory=directory)

    def learn(self, directory):
        """Returns the losses and the parameters."""
        lines, code = self.wait(self.start_gpt(directory), directory)
        self.assertEqual((len(lines), code), (1, 0), self.log(directory))
        return pathlib.Path(f"{directory}.losses").read_text(), (directory / "model.safetensors").read_bytes()

    def newest(self):
        """The step of the newest checkpoint."""
        path = self.directory / "checkpoint"
        return int(path.read_text().split('"')[1].rsplit("-", 1)[1]) if path.exists() else 0

    def test_killed_and_started_again(self):
        """Each time, one rank dies at a random instant. The losses and parameters are those of the undisturbed run."""
        wanted = self.learn(self.directory.with_name("undisturbed"))
        numbers = random.Random(SEED)
        kills = 0
        while kills < (KILLS + 2) // 3:
            if self.newest() == self.STEPS:
                shutil.rmtree(self.directory)
            before, process = self.newest(), self.start_gpt(self.directory)
            while self.newest() <= before and process.poll() is None:
                time.sleep(0.002)
            time.sleep(numbers.uniform(0, 0.05))
            victims = [pid for pid, arguments in mpi.processes(str(self.directory)) if arguments[0] == os.fsencode(os.environ["GPT"])]
            if victims:
                os.kill(numbers.choice(victims), signal.SIGKILL)
                kills += 1
            self.wait(process)
        self.assertEqual(self.learn(self.directory), wanted)


class Faults(Failing):
    """Survivors end alike, none remains, and the newest checkpoint leads to the undisturbed end."""
    def test_random_faults(self):
        numbers = random.Random(SEED)
        for fault in range(FAULTS):
            n, step = numbers.choice((2, 3, 4)), numbers.randrange(STEPS)
            event = numbers.choice(("stop", "nan", "fail", "lost", "kill", "late", "late-kill", "freeze"))
            rank = numbers.randrange(n)
            with self.fresh(fault=fault, n=n, event=event, rank=rank, step=step):
                if event in ("stop", "nan", "fail", "lost"):
                    # without recovery, mpirun terminates the ranks that have not ended yet when the first one exits with 75
                    _, _, ends = self.train(n, STEPS, event, rank, step, options=mpi.RECOVERY)
                    self.assertEqual((len(ends), len(set(ends.values()))), (n, 1), ends)
                    self.assertEqual(self.codes(), {other: end.code for other, end in ends.items()}, self.log())
                    self.assert_completes(n, STEPS)
                else:
                    self.fail_rank(n, event, rank, step)


if __name__ == "__main__":
    unittest.main()
