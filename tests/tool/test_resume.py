# SPDX-License-Identifier: Apache-2.0
"""hooksess verify-resume, with programs that resume exactly, and programs that do not."""
import json
import os
import shutil
import signal
import struct
import subprocess
import unittest

from support import ALLOCATOR, BUILD, TOOL, ToolCase, run

PROGRAM = str(BUILD / "tests/tool/resume_program")
STEPS = ["--steps", "8"]
SAME = "resumed at step 4 and at step 5: 8 equal steps, each with 9 variables, states and values\n"


class ResumeCase(ToolCase):
    def setUp(self):
        super().setUp()
        self.temporary = self.directory / "tmp"
        self.temporary.mkdir()
        self.work = self.directory / "work"
        self.work.mkdir()

    def verify(self, *words, options=(), status=0, program=(PROGRAM,)):
        """Runs the command. Returns its standard output and standard error."""
        done = run(TOOL, "verify-resume", *STEPS, *options, "--", *program, *words, cwd=self.work,
                   env={**os.environ, "TMPDIR": str(self.temporary)})
        output, said = done.stdout.decode(), ALLOCATOR.sub("", done.stderr.decode())
        self.assertEqual(done.returncode, status, output + said)
        self.assertEqual([line for line in said.splitlines() if not line.startswith("hooksess: ")], [])
        self.assertEqual(list(self.temporary.iterdir()), [], "nothing is left")
        return output, said

    def is_same(self, *words, **more):
        output, said = self.verify(*words, **more)
        self.assertEqual(said, "")
        return output

    def differs(self, *words, **more):
        output, said = self.verify(*words, status=1, **more)
        self.assertEqual(said, "")
        return output

    def fails(self, *words, **more):
        output, said = self.verify(*words, status=2, **more)
        self.assertEqual(output, "")
        return said

    def train(self, *words):
        done = run(PROGRAM, *words, cwd=self.work)
        self.assertEqual(done.returncode, 0, done.stderr)

    def files(self):
        return {str(path.relative_to(self.work)): path.read_bytes() if path.is_file() else None
                for path in sorted(self.work.rglob("*"))}


class Exact(ResumeCase):
    def test_a_program_that_resumes_exactly(self):
        self.assertEqual(self.is_same(), SAME)
        self.assertEqual(self.files(), {})

    def test_other_ways_to_train(self):
        for words in ["own_loop"], ["seldom"], ["late_input"], ["required"], ["text"]:
            with self.subTest(words=words):
                self.assertIn("8 equal steps", self.is_same(*words))

    def test_memory_of_a_device(self):
        self.assertIn("each with 10 variables, states and values", self.is_same("device"))
        self.assertIn("the variable 'far'", self.differs("device", "no_generator"))

    def test_the_default_number_of_steps(self):
        done = run(TOOL, "verify-resume", PROGRAM, cwd=self.work)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"resumed at step 10 and at step 11: 20 equal steps", done.stdout)

    def test_the_lowest_number_of_steps(self):
        self.assertEqual(self.is_same(options=["--steps", "2"]),
                         "resumed at step 1: 2 equal steps, each with 9 variables, states and values\n")

    def test_another_middle(self):
        self.assertEqual(self.is_same(options=["--middle", "7"]),
                         "resumed at step 7: 8 equal steps, each with 9 variables, states and values\n")

    def test_runs_of_several_steps(self):
        for stride, resumed in (2, "4 and at step 6"), (3, "6"), (5, "5"), (7, "7"):
            with self.subTest(stride=stride):
                self.assertIn(f"resumed at step {resumed}: ", self.is_same(f"stride={stride}"))
        self.assertIn("resumed at step 6 and at step 9: 4 equal steps",
                      self.is_same("stride=3", options=["--steps", "11"]))

    def test_states_that_hold_times(self):
        self.assertIn("each with 11 ", self.is_same("times"))

    def test_state_that_changes_after_the_loop(self):
        for words in ["next_epoch"], ["next_epoch", "own_loop"]:
            with self.subTest(words=words):
                self.assertEqual(self.is_same(*words), SAME if words == ["next_epoch"] else self.is_same("own_loop"))

    def test_more_fetches(self):
        self.assertIn("each with 10 ", self.is_same(options=["--fetch", "double_loss,loss"]))


