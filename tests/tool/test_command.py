# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import unittest

from event_files import scalars, start, version
from support import BUILD, SOURCE, TIMEOUT, TOOL, ToolCase, run

COMMANDS = [("checkpoint", "ls"), ("checkpoint", "stat"), ("checkpoint", "verify"), ("checkpoint", "diff"),
            ("checkpoint", "convert"), ("events", "ls"), ("events", "cat"), ("events", "check"), ("events", "compact"),
            ("events", "plot"), ("status",), ("outcome",), ("verify-resume",)]


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
        self.assertIn("  checkpoint ls [--json] PREFIX  ", self.prints("help", "checkpoint"))

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
        self.assertIn("unknown command 'bogus'", self.says("help", "bogus"))
        self.assertIn("unknown command 'ls'", self.says("ls", "--help"))
        self.assertIn("unknown command ''", self.says(""))
        self.assertIn("unknown command 'checkpoint more'", self.says("help", "checkpoint", "ls", "more"))

    def test_unknown_options_are_named(self):
        self.assertIn("--bogus", self.says("--bogus"))
        for arguments in ("ls", "--bogus", "x"), ("ls", "x", "--bogus"), ("verify", "--steps", "x"), ("ls", "-x", "y"), \
                ("ls", "--json=yes", "x"):
            option = next(word for word in arguments if word.startswith("-")).strip("-").split("=")[0]
            said = self.says("checkpoint", *arguments)
            self.assertIn(option, said)
            self.assertIn("hooksess: try 'hooksess help checkpoint", said)

    def test_operands_are_counted(self):
        self.assertIn("ls: expected [--json] PREFIX, not 0 arguments", self.says("checkpoint", "ls"))
        self.assertIn("not 2 arguments", self.says("checkpoint", "ls", "a", "b"))
        self.assertIn("diff: expected [--json] A B, not 1 arg", self.says("checkpoint", "diff", "--json", "a"))

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
        self.assertEqual((status, output.count("\n"), said), (0, 3000, ""))

    def test_every_standard_file_closed(self):
        self.assertEqual(self.shell('"$1" checkpoint verify few <&- >&- 2>&-'), (2, "", ""))
        self.assertEqual(self.shell('"$1" checkpoint ls few <&- 2>&-')[:2], (0, "a  float  [2]  8\n"))


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
        for command in "checkpoint ls m", "checkpoint stat m", "checkpoint verify m", "checkpoint diff m n", "events ls .", \
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
