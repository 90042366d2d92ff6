#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python3 cmake/reference man|html|completions|abi OUTPUT [--tool COMMAND]: writes the man pages, the reference as HTML, shell completions,
or the declarations for `hooksess abi`.

The text comes from the headers, the pages of docs/ and the help texts of the command. Without --tool, the page of the
command is left out. OUTPUT is removed first.
"""
import argparse
import datetime
import os
import pathlib
import re
import shutil
import sys

import abi
import complete
import headers
import markup
import tool
import troff
import web

ROOT = pathlib.Path(__file__).resolve().parents[2]


def introduction():
    """The first paragraph of README.md."""
    return next(block for block in markup.markdown_blocks((ROOT / "README.md").read_text())
                if isinstance(block, markup.Paragraph) and len(markup.plain(block.spans)) > 60)


def first_program():
    return markup.Code((ROOT / "examples/first_program/first_program.c").read_text())


def version():
    return re.search(r'HS_VERSION_STRING "(.*?)"', (ROOT / "include/hooksess/version.h").read_text())[1]


def date():
    """Of this build, or of SOURCE_DATE_EPOCH, so that builds can be reproduced."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    day = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else datetime.datetime.now()
    return day.strftime("%Y-%m-%d")


def write_man(output, found, command):
    names = {"docs/conventions.md": ("hooksess-conventions", 7), "conventions.md": ("hooksess-conventions", 7)}
    for header in found:
        names[header.path] = (header.page, 3)
        for d in header.declarations():
            if d.name:
                names[d.name] = (d.name, 3)
            names.update((m.names[0], (m.names[0], 0)) for m in d.members if d.kind == "enum")
    writer = troff.Writer(names)
    pages = {}
    for header in found:
        pages[f"man3/{header.page}.3"] = troff.header_page(writer, header, date(), version())
    for header in found:
        for d in header.declarations():
            if re.fullmatch(r"hs_\w+|HS_\w+", d.name):
                pages.setdefault(f"man3/{d.name}.3", f".so man3/{header.page}.3\n")
    if command:
        pages["man1/hooksess.1"] = troff.tool_page(writer, command, date(), version())
    umbrella = next(header for header in found if header.path == "hooksess.h")
    words = [entry for entry in umbrella.entries if entry.title.startswith("Words")]
    overview = [introduction(), markup.Heading(2, [("text", "A program")], ""), first_program(),
                markup.Heading(2, [("text", "Headers")], ""),
                markup.Table([], [[[("text", header.path)], [("text", header.summary)]] for header in found])]
    for entry in words:
        overview += [markup.Heading(2, [("text", entry.title)], ""), *entry.blocks]
    pages["man7/hooksess.7"] = troff.document_page(writer, "hooksess", overview, "library for hooked training sessions", date(), version())
    conventions = markup.markdown_blocks((ROOT / "docs/conventions.md").read_text())
    pages["man7/hooksess-conventions.7"] = troff.document_page(
        writer, "hooksess-conventions", conventions, "rules that hold in all headers of libhooksess", date(), version())
    for path, text in pages.items():
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        (output / path).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("man", "html", "completions", "abi"))
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--tool", help="the command `hooksess`, which prints its help texts")
    options = parser.parse_args()
    command = tool.read(options.tool) if options.tool else None
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    if options.what == "completions":
        if not command:
            sys.exit("completions need --tool")
        (options.output / "hooksess").write_text(complete.bash(command))
        (options.output / "_hooksess").write_text(complete.zsh(command))
        return
    found = headers.parse(ROOT / "include/hooksess")
    if options.what == "abi":
        abi.write(options.output / "abi.inc", found)
    elif options.what == "man":
        write_man(options.output, found, command)
    else:
        web.write(options.output, ROOT, found, command, version())


main()