class Different(ResumeCase):
    def test_a_generator_that_is_not_saved(self):
        self.assertEqual(self.differs("no_generator").splitlines()[0],
                         "step 5 differs in the variable 'position', the value 'loss' (resumed at step 4)")

    def test_the_numbers_of_both_runs(self):
        self.assertRegex(self.differs("no_generator"),
                         r"\n  variable position: [\d.e+]+ in the first run and [\d.e+]+ in the resumed run\n")

    def test_state_that_is_restored_as_something_else(self):
        self.assertTrue(self.differs("lossy_input").startswith(
            "step 5 differs in the state 'hooksess/state/input', the variable 'position', the value 'loss' ("))

    def test_a_hooks_state(self):
        self.assertTrue(self.differs("lossy_hook").startswith("step 5 differs in the state 'hooksess/hook/counter' ("))

    def test_a_stop_that_saves_something_else_than_a_kill(self):
        self.assertTrue(self.differs("late_save").startswith("step 6 differs in the state 'hooksess/state/generator' ("))
        self.is_same("late_save", options=["--middle", "4"])

    def test_two_buffers_that_are_swapped(self):
        self.assertIn("step 6 differs in the variable 'u' (resumed at step 5)\n", self.differs("swaps"))
        self.is_same("swaps", options=["--middle", "4"])

    def test_variables_by_pointers(self):
        self.is_same("points")
        for middle in "1", "2", "3":
            self.is_same("points", options=["--middle", middle])

    def test_a_loop_of_the_program(self):
        self.assertIn("the variable 'position'", self.differs("own_loop", "no_generator"))

    def test_a_value_that_is_not_computed_in_each_step(self):
        self.assertTrue(self.differs("stale").startswith("step 5 differs in the value 'average' ("))
        self.is_same("stale", options=["--ignore", "average"])

    def test_the_usual_remedies_are_named(self):
        for output in self.differs("no_generator"), run(TOOL, "help", "verify-resume").stdout.decode():
            self.assertIn("hs_graph_bytes", output)
            self.assertIn("hs_graph_variable_at", output)
        self.assertNotIn("hs_graph_", self.differs("random"))  # the difference has nothing to do with checkpoints

    def test_ignored_values_may_differ(self):
        self.assertIn("the state 'hooksess/state/clock'", self.differs("clock"))
        self.is_same("clock", options=["--ignore", "other,hooksess/state/clock"])
        self.differs("clock", options=["--ignore", "hooksess/state"])

    def test_a_program_that_does_not_compute_the_same_twice(self):
        output = self.differs("random")
        self.assertTrue(output.startswith(
            "step 1 differs in the state 'hooksess/state/generator', the variable 'position', the value 'loss' (two runs from "
            "the start)\n"), output)
        self.assertIn(" in the second run\n", output)
        self.assertIn("\nThe program computes different results in each run", output)

    def test_the_first_byte_that_differs_is_named(self):
        output = self.differs("random")
        self.assertRegex(output, r"\n  state    hooksess/state/generator: byte [3-7] of 8 is [0-9a-f]{2} in the first run and [0-9a-f]{2} in the second run\n")
        self.assertIn("\nBytes that differ may also be uninitialized, the padding of a struct (set it to\n", output)
        self.assertNotIn("uninitialized", self.differs("no_generator"))
        found = json.loads(self.differs("random", options=["--json"]))["differences"]
        self.assertIn(found[0]["first_byte"], range(3, 8))
        self.assertNotIn("first_byte", found[1])  # a number

    def test_states_of_other_lengths(self):
        self.assertIn("\n  state    hooksess/state/inputs: 6 bytes in the first run and 2 in the resumed run\n", self.differs("grows"))

    def test_fetches(self):
        output = self.differs("no_generator", options=["--fetch", "double_loss"])
        self.assertTrue(output.startswith(
            "step 5 differs in the variable 'position', the value 'double_loss', the value 'loss' ("), output)

    def test_more_differences_than_are_printed(self):
        self.assertIn("the value 'double_loss' and 1 more (",
                      self.differs("lossy_input", options=["--fetch", "double_loss"]))


