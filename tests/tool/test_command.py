# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import unittest

from event_files import scalars, start, version
from support import BUILD, SOURCE, TIMEOUT, TOOL, ToolCase, run

COMMANDS = [("checkpoint", "ls"), ("checkpoint", "stat"), ("checkpoint", "cat"), ("checkpoint", "verify"),
            ("checkpoint", "diff"), ("checkpoint", "convert"), ("events", "ls"), ("events", "cat"), ("events", "check"), ("events", "compact"),
            ("events", "plot"), ("abi",), ("status",), ("outcome",), ("verify-resume",)]


PRELOADED = BUILD / "tests/tool/fail_allocation.so"


class CommandLine(ToolCase):
    def test_the_version_is_the_librarys(self):
        header = (SOURCE / "include/hooksess/version.h").read_text()
        version = re.search(r'HS_VERSION_STRING "(.*)"', header)[1]
        self.assertEqual(self.prints("--version"), f"hooksess {version}\n")

    def test_help_lists_every_command(self):
        text = self.prints("help")
        self.assertEqual(self.prints("--help"), text)
        self.assertTrue(text.startswith("usage: hooksess COMMAND ...\n\nShows the files that training wrote"), text)
        for words in COMMANDS:
            self.assertIn(f"  {' '.join(words)} ", text)

    def test_help_of_a_group_lists_its_commands_alone(self):
        text = self.prints("help", "checkpoint")
        self.assertIn("usage: hooksess checkpoint COMMAND ...\n\n  checkpoint ls  ", text)
        self.assertIn("\nA checkpoint is given as ", text)
        self.assertNotIn("vents", text)

    def test_the_summaries_in_help_are_in_one_column(self):
        lines = [line for line in self.prints("help").splitlines() if line.startswith("  ")]
        self.assertGreater(len(lines), len(COMMANDS))
        self.assertEqual(len({re.match(r" +\S.*?  +", line).end() for line in lines}), 1, lines)

    def test_help_of_a_command(self):
        for words in COMMANDS:
            text = self.prints("help", *words)
            self.assertTrue(text.startswith(f"usage: hooksess {' '.join(words)} "), text)
            self.assertIn("Exit status", text)
            self.assertEqual(self.prints(*words, "--help"), text)

    def test_help_of_a_command_ends_with_that_command(self):
        for words in COMMANDS:
            text = self.prints("help", *words)
            self.assertEqual("A checkpoint is given as " in text, words[0] == "checkpoint", text)
            self.assertEqual("Events are given as " in text, words[0] == "events" and words[1] != "compact", text)  # which takes a directory
            self.assertEqual("difference was" in text, words[0] == "events" or words[-1] in ("diff", "verify", "verify-resume"), text)

    def test_help_fits_into_80_columns(self):
        for words in [(), ("checkpoint",), ("events",), *COMMANDS]:
            self.assertEqual([line for line in self.prints("help", *words).splitlines() if len(line) > 80], [])

    def test_tables_fit_into_a_terminal_of_80_columns(self):
        names = ["bias", "encoder/layer_0/attention/output/kernel", "hooksess/schedule/checkpoint_saver", "momentum/encoder/layer_0/attention/output/kernel"]
        model = {name: ("float", [64, 32], [-i / 7e5 for i in range(2048)]) for name in names}
        self.make("a", {**model, "global_step": ("int64", [], [1234567])})
        self.make("b", {**{name: (dtype, shape, values[::-1]) for name, (dtype, shape, values) in model.items()}, "words": ("string", [2], [b"a", b"b"])})
        self.write("events.out.tfevents.1795827484.a-machine-with-a-name.2264.0", version() + start(1) +
                   b"".join(scalars(step, **dict.fromkeys(names, 1)) for step in (1, 1000000)))
        (self.directory / "run").mkdir()
        for step in 999999, 1000000:
            self.save(f"run/model.ckpt-{step}", 1, 2)
        for words in ("checkpoint", "ls", "a"), ("checkpoint", "ls", "run"), ("checkpoint", "stat", "a"), ("checkpoint", "stat", "b"), \
                ("checkpoint", "diff", "a", "b"), ("events", "ls", "."), ("status", "run"):
            shown = self.terminal(*words, columns=80, status=int(words[1] == "diff"), TERM="dumb").splitlines()
            self.assertGreater(len(shown), 2)
            self.assertEqual([line for line in shown if len(line) > 80], [])

    def test_every_option_of_a_usage_is_an_option(self):
        for words in COMMANDS:
            usage = self.prints("help", *words).split("\n\n")[0]
            for option in re.findall(r"--[a-z]+", usage):
                self.assertNotIn("unrecognized", self.tool(*words, option, status=0 if words == ("abi",) else 2)[1])

    def test_help_is_printed_anywhere(self):
        text = self.prints("help", "checkpoint", "ls")
        for arguments in ("--help", "checkpoint", "ls"), ("checkpoint", "--help", "ls"), ("checkpoint", "ls", "x", "y", "--help"), \
                ("checkpoint", "ls", "--bogus", "--help"), ("checkpoint", "ls", "-h"):
            self.assertEqual(self.prints(*arguments), text)
        self.assertIn("--help.index", self.says("checkpoint", "ls", "--", "--help"))
        self.assertEqual(self.prints("verify-resume", "program", "--help"), self.prints("help", "verify-resume"))

    def test_a_command_is_needed(self):
        self.assertIn("no command given", self.says())
        self.assertIn("no command given after checkpoint", self.says("checkpoint"))

    def test_unknown_commands_are_named(self):
        self.assertIn("unknown command 'bogus'", self.says("bogus"))
        self.assertIn("unknown command 'checkpoint bogus'", self.says("checkpoint", "bogus", "x"))
        self.assertIn("unknown command 'chekpoint ls'", self.says("chekpoint", "ls", "x"))
        for word in "ls", "bogus", "statsu":
            self.assertIn(f"unknown command '{word}';", self.says(word, "run"))  # an operand
        self.assertIn("unknown command 'bogus'", self.says("help", "bogus"))
        self.assertIn("unknown command 'ls'", self.says("ls", "--help"))
        self.assertIn("unknown command ''", self.says(""))
        self.assertIn("unknown command 'checkpoint more'", self.says("help", "checkpoint", "ls", "more"))

    def test_the_most_similar_command_is_suggested(self):
        for typed, meant in ("chekpoint ls", "checkpoint ls"), ("checkpoint lst", "checkpoint ls"), ("event plt", "events plot"), \
                ("statu run", "status"), ("ls run", "checkpoint ls"), ("verify-resum", "verify-resume"), ("help outcom", "outcome"):
            self.assertIn(f"'; did you mean 'hooksess {meant}'?\n", self.says(*typed.split()))
        self.assertIn("try 'hooksess help checkpoint'\n", self.says("chekpoint"))
        self.assertIn("try 'hooksess help checkpoint'\n", self.says("checkpoint", "bogus"))
        self.assertIn("try 'hooksess help checkpoint'\n", self.says("checkpoint"))
        self.assertIn("try 'hooksess help'\n", self.says("bogus"))

    def test_the_most_similar_option_is_suggested(self):
        for words in ("checkpoint", "ls", "--jsn", "x"), ("checkpoint", "ls", "--jsn=1", "x"):
            self.assertIn("hooksess: did you mean '--json'?\n", self.says(*words))
        for words in ("checkpoint", "ls", "--bogus"), ("checkpoint", "ls", "--json=yes", "x"), ("events", "cat", "--tag"), \
                ("checkpoint", "ls", "-x"), ("checkpoint", "ls", "x", "-"):
            self.assertNotIn("did you mean", self.says(*words))

    def test_a_missing_directory_is_said_to_be_missing(self):
        self.make("m", {"a": ("float", [1], [1])})
        for words in ("checkpoint", "ls"), ("checkpoint", "stat"), ("checkpoint", "verify"), ("checkpoint", "diff", "m"), \
                ("events", "ls"), ("events", "cat"), ("events", "check"), ("events", "compact", "--delete"), \
                ("events", "plot", "loss"), ("status",), ("outcome",):
            index = ", and no checkpoint (no/run.index does not exist)" * (words[0] == "checkpoint")
            self.assertEqual(self.says(*words, "no/run"), f"hooksess: no/run: No such file or directory{index}\n")
        self.assertIn("no/run: No such file or directory, and no", self.says("checkpoint", "cat", "no/run", "x"))
        self.assertIn("no/run: No such file or directory, and no", self.says("checkpoint", "convert", "no/run", "m.safetensors"))

    def test_another_file_is_said_to_be_no_checkpoint(self):
        self.write("train.c", b"int main(void) {}")
        self.write("events.out.tfevents.1.a", version())
        self.make("m", {"a": ("float", [1], [1])})
        for words in ("checkpoint", "ls"), ("checkpoint", "verify"), ("checkpoint", "diff", "m"):
            self.assertIn("train.c: is not a checkpoint: name a prefix, ", self.says(*words, "train.c"))
        self.assertIn("is not a checkpoint, but an event file; try 'hooksess events ls'", self.says("checkpoint", "ls", "events.out.tfevents.1.a"))

    def test_unknown_options_are_named(self):
        self.assertIn("--bogus", self.says("--bogus"))
        for arguments in ("ls", "--bogus", "x"), ("ls", "x", "--bogus"), ("verify", "--steps", "x"), ("ls", "-x", "y"), \
                ("ls", "--json=yes", "x"):
            option = next(word for word in arguments if word.startswith("-")).strip("-").split("=")[0]
            said = self.says("checkpoint", *arguments)
            self.assertIn(option, said)
            self.assertIn("hooksess: try 'hooksess help checkpoint", said)

    def test_operands_are_counted(self):
        self.assertIn("ls: expected PREFIX, not 0 arguments\n", self.says("checkpoint", "ls"))
        self.assertIn("not 2 arguments", self.says("checkpoint", "ls", "a", "b"))
        self.assertIn("compact: expected DIRECTORY, not 0 arguments\n", self.says("events", "compact", "--delete"))
        self.assertIn("plot: expected TAG PATH ..., not 1 argument\n", self.says("events", "plot", "loss"))
        self.assertIn("verify-resume: expected PROGRAM ..., not 0 arguments\n", self.says("verify-resume"))
        self.assertIn("cat: expected PREFIX NAME, not 1 argument\n", self.says("checkpoint", "cat", "m"))
        self.assertIn("diff: expected A B, not 1 argument\n", self.says("checkpoint", "diff", "--json", "a"))

    def test_the_tool_may_have_another_name(self):
        os.symlink(TOOL, self.directory / "other")
        done = subprocess.run(["./other", "checkpoint", "ls", "--bogus"], cwd=self.directory, capture_output=True, timeout=TIMEOUT)
        self.assertIn(b"hooksess: unrecognized option", done.stderr)


