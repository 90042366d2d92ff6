# SPDX-License-Identifier: Apache-2.0
"""Reads the help texts of the command `hooksess`, by running it."""
import dataclasses
import re
import subprocess

import markup


@dataclasses.dataclass
class Command:
    words: str  # "checkpoint ls"
    synopsis: str  # "[--json] PREFIX"
    summary: str
    blocks: list

    @property
    def options(self):
        """Pairs of a name and its value: ("--tag", "TAG"), ("--json", "")."""
        return re.findall(r"(--[a-z][a-z-]*)(?:[ =]([A-Z]+))?", self.synopsis)

    @property
    def operands(self):
        rest = re.sub(r"--[a-z][a-z-]*[ =][A-Z]+", "", self.synopsis)
        return re.findall(r"\b[A-Z]+\b", rest)


@dataclasses.dataclass
class Tool:
    about: str
    commands: list
    notes: list  # paragraphs of the list of commands, which the help of some commands repeats
    statuses: list  # pairs of an exit status and its meaning


def read(path):
    def run(*words):
        return subprocess.run([path, "help", *words], check=True, capture_output=True, text=True, timeout=60).stdout

    _, about, listing, *notes, exit_status = run().strip("\n").split("\n\n")
    found = []
    for line in listing.split("\n"):
        words = re.match(r"  ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?) ", line)
        if not words or words[1] == "help":
            continue
        usage, text = run(*words[1].split()).split("\n\n", 1)
        paragraphs = [paragraph for paragraph in text.strip("\n").split("\n\n") if paragraph not in (*notes, exit_status)]
        synopsis = " ".join(usage.removeprefix(f"usage: hooksess {words[1]}").split())
        found.append(Command(words[1], synopsis, re.split(r" {2,}", line.strip())[-1], markup.comment_blocks("\n\n".join(paragraphs))))
    statuses = re.findall(r"(\d+): ([^.]+)\.", " ".join(exit_status.split()))
    if not found or not statuses:
        raise ValueError(f"{path} help: no commands, or no exit status")
    return Tool(" ".join(about.split()), found, [" ".join(note.split()) for note in notes], statuses)