class NotMade(ResumeCase):
    """Trials that fail."""

    def test_a_program_without_a_training_session(self):
        self.assertIn("ended with status 0 and did not open a training session", self.fails("elsewhere"))
        self.assertIn("'false' ended with status 1 and did not open a training session", self.fails(program=["false"]))

    def test_a_missing_program(self):
        self.assertIn("'/no/such': No such file", self.fails(program=["/no/such"]))

    def test_a_program_that_is_killed(self):
        self.assertRegex(self.fails("kill=1"), "the uninterrupted run: '.*' was killed by signal 9 .Killed")
        self.assertRegex(self.fails("kill=5"), "the resumed run: '.*' was killed by signal 9 .Killed")
        self.assertRegex(self.fails("kill=7"), "the run that was resumed twice: '.*' was killed by signal 9 .Killed")

    def test_a_program_that_exits(self):
        self.assertIn("ended with status 3 before step 8", self.fails("exit=3"))

    def test_a_program_that_fails(self):
        self.assertIn("the worker is gone", self.fails("fail=3"))
        self.assertIn("no_such_thing", self.fails(options=["--fetch", "no_such_thing"]))

    def test_a_training_that_is_too_short(self):
        self.assertIn("ended at step 2, before step 8; try fewer steps (--steps)", self.fails("end=3"))
        self.assertIn("the run that was resumed twice: the training session ended at step 5, before step 8",
                      self.fails("end=6", "ends_resumed"))

    def test_a_run_that_makes_all_steps(self):
        for stride in 8, 9, 20:
            said = self.fails(f"stride={stride}")
            self.assertIn(f"interrupt after step 4 reached the last step, {stride}, in one run, so nothing was resumed; "
                          f"use --steps {4 * stride}", said)
            self.is_same(f"stride={stride}", options=["--steps", str(4 * stride)])
        self.assertIn("use --steps 36", self.fails("stride=3", options=["--middle", "7"]))
        self.differs("stride=8", "random")

    def test_a_program_that_does_not_restore(self):
        self.assertIn("the program starts at step 0, although its checkpoint_dir has a checkpoint of step 4; let it resume (hs_training_options.restore)",
                      self.fails("fresh"))

    def test_sessions_that_cannot_be_tested(self):
        self.assertIn("no checkpoint_dir", self.fails("no_directory"))
        self.assertIn("a worker's", self.fails("worker"))
        self.assertIn("the program has its own files (hs_env.files), which verify-resume cannot redirect", self.fails("own_files"))

    def test_the_last_lines_of_the_program_are_shown(self):
        said = self.fails("says_a_lot", "elsewhere")
        self.assertEqual(said.splitlines()[1:], [f"hooksess:     line {n}" for n in range(995, 1000)])

    def test_an_empty_standard_input(self):
        self.assertIn("ended with status 0", self.fails(program=["cat"]))


class Sessions(ResumeCase):
    """Several sessions in one program: the first is recorded."""

    def test_in_turn(self):
        self.is_same("two")
        self.assertEqual(self.files(), {})

    def test_at_the_same_time(self):
        self.is_same("both")
        self.assertEqual(self.files(), {})


