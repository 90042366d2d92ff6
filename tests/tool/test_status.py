# SPDX-License-Identifier: Apache-2.0
"""The commands `status` and `outcome`."""
import fcntl
import json
import os
import socket
import subprocess
import time
import unittest

from event_files import event, field, scalars, start, version
from support import BUILD, ToolCase, run

HOST = socket.gethostname()
EVENTS = "run/events.out.tfevents.0000000001.a"


def ended_process():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def time_text(secs):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(secs))


class RunCase(ToolCase):
    def setUp(self):
        super().setUp()
        (self.directory / "run").mkdir()

    def write_status(self, **more):
        status = {"step": 40, "last_durable_step": 30, "phase": "step", "save_secs": 0.016, "time": time_text(time.time() - 60),
                  "host": HOST, "pid": ended_process(), **more}
        self.write("run/status.json", json.dumps(status).encode())

    def write_outcome(self, **more):
        outcome = {"reason": "stopped", "interrupted": False, "signal": 0, "step": 50, "last_saved_step": 50, "hook": "stop_at_step",
                   "error": None, "exit_code": 0, "failures": [], "time": time_text(time.time()), "host": HOST, "pid": 1, **more}
        self.write("run/outcome.json", json.dumps(outcome).encode())

    def hold_lock(self):
        """Locks the directory as a process that saves to it."""
        lock = open(self.directory / "run/.hooksess.lock", "w")
        self.addCleanup(lock.close)
        lock.write(f"process 77 on {HOST}\n")
        lock.flush()
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock

    def status(self, status=0):
        return self.json("status", "--json", "run", status=status)