class Output(ToolCase):
    """Lost output is an error."""

    def setUp(self):
        super().setUp()
        self.make("few", {"a": ("float", [2], [1, 2])})
        self.make("many", {f"a_rather_long_name/{i}": ("float", [2], [i, 2]) for i in range(3000)})  # more than a pipe holds

    def shell(self, script):
        done = subprocess.run(["bash", "-c", script, "bash", TOOL], cwd=self.directory, capture_output=True, timeout=TIMEOUT)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def assert_lost(self, script, why):
        status, _, said = self.shell(script)
        self.assertEqual((script, status), (script, 2))
        self.assertIn(f"hooksess: cannot write the output: {why}", said)

    def test_a_closed_standard_output(self):
        for command in "checkpoint ls few", "checkpoint ls --json few", "checkpoint verify few", "checkpoint stat few", \
                "checkpoint diff few many", "help", "--version":
            self.assert_lost(f'"$1" {command} >&-', "Bad file descriptor")

    def test_a_full_disk(self):
        for command in "checkpoint ls few", "checkpoint ls --json many", "checkpoint verify few", "checkpoint stat many", \
                "checkpoint stat --json few", "checkpoint diff few many", "checkpoint diff --json few many", "help", "--version":
            self.assert_lost(f'"$1" {command} >/dev/full', "No space left on device")

    def test_a_closed_pipe(self):
        for command in "ls", "ls --json", "stat", "stat --json":
            status, output, said = self.shell(f'"$1" checkpoint {command} many | head -1; exit ${{PIPESTATUS[0]}}')
            self.assertEqual((command, status), (command, 2))
            self.assertIn("hooksess: cannot write the output: Broken pipe", said)
            self.assertEqual(output.count("\n"), 1)

    def test_a_pipe_gets_all_output(self):
        status, output, said = self.shell('"$1" checkpoint ls many | cat; exit ${PIPESTATUS[0]}')
        self.assertEqual((status, output.count("\n"), said), (0, 3001, ""))

    def test_every_standard_file_closed(self):
        self.assertEqual(self.shell('"$1" checkpoint verify few <&- >&- 2>&-'), (2, "", ""))
        self.assertEqual(self.shell('"$1" checkpoint ls few <&- 2>&-')[:2], (0, "tensor  dtype  shape     size\na       float  [2]    8 bytes\n"))


