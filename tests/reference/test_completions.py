# SPDX-License-Identifier: Apache-2.0
"""test_completions.py BUILD: the completions of the built command, in bash and in zsh."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TOOL = BUILD / "src/tool/hooksess"
PATIENCE = 60


def tool_help(*words):
    return subprocess.run([TOOL, "help", *words], check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def commands():
    """As `hooksess help` lists them: ("checkpoint", "ls"), ..., ("verify-resume",)."""
    found = [tuple(words.split()) for words in re.findall(r"^  ([a-z][a-z-]*(?: [a-z][a-z-]*)?) ", tool_help(), re.M)]
    return [words for words in found if words != ("help",)]


def options(words):
    usage = tool_help(*words).split("\n\n")[0]
    return set(re.findall(r"--[a-z][a-z-]*", usage)) | {"--help"}


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)
        (self.path / "run").mkdir()
        for name in ("run/model.ckpt-7.index", "run/model.ckpt-7.data-00000-of-00001", "run/events.out", "weights.safetensors"):
            (self.path / name).write_text("")


class Bash(Case):
    def complete(self, *words):
        """The completions of the last word."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hooksess; '
                  '[[ ${#COMPREPLY[@]} == 0 ]] || printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", BUILD / "completions/hooksess", "hooksess", *words], cwd=self.path,
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return set(done.stdout.split())

    def test_the_first_word_is_completed_with_every_command(self):
        self.assertEqual(self.complete(""), {words[0] for words in commands()} | {"help", "--help", "--version"})
        self.assertEqual(self.complete("ver"), {"verify-resume"})

    def test_the_second_word_is_completed_with_the_commands_of_the_group(self):
        for group in {words[0] for words in commands() if len(words) == 2}:
            expected = {words[1] for words in commands() if words[0] == group}
            self.assertEqual(self.complete(group, ""), expected)
            self.assertEqual(self.complete("help", group, ""), expected)

    def test_options_are_those_of_the_command(self):
        for words in commands():
            self.assertEqual(self.complete(*words, "--"), options(words), words)

    def test_a_prefix_is_completed_without_the_ending_of_its_index(self):
        self.assertEqual(self.complete("checkpoint", "ls", "run/m"), {"run/model.ckpt-7"})
        self.assertEqual(self.complete("checkpoint", "ls", "--json", "r"), {"run"})

    def test_files_and_directories_are_completed(self):
        self.assertEqual(self.complete("checkpoint", "convert", "w"), {"weights.safetensors"})
        self.assertEqual(self.complete("events", "compact", ""), {"run"})
        self.assertEqual(self.complete("events", "compact", "--output", "w"), {"weights.safetensors"})
        self.assertEqual(self.complete("verify-resume", "--keep", ""), {"run"})

    def test_values_that_are_not_files_are_not_completed(self):
        self.assertEqual(self.complete("events", "cat", "--from", ""), set())


@unittest.skipUnless(shutil.which("zsh"), "needs zsh")
class Zsh(Case):
    def shows(self, typed, *expected):
        """Types a line and the tab key, until the terminal shows all of `expected`."""
        functions = self.path / "functions"
        functions.mkdir(exist_ok=True)
        shutil.copy(BUILD / "completions/_hooksess", functions)
        (self.path / ".zshrc").write_text(
            f"PROMPT='ready> '\nfpath=({functions} $fpath)\nautoload -Uz compinit\ncompinit -u -D\nunsetopt list_ambiguous\n"
            "setopt no_beep auto_list\nbindkey '^I' complete-word\nLISTMAX=1000\ncd $ZDOTDIR\n")
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(ZDOTDIR=str(self.path), TERM="dumb", COLUMNS="200", LINES="60")
            os.execvp("zsh", ["zsh", "-d", "-i"])
        try:
            self.read(terminal, "ready> ")
            os.write(terminal, b"stty columns 200 rows 60; PROMPT='set> '\n")
            self.read(terminal, "\nset> ")
            os.write(terminal, typed.encode() + b"\t")
            self.read(terminal, *expected)
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
            os.close(terminal)

    def read(self, terminal, *expected):
        text, until = "", time.monotonic() + PATIENCE
        while not all(words in text for words in expected):
            ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
            self.assertTrue(ready, f"{expected} in:\n{text}")
            text += os.read(terminal, 65536).decode(errors="replace").replace("\r", "\n")

    def test_the_first_word_is_completed_with_every_command(self):
        self.shows("hooksess ", *{words[0] for words in commands()}, "help")

    def test_the_second_word_is_completed_with_the_commands_of_the_group(self):
        for group in {words[0] for words in commands() if len(words) == 2}:
            self.shows(f"hooksess {group} ", *(f"\n{words[1]} " for words in commands() if words[0] == group))

    def test_options_are_those_of_the_command(self):
        for words in commands():
            self.shows(f"hooksess {' '.join(words)} --", *options(words))

    def test_a_prefix_is_completed_without_the_ending_of_its_index(self):
        self.shows("hooksess checkpoint ls run/model.ckpt-7.d", "run/model.ckpt-7.data-00000-of-00001 ")
        self.shows("hooksess checkpoint ls run/model", "\nrun/model.ckpt-7\n")

    def test_values_are_completed(self):
        self.shows("hooksess events compact --output wei", "weights.safetensors")
        self.shows("hooksess verify-resume --keep r", "run/")


if __name__ == "__main__":
    unittest.main()