class Untouched(ResumeCase):
    """A trial does not change a real run."""

    def test_a_run_of_the_program(self):
        for words in [], ["summaries"], ["other_files"]:
            with self.subTest(words=words):
                self.train(*words)
                before = self.files()
                self.is_same(*words)
                self.differs(*words, "no_generator")
                self.assertEqual(self.files(), before)

    def test_a_run_behind_a_link(self):
        (self.work / "real").mkdir()
        (self.work / "run").symlink_to("real")
        self.train()
        before = self.files()
        self.is_same("other_files")
        self.assertEqual(self.files(), before)

    def test_a_run_that_trains(self):
        with subprocess.Popen(["python3", "-c", "import fcntl, sys, time; f = open('run/.hooksess.lock', 'w'); "
                               "fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True); sys.stdin.read()"],
                              cwd=self.make_run(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            holder.stdout.readline()
            self.is_same()
            holder.stdin.close()

    def test_control_orders_for_a_real_run(self):
        self.make_run()
        control = self.work / "run/control"
        control.write_text("stop\n")
        control.chmod(0o600)
        self.is_same("control")
        self.assertEqual(control.read_text(), "stop\n")

    def make_run(self):
        (self.work / "run").mkdir()
        return self.work

    def test_code_after_the_training_does_not_run(self):
        self.is_same()
        self.assertFalse((self.work / "exported").exists())


class Options(ResumeCase):
    def test_json(self):
        done = run(TOOL, "verify-resume", *STEPS, "--json", PROGRAM, cwd=self.work)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        found = self.parse(done.stdout)
        self.assertEqual(found, {"same": True, "steps": 8, "resumed_at": [4, 5], "step": None, "differences": []})

    def test_json_of_a_difference(self):
        found = self.parse(self.differs("no_generator", options=["--json"]))
        self.assertEqual((found["same"], found["steps"], found["resumed_at"], found["step"]), (False, 4, [4], 5))
        self.assertEqual([(d["kind"], d["name"]) for d in found["differences"]], [("variable", "position"), ("value", "loss")])
        for difference in found["differences"]:
            self.assertNotEqual(difference["uninterrupted"], difference["resumed"])

    def parse(self, text):
        return json.loads(text)

    def test_kept_files(self):
        kept = self.directory / "kept"
        self.differs("no_generator", options=["--keep", str(kept)])
        self.assertLessEqual({"whole", "run", "whole.record", "resumed.record", "interrupted.log", "whole.result"},
                             set(os.listdir(kept)))
        self.assertIn("--keep", self.fails(options=["--keep", str(kept)]))  # the directory is not empty
        shutil.rmtree(kept)
        kept.mkdir()
        self.is_same("summaries", options=["--keep", os.path.relpath(kept, self.work)])
        self.assertTrue(list((kept / "whole.summaries").iterdir()))

    def test_a_directory_with_blanks(self):
        self.is_same(options=["--keep", str(self.directory / " a b")])

    def test_invalid_options(self):
        self.assertIn("--steps must be at least 2", self.fails(options=["--steps", "1"]))
        self.assertIn("is not an integer", self.fails(options=["--steps", "x"]))
        for middle in "0", "8", "-1":
            self.assertIn("--middle must be from 1 to 7, which is one less than --steps", self.fails(options=["--middle", middle]))
        self.assertIn("--fetch: give names separated by commas, without blanks", self.fails(options=["--fetch", "a b"]))
        done = run(TOOL, "verify-resume", cwd=self.work)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"PROGRAM ..., not 0 arguments\nhooksess: try 'hooksess help verify-resume'\n", done.stderr)

    def test_options_after_the_program_are_its_own(self):
        done = run(TOOL, "verify-resume", *STEPS, PROGRAM, "--steps", cwd=self.work)
        self.assertIn(b"ended with status 97", done.stderr)

    def test_a_directory_that_cannot_be_created(self):
        (self.directory / "file").write_bytes(b"")
        self.assertIn("Not a directory", self.fails(options=["--keep", str(self.directory / "file/inside")]))
        done = run(TOOL, "verify-resume", PROGRAM, cwd=self.work, env={**os.environ, "TMPDIR": "/no/such"})
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"cannot create a directory in '/no/such': No such file", done.stderr)


class Variable(ResumeCase):
    """How a training session parses HOOKSESS_RESUME_TRIAL."""

    def train_with(self, value, *words):
        done = run(PROGRAM, *words, cwd=self.work, env={**os.environ, "HOOKSESS_RESUME_TRIAL": value})
        return done.returncode, done.stderr.decode()

    def test_malformed_values(self):
        for value in "", "x", "whole", "whole 0", "whole 0 8", "whole 0 8 kill", "whole 0 8 kill -", "whole 0 8 kill - ", \
                "whole 0 8 kill - relative", "whole 0 8 - /tmp", "whole 0 8 end - /tmp", "../x 0 8 kill - /tmp", \
                "whole 8 8 kill - /tmp", "whole -1 8 stop - /tmp", "whole 4x 8 kill - /tmp", "whole 4 8 kill  /tmp":
            with self.subTest(value=value):
                status, said = self.train_with(value)
                self.assertEqual(status, 1)
                self.assertIn(f"HOOKSESS_RESUME_TRIAL is '{value}', but only 'hooksess verify-resume' sets it; unset it", said)
                self.assertFalse((self.work / "run").exists())

    def test_another_session_does_not_write_to_a_record(self):
        record = self.temporary / "whole.record"
        record.write_text("first")
        status, said = self.train_with(f"whole 0 8 kill - {self.temporary}")
        self.assertEqual(status, 1)
        self.assertIn("verify-resume records only one training session, but the program opened another one", said)
        self.assertEqual(record.read_text(), "first")
        self.assertEqual(os.listdir(self.temporary), ["whole.record"])

    def test_a_trial_ends_by_sigkill(self):
        self.assertEqual(self.train_with(f"stopped 0 8 stop - {self.temporary}")[0], -signal.SIGKILL)
        self.assertEqual((self.temporary / "stopped.result").read_text(), "0 8 ")
        self.assertEqual(self.train_with(f"whole 0 8 kill - {self.temporary}")[0], -signal.SIGKILL)
        self.assertEqual((self.temporary / "whole.result").read_text(), "0 8 ")

    def test_a_missing_directory(self):
        status, said = self.train_with("whole 0 8 kill - /no/such")
        self.assertEqual(status, 1)
        self.assertIn("/no/such/whole.record", said)
        self.assertEqual(self.files().keys(), {"exported"})