@unittest.skipUnless(PRELOADED.exists(), "a sanitizer has its own allocator")
class Memory(ToolCase):
    """Each allocation fails in turn. The command prints all, or ends with an error that it names."""

    def run_failing(self, command, at):
        environment = {**os.environ, "LC_ALL": "C", "LD_PRELOAD": str(PRELOADED), "FAIL_AT": str(at)}
        done = run(TOOL, *command.split(), cwd=self.directory, env=environment)
        return done.returncode, done.stdout, done.stderr.replace(b"failed\n", b""), b"failed\n" in done.stderr

    def test_each_allocation_may_fail(self):
        self.make("m", {"a": ("float", [2], [1, 2]), "step": ("int64", [], [3])})
        self.make("n", {"a": ("float", [2], [1, 3])})
        self.write("events.out.tfevents.0000000001.a", version() + start(1) + scalars(1, loss=1, rate=2))
        for command in "checkpoint ls m", "checkpoint stat m", "checkpoint cat m a", "checkpoint verify m", "checkpoint diff m n", "events ls .", \
                "events cat .", "events plot loss .", "events check .":
            for option in "", " --json":
                status, expected, said, _ = self.run_failing(command + option, 0)
                self.assertEqual((status in (0, 1), said), (True, b""))
                failed, at = True, 0
                while failed:
                    at += 1
                    got, output, said, failed = self.run_failing(command + option, at)
                    if (got, output) != (status, expected):
                        self.assertEqual((command + option, at, got), (command + option, at, 2))
                        self.assertRegex(said, b"^hooksess: .*memory")
                self.assertGreater(at, 10)


if __name__ == "__main__":
    unittest.main()