class Alive(RunCase):
    def test_the_holder_of_the_lock_is_running(self):
        self.write_status()
        self.hold_lock()
        found = self.status()
        self.assertEqual((found["state"], found["locked_by"], found["step"]), ("running", f"process 77 on {HOST}", 40))
        self.assertRegex(self.prints("status", "run"), f"^state +running: process 77 on {HOST}, phase step\nstep +40, written ")

    def test_the_lock_counts_more_than_an_earlier_outcome_and_another_host(self):
        self.write_outcome(exit_code=1)
        self.write_status(host="elsewhere")
        self.hold_lock()
        self.assertEqual(self.status()["state"], "running")

    def test_a_process_without_its_lock_has_crashed(self):
        self.write("run/.hooksess.lock", b"")
        self.write_status(pid=os.getpid())  # its number may have been given to another process
        self.assertEqual(self.status(1)["state"], "crashed")
        self.assertIn("crashed: process ", self.prints("status", "run", status=1))

    def test_a_process_that_ends_may_have_released_its_lock(self):
        self.write("run/.hooksess.lock", b"")
        self.write_status(pid=os.getpid(), phase="end", time=time_text(time.time()))
        self.assertEqual(self.status()["state"], "running")
        self.write_status(phase="end")
        self.assertEqual(self.status(1)["state"], "crashed")

    def test_without_a_lock_the_process_decides(self):
        self.write_status(pid=os.getpid(), time=time_text(time.time()))
        self.assertEqual(self.status()["state"], "running")
        self.write_status()
        self.assertEqual(self.status(1)["state"], "crashed")
        for pid in 0, -1, 2**40, "1", None, 1.5:
            self.write_status(pid=pid)
            self.assertEqual(self.status(1)["state"], "crashed")

    def test_a_later_process_may_have_the_same_number(self):
        for secs in 3600, 10**9:
            self.write_status(pid=os.getpid(), time=time_text(time.time() - secs))
            self.assertEqual(self.status(1)["state"], "crashed")
        self.write_status(pid=os.getpid(), time="unknown")
        self.assertEqual(self.status()["state"], "running")

    def test_a_process_of_which_only_the_exit_code_is_left_has_ended(self):
        process = subprocess.Popen(["sleep", "0"], stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.assertEqual(process.stdout.read(), b"")
        process.stdout.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.write_status(pid=process.pid, time=time_text(time.time()))
        self.assertEqual(self.status(1)["state"], "crashed")

    def test_the_process_of_another_host_is_unknown(self):
        self.write_status(host="elsewhere", pid=os.getpid())
        self.assertEqual(self.status()["state"], "unknown")

    def test_an_outcome_is_the_end(self):
        self.write_status(pid=os.getpid())
        for exit_code, status in (0, 0), (75, 0), (1, 1), (143, 1):
            self.write_outcome(exit_code=exit_code)
            found = self.status(status)
            self.assertEqual((found["state"], found["step"], found["outcome"]["exit_code"]), ("ended", 50, exit_code))
        self.assertIn("state       ended: stopped, exit code 143\n", self.prints("status", "run", status=1))

    def test_nothing_is_created_or_locked(self):
        self.write_status()
        self.prints("status", "run", status=1)
        self.assertEqual(os.listdir(self.directory / "run"), ["status.json"])
        lock = self.hold_lock()
        fcntl.lockf(lock, fcntl.LOCK_UN)
        self.prints("status", "run", status=1)
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Progress(RunCase):
    def setUp(self):
        super().setUp()
        self.write_status()
        self.lock = self.hold_lock()

    def test_events_are_newer_than_the_status(self):
        now = time.time()
        points = b"".join(event(step, field(5, field(1, field(1, "loss") + field(2, 1.0))), now - 100 + step) for step in (60, 80))
        self.write(EVENTS, version() + start(41) + points)
        found = self.status()
        self.assertEqual((found["step"], found["steps_per_sec"], found["time"][:19]), (80, 1, time_text(now - 20)[:19]))
        self.assertIn("speed       1 steps/s\n", self.prints("status", "run"))

    def test_the_measured_speed_counts_more(self):
        self.write(EVENTS, version() + start(41) + scalars(60, **{"global_step/sec": 2.5}) + scalars(80, **{"global_step/sec": 4}))
        self.assertEqual(self.status()["steps_per_sec"], 4)

    def test_the_speed_has_the_unit_of_the_log_and_slow_steps_have_a_duration(self):
        for rate, text in (2883000.0, "2883000 steps/s"), (85.25, "85.25 steps/s"), (0.5, "0.5 steps/s, 2.00 s per step"), \
                (1 / 512, "0.001953 steps/s, 9 min per step"):
            self.write(EVENTS, version() + start(41) + scalars(60, **{"global_step/sec": rate}))
            self.assertIn(f"speed       {text}\n", self.prints("status", "run"))

    def test_a_start_discards_the_values_before_it(self):
        self.write(EVENTS, scalars(90, **{"global_step/sec": 2.5}) + start(41) + scalars(50, loss=1))
        found = self.status()
        self.assertEqual((found["step"], found["steps_per_sec"]), (50, None))

    def test_the_newest_event_file_counts(self):
        self.write(EVENTS, scalars(90, loss=1))
        self.write("run/events.out.tfevents.0000000002.a", scalars(70, loss=1))
        self.assertEqual(self.status()["step"], 70)

    def test_an_incomplete_record_is_normal(self):
        self.write(EVENTS, scalars(60, loss=1) + scalars(61, loss=1)[:-3])
        self.assertEqual(self.status()["step"], 60)

    def test_a_pointer_of_git_lfs_instead_of_the_events_is_said(self):
        before = self.status()
        self.write(EVENTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:x\nsize 3\n")
        output, said = self.tool("status", "--json", "run")
        self.assertEqual(said, f"hooksess: {EVENTS}: is not an event file, but a pointer of Git LFS; run 'git lfs pull'\n")
        self.assertEqual(json.loads(output), before)

    def test_times_that_are_no_times(self):
        self.write(EVENTS, b"".join(event(60, field(5, b""), secs) for secs in (float("nan"), float("inf"), -1e300, 1e300)))
        self.assertEqual(self.status()["steps_per_sec"], None)
        self.write_status(time="2024-02-30T12:30:00.250Z")
        self.assertIsNone(self.status()["time"])

    def test_checkpoints_give_a_speed_and_the_durable_step(self):
        fcntl.lockf(self.lock, fcntl.LOCK_UN)
        for step in 10, 30:
            self.save(f"run/model-{step}", 1, 1)
            os.utime(self.directory / f"run/model-{step}.index", (1700000000 + step / 2,) * 2)
        found = self.status(1)
        self.assertEqual((found["steps_per_sec"], found["last_durable_step"], found["checkpoints"]), (2, 30, 2))
        self.assertEqual((found["checkpoint"], found["checkpoint_time"]), ("run/model-30", "2023-11-14T22:13:35.000Z"))
        self.assertRegex(self.prints("status", "run", status=1), r"\ndurable +step 30, run/model-30, saved .* ago; a save takes 0\.016 s\n"
                                                                 r"checkpoints +2, 1\.4 KiB\n")

    def test_a_copied_checkpoint_is_not_newer_than_the_end_of_the_run(self):
        fcntl.lockf(self.lock, fcntl.LOCK_UN)
        self.save("run/model-30", 1, 1)  # now
        self.write_outcome(time=time_text(time.time() - 3600))
        self.write_status(time=time_text(time.time() - 3600))
        self.assertRegex(self.prints("status", "run"), r"\ndurable +step 30, run/model-30, saved 60 min ago")

    def test_a_directory_of_checkpoints_alone(self):
        fcntl.lockf(self.lock, fcntl.LOCK_UN)
        (self.directory / "run/status.json").unlink()
        self.save("run/model-30", 1, 1)
        found = self.status()
        self.assertEqual((found["state"], found["step"], found["status"]), ("unknown", 30, None))


    def test_a_run_that_writes_no_status_has_the_step_of_its_newest_checkpoint(self):
        """As a Supervisor's: it holds the lock, and writes events, but not after its last save."""
        (self.directory / "run/status.json").unlink()
        self.write(EVENTS, version() + start(1) + scalars(140, loss=1))
        fcntl.lockf(self.lock, fcntl.LOCK_UN)
        self.save("run/model-150", 1, 1)
        fcntl.lockf(self.lock, fcntl.LOCK_EX)
        self.assertEqual((self.status()["state"], self.status()["step"]), ("running", 150))
        fcntl.lockf(self.lock, fcntl.LOCK_UN)
        self.assertEqual((self.status()["state"], self.status()["step"]), ("unknown", 150))
        self.assertIn("unknown: no process holds the lock; the run left no status.json\nstep        150, ", self.prints("status", "run"))


class BadInput(RunCase):
    def test_missing_directories_and_files(self):
        self.assertIn("gone: No such file or directory", self.says("status", "gone"))
        self.assertIn("run: contains no status.json, outcome.json or checkpoint", self.says("status", "run"))
        self.assertIn("run: contains no outcome.json", self.says("outcome", "run"))
        self.write("file", b"")
        for command in "status", "outcome":
            self.assertIn("file: is not a directory", self.says(command, "file"))
        self.assertIn("gone: No such file or directory", self.says("outcome", "gone"))

    def test_damaged_files(self):
        for text in b"", b"{", b"[]", b"7", b"nonsense\x1b[2J", b"\xff" * 100, b"[" * 100000:
            self.write("run/status.json", text)
            self.write("run/outcome.json", text)
            output, said = self.tool("status", "run", status=1)
            self.assertIn("run/status.json: is damaged: ", said)
            self.assertNotIn("\x1b", said)
            self.assertIn("unknown", output)
            self.assertIn("run/outcome.json: is damaged: ", self.says("outcome", "run"))

    def test_members_of_later_versions_are_ignored_and_the_first_of_a_name_counts(self):
        more = {f"member {i}": i for i in range(1000)}
        self.write("run/status.json", (json.dumps({"step": 40, **more})[:-1] + ', "step": 50, "st\\u0065p": 60}').encode())
        self.assertEqual(self.status()["step"], 40)

    def test_values_of_other_types(self):
        for value in None, "x", [], {}, -1, 2**63 - 1, 1e300, True:
            self.write_status(**dict.fromkeys(("step", "last_durable_step", "phase", "save_secs", "time", "host", "pid"), value))
            self.assertEqual(self.status()["state"], "unknown")
            self.prints("status", "run")
            self.write_outcome(**dict.fromkeys(("reason", "interrupted", "signal", "step", "last_saved_step", "hook", "error", "failures"), value))
            self.prints("outcome", "run")
            self.prints("status", "run")
            (self.directory / "run/outcome.json").unlink()

    def test_strange_files(self):
        (self.directory / "run/status.json").mkdir()
        self.assertIn("status.json", self.tool("status", "run", status=1)[1])
        os.mkfifo(self.directory / "run/outcome.json")
        self.assertIn("outcome.json", self.says("outcome", "run"))
        os.mkfifo(self.directory / "run/.hooksess.lock")
        self.tool("status", "run", status=1)

    def test_hostile_names_are_escaped(self):
        self.write_status(host="x\x1b[2J", phase="\n")
        text = self.prints("status", "run")
        self.assertIn(" on x\\x1b[2J, phase \\x0a\n", text)
        self.write_outcome(reason="\x1b", hook="\x9b", error={"code": "\r", "message": "%s\x1b"}, exit_code=1)
        self.assertIn("run: \\x1b by the hook \\xc2\\x9b at step 50", self.prints("outcome", "run", status=1))

    def test_json_is_one_line_without_control_characters(self):
        status = {"step": 40, "host": "x\x7f\x9b31m\u2028\x1b", "list": [1.50, [], {}, None, {"\x9b": True}]}
        outcome = {"exit_code": 0, "reason": "stopped", "hook": "\x9b"}
        for name, content in ("status", status), ("outcome", outcome):
            self.write(f"run/{name}.json", json.dumps(content, indent=1, ensure_ascii=False).encode())
        lines = self.prints("status", "--json", "run"), self.prints("outcome", "--json", "run")
        for line in lines:
            self.assertRegex(line, r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\n\Z")
        self.assertEqual(json.loads(lines[0])["status"], status)
        self.assertEqual(json.loads(lines[0])["outcome"], outcome)
        self.assertEqual(json.loads(lines[1]), outcome)

    def test_exit_codes_that_are_none(self):
        for exit_code in -1, 256, 2**40, "0", None, 1.0:
            self.write_outcome(exit_code=exit_code)
            self.assertIn("exit_code is not a number from 0 to 255", self.says("outcome", "run"))


class Outcome(RunCase):
    def test_its_exit_code_is_that_of_the_run(self):
        for exit_code in 0, 1, 75, 143:
            self.write_outcome(exit_code=exit_code)
            self.assertEqual(self.prints("outcome", "run", status=exit_code),
                             f"run: stopped by the hook stop_at_step at step 50; last saved step 50; exit code {exit_code}\n")
            self.assertEqual(self.json("outcome", "--json", "run", status=exit_code)["exit_code"], exit_code)

    def test_all_members_are_printed(self):
        error = {"code": "DATA_LOSS", "number": 15, "message": "m.data: damaged"}
        self.write_outcome(reason="failed", interrupted=True, signal=15, step=-1, last_saved_step=-1, hook="", error=error, exit_code=143,
                           failures=[{"hook": "summary_saver", "failures": 2, "first_step": 3, "last_step": 9, "muted": True, "last": error}])
        self.assertEqual(self.prints("outcome", "run", status=143), """\
run: failed by signal 15 at an unknown step; no step is saved; exit code 143, interrupted: start the program again to continue
DATA_LOSS: m.data: damaged
survived: summary_saver failed 2 times at steps 3 to 9, and is muted; last: DATA_LOSS: m.data: damaged
""")

    def test_failures_at_one_step(self):
        error = {"code": "DATA_LOSS", "message": "bad"}
        for failures, first, last, said in (1, 80, 80, "failed once at step 80; "), (3, 80, 80, "failed 3 times at step 80; "), \
                (2, 80, 81, "failed 2 times at steps 80 to 81; "), (1, -1, -1, "failed once at an unknown step; "):
            self.write_outcome(failures=[{"hook": "h", "failures": failures, "first_step": first, "last_step": last, "last": error}])
            self.assertIn(f"survived: h {said}last: DATA_LOSS: bad\n", self.prints("outcome", "run"))


class RealRun(RunCase):
    def test_a_run_that_ended(self):
        done = run(str(BUILD / "tests/tool/status_program"), "run", "7", cwd=self.directory)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        found = self.status()
        self.assertEqual((found["state"], found["step"], found["last_durable_step"], found["outcome"]["reason"]), ("ended", 7, 7, "stopped"))
        self.assertEqual(self.prints("outcome", "run"), "run: stopped by the hook stop_at_step at step 7; last saved step 7; exit code 0\n")
        self.assertIn("newest", self.prints("checkpoint", "ls", "run"))

    def test_a_run_that_is_killed(self):
        process = subprocess.Popen([str(BUILD / "tests/tool/status_program"), "run", "0"], cwd=self.directory, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), b"step 5\n")
        found = self.status()
        self.assertEqual((found["state"], found["locked_by"]), ("running", f"process {process.pid} on {HOST}"))
        self.assertIn("the run has not ended", self.says("outcome", "run"))
        process.kill()
        process.wait()
        self.assertEqual(self.status(1)["state"], "crashed")


if __name__ == "__main__":
    unittest.main()