class Records(ResumeCase):
    """A program that writes records itself."""

    def compare(self, whole, resumed, status):
        script = ('set -- $HOOKSESS_RESUME_TRIAL; printf "0 $3 " >"$6/$1.result"; '
                  'case $1 in whole) printf "$START$WHOLE";; interrupted) printf "$START";; *) printf "$RESUMED";; esac '
                  '>"$6/$1.record"')
        done = run(TOOL, "verify-resume", *STEPS, "--middle", "4", "sh", "-c", script, cwd=self.work,
                   env={**os.environ, "START": "4 variable 1:1 int8 [] 7 x\\n", "WHOLE": whole, "RESUMED": resumed, "TMPDIR": str(self.temporary)})
        self.assertEqual(done.returncode, status, done)
        return (done.stdout + done.stderr).decode()

    def test_steps_may_be_more_than_one_apart(self):
        text = "6 variable a:4 float [] - x\\n8 variable b:4 float [] - x\\n"
        self.assertIn("3 equal steps, each with 1 ", self.compare(text, text, 0))

    def test_other_steps_are_ignored(self):
        self.assertIn("2 equal steps", self.compare(
            "5 variable c:4 float [] - x\\n9 variable d:4 float [] - x\\n",
            "4 variable not:4 float [] - x\\n5 variable c:4 float [] - x\\n10 variable d:4 float [] - x\\n", 0))

    def test_another_type_or_shape(self):
        for other in "0:4 int32 [1]", "0:4 float []", "0:8 float [1]":
            self.assertIn("the variable 'x y'", self.compare("5 variable 0:4 float [1] - x y\\n",
                                                             f"5 variable {other} - x y\\n", 1))

    def test_the_order_within_a_step_does_not_matter(self):
        self.compare("5 variable 1:1 int8 [] - x\\n5 state 2:1 int8 [] - x\\n",
                     "5 state 2:1 int8 [] - x\\n5 variable 1:1 int8 [] - x\\n", 0)

    def test_values_of_only_one_run(self):
        one, two = "5 variable 1:1 int8 [] 7 x\\n", "5 state 1:1 uint8 [1] - s\\n5 variable 1:1 int8 [] 7 x\\n"
        self.assertIn("  state    s: missing in the first run\n", self.compare(one, two, 1))
        self.assertIn("  state    s: missing in the resumed run\n", self.compare(two, one, 1))

    def test_a_step_of_only_one_run(self):
        one, two = "5 variable 1:1 int8 [] 7 x\\n", "5 variable 1:1 int8 [] 7 x\\n6 variable 1:1 int8 [] 7 x\\n"
        for pair in (one, two), (two, one):
            self.assertIn("step 6 differs in that only one of the runs has it (resumed at step 4)\n", self.compare(*pair, 1))

    def test_numbers_that_look_the_same(self):
        self.assertIn("  value    x: 1 in the first run and 1 in the resumed run (other bits)\n",
                      self.compare("5 value 1:8 double [] 1 x\\n", "5 value 2:8 double [] 1 x\\n", 1))
        self.assertIn("  value    x: other bytes\n",
                      self.compare("5 value 1:8 float [2] - x\\n", "5 value 2:8 float [2] - x\\n", 1))

    def test_bytes_that_may_be_of_a_pointer(self):
        def bytes_of(*words):
            return "x" + b"".join(word.to_bytes(8, "little") for word in words).hex()

        for first, second, byte, is_pointer in ((0x5581c3a0d2a0, 0x56003f10d2a0, 10, True), (0x7ffc12345670, 0x7ffd00000670, 9, True),
                                                (0x5581c3a0d2a0, 7, 8, False), (1, 2, 8, False)):
            text = self.compare(f"5 state 1:20 uint8 [20] {bytes_of(3, first)}00000000 s\\n", f"5 state 2:20 uint8 [20] {bytes_of(3, second)}00000000 s\\n", 1)
            self.assertIn(f"  state    s: byte {byte} of 20 is ", text)
            self.assertEqual("; it may be of a pointer\n" in text, is_pointer, text)

    def test_the_first_number_that_differs_is_named(self):
        for dtype, letter, one, two in ("float", "f", 1.5, 0.1), ("double", "d", 1.5, 0.1), ("int32", "i", -7, 2), ("int64", "q", 1, -300):
            texts = [f"5 variable {i}:{n} {dtype} [3] x{struct.pack(f'<3{letter}', 3, value, 4).hex()} v\\n"
                     for i, (n, value) in enumerate([(struct.calcsize(f"<3{letter}"), one), (struct.calcsize(f"<3{letter}"), two)])]
            self.assertRegex(self.compare(*texts, 1), f"\n  variable v: element 1 of 3 is {one:.9g} in the first run and {two:.6g}\\d* in the resumed run\n")

    def test_bytes_of_only_one_record(self):
        for other in "-", "xff", "xffffffff":
            text = self.compare("5 state 1:2 uint8 [2] xffff s\\n", f"5 state 2:2 uint8 [2] {other} s\\n", 1)
            self.assertIn("  state    s:", text)
            self.assertNotIn(" byte ", text)

    def test_names_are_escaped(self):
        self.assertIn("'\\x1b[2J'", self.compare("5 value 1:8 float [2] - \\033[2J\\n", "5 value 2:8 float [2] - \\033[2J\\n", 1))

    def test_nothing_to_compare(self):
        self.assertIn("the resumed run: no step to compare", self.compare("", "", 2))

    def test_damaged_records(self):
        good = "5 variable 1:1 int8 [] 7 x\\n"
        for text in "x\\n", "5\\n", "5 variable\\n", "5 variable 1:1 int8 []\\n", "5 variable 1:1 int8 [] 7\\n", \
                "5 variable 1:1 int8 [] 7 \\n", "y variable 1:1 int8 [] 7 x\\n", "\\n", good + "5 variable 1:1 int8 [] 7 y":
            with self.subTest(text=text):
                self.assertIn("damaged at '", self.compare(good, text, 2))
                self.assertIn("damaged at '", self.compare(text, good, 2))

    def test_a_missing_record(self):
        script = 'set -- $HOOKSESS_RESUME_TRIAL; printf "0 $3 " >"$6/$1.result"'
        self.assertIn("whole.record: cannot read it: No such file", self.fails(program=["sh", "-c", script]))

    def test_an_invalid_result(self):
        script = 'set -- $HOOKSESS_RESUME_TRIAL; echo x >"$6/$1.result"'
        self.assertIn("did not open a training session", self.fails(program=["sh", "-c", script]))

    def test_a_long_record(self):
        script = ('set -- $HOOKSESS_RESUME_TRIAL; printf "0 $3 " >"$6/$1.result"; '
                  'seq 1 50000 | sed "s/$/ variable 1:1 int8 [] 7 x/" >"$6/$1.record"')
        self.assertIn("50000 equal steps", self.is_same(program=["sh", "-c", script], options=["--steps", "50000"]))


class Examples(ResumeCase):
    def test_adopt(self):
        for name in "adopt_after", "adopt_after_cpp":
            program = BUILD / "examples/adopt" / name
            if program.exists():
                self.assertIn("equal steps", self.is_same(program=[str(program)]))
        self.assertEqual(self.files(), {})


if __name__ == "__main__":
    unittest.main()
