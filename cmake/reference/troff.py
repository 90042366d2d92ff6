# SPDX-License-Identifier: Apache-2.0
"""Writes man pages."""
import re
import textwrap

import markup


class Page:
    def __init__(self, title, section, date, version):
        self.lines = [f'.TH {title.upper()} {section} "{date}" "libhooksess {version}"', ".ad l", ".nh"]
        self.tables = False

    def __str__(self):
        return ("'\\\" t\n" if self.tables else "") + "\n".join(self.lines) + "\n"

    def add(self, *lines):
        if re.match(r"\.(SH|SS|TP|IP|RE)\b", lines[0]) and self.lines[-1] == ".PP":
            self.lines.pop()
        self.lines += lines

    def term(self, roff):
        """Adds the term of a .TP, which is one line: long lists of names become several terms."""
        self.add(".TP 7")
        for i, line in enumerate(markup.wrapped_at_commas(roff, 78).split("\n")):
            self.add(*([".TQ"] if i else []), line)

    def text(self, roff):
        """Adds text that is filled. No line begins with a control character."""
        lines = textwrap.wrap(roff, 78, break_long_words=False, break_on_hyphens=False)
        self.add(*("\\&" + line if line[0] in ".'" else line for line in lines))

    def heading(self, title, level=1):
        self.add(f".{'SH' if level == 1 else 'SS'} {quoted(title.upper() if level == 1 else title)}")

    def paragraph(self):
        if not re.match(r"\.(SH|SS|PP|TP|IP|RS)", self.lines[-1]):
            self.add(".PP")


def escape(text, code=False):
    text = text.replace("\\", "\\e")
    if code:
        text = text.replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha").replace("`", "\\(ga").replace("'", "\\(aq")
    return "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in text)


def quoted(text):
    return '"' + escape(text).replace('"', "\\(dq") + '"'


def filled(cells):
    """The format of a column of a table whose cells are filled."""
    words = [word for cell in cells for word in re.split(r"\s|(?<=-)", re.sub(r"\\f[BIP]|\\(?=-)", "", cell))]
    longest = max(map(len, words))
    return f"lw({longest}n)" if longest > 18 else "lx"


class Writer:
    """Writes blocks to pages. `names` maps names of the API, paths of headers and of documents to (page, section)."""

    def __init__(self, names):
        self.names = names
        self.word = re.compile(r"(?<![\w./-])(?:docs/[\w/-]+\.md|(?:\w+/)?\w+\.h(?:pp)?\b|hs_\w+|HS_\w+)(?:\.\w+)*(?:\(\))?")

    def bold_names(self, text, page):
        def mark(m):
            word = m[0]
            key = word.removesuffix("()")
            target = self.names.get(key) or self.names.get(key.split(".")[0] if key.startswith(("hs_", "HS_")) else key)
            if not target:
                return escape(word)
            name, section = target
            if key.startswith(("hs_", "HS_")):
                called = text[m.end() : m.end() + 1] == "("
                return f"\\fB{escape(key)}\\fP" + (f"({section})" if section and "." not in key and not called else "")
            return f"\\fB{name}\\fP({section})" if name != page else escape(word)

        at, parts = 0, []
        for m in self.word.finditer(text):
            parts += [escape(text[at : m.start()]), mark(m)]
            at = m.end()
        return "".join(parts) + escape(text[at:])

    def spans(self, spans, page):
        parts = []
        for span in spans:
            if span[0] == "text":
                parts.append(self.bold_names(span[1], page))
            elif span[0] == "code":
                parts.append(f"\\fB{escape(span[1], code=True)}\\fP")
            elif span[0] in ("strong", "em"):
                parts.append(f"\\fI{escape(markup.plain(span[1]))}\\fP")
            elif span[0] == "link":
                target = self.names.get(span[2].split("#")[0])
                parts.append(self.spans(span[1], page))
                if target and target[0] != page:
                    parts.append(f" (\\fB{target[0]}\\fP({target[1]}))")
                elif span[2].startswith("http") and markup.plain(span[1]) != span[2]:
                    parts.append(f" ({escape(span[2])})")
        return "".join(parts)

    def code(self, page, text):
        page.paragraph()
        page.add(".RS 4", ".nf")
        page.add(*("\\&" + line if line[:1] in ".'" else line for line in escape(text, code=True).split("\n")))
        page.add(".fi", ".RE")

    def table(self, page, block, name):
        rows = ([block.head] if block.head else []) + block.rows
        if len(rows[0]) == 2:  # short names with long texts: no grid
            for i, (term, body) in enumerate(rows):
                head = block.head and i == 0
                term, body = self.spans(term, name), self.spans(body, name)
                if head:
                    term, body = (f"\\fI{re.sub(r'.f[BIP]', '', cell)}\\fP" for cell in (term, body))
                page.term(term if head or "\\fB" in term else f"\\fB{term}\\fP")
                page.text(body or "\\&")
            page.add(".PP")
            return
        page.tables = True
        page.paragraph()
        # A first column of short cells is as wide as they are. A filled column with a long word is as wide as the word, because
        # a third of a terminal is too narrow for it. All others share the rest.
        cells = [[self.spans(cell, name) or "\\&" for cell in row] for row in rows]
        short = max(len(markup.plain(row[0])) for row in rows) <= 30
        columns = ["l" if short else filled([row[0] for row in cells]), *(filled(column) for column in list(zip(*cells))[1:])]
        page.add(".TS", "nokeep;")  # a row may stand on two pages
        if block.head:
            page.add(" ".join(column.replace("l", "lb", 1) for column in columns))
        page.add(" ".join(columns) + ".")
        for first, *rest in cells:
            if short:
                page.add(("\\&" if first[0] in ".'" else "") + first + "\tT{")
            else:
                page.add("T{")
                page.text(first)
                page.add("T}\tT{")
            for i, cell in enumerate(rest):
                if i:
                    page.add("T}\tT{")
                page.text(cell)
            page.add("T}")
        page.add(".TE", ".PP")

    def blocks(self, page, blocks, name):
        for block in blocks:
            if isinstance(block, markup.Paragraph):
                page.paragraph()
                page.text(self.spans(block.spans, name))
            elif isinstance(block, markup.Code):
                self.code(page, block.text)
            elif isinstance(block, markup.Heading):
                if block.level > 1:
                    page.heading(markup.plain(block.spans), block.level - 1)
            elif isinstance(block, markup.Items):
                for i, item in enumerate(block.items):
                    page.add(f'.IP "{i + 1}." 4' if block.numbered else ".IP \\(bu 2")
                    first, *rest = item
                    page.text(self.spans(first.spans, name))
                    if rest:
                        page.add(".RS")
                        self.blocks(page, rest, name)
                        page.add(".RE")
                page.add(".PP")
            elif isinstance(block, markup.Table):
                self.table(page, block, name)
        while page.lines[-1] == ".PP":
            page.lines.pop()


def wrapped(declaration):
    return declaration if "\n" in declaration else markup.wrapped_at_commas(declaration, 76, "    ")


def bold_lines(page, text):
    page.add(".nf")
    page.add(*(f"\\fB{escape(line, code=True)}\\fP" if line.strip() else "" for line in text.split("\n")))
    page.add(".fi")


def library(header):
    if header.path.startswith("tensorflow"):
        return "hooksess_tensorflow", "hooksess::tensorflow"
    if header.path == "mpi.h":
        return "hooksess_mpi", "hooksess::mpi"
    if header.path == "cuda.h":
        return "hooksess_cuda", "hooksess::cuda"
    if header.path.startswith("tf1/"):
        return "hooksess_tf1", "hooksess::tf1"
    if header.path == "testing.h":
        return "hooksess_testing", "hooksess::testing"
    return "hooksess", "hooksess::hooksess"


def header_page(writer, header, date, version):
    name = header.page
    page = Page(name, 3, date, version)
    page.heading("NAME")
    page.text(f"{escape(name)} \\- {escape(header.summary)}")
    page.heading("SYNOPSIS")
    bold_lines(page, f"#include <hooksess/{header.path}>")
    functions = [d for d in header.declarations() if d.kind == "function" and "\n" not in d.text]
    if functions:
        page.add(".PP")
        bold_lines(page, "\n".join(wrapped(d.text) for d in functions))
    page.add(".PP")
    link, target = library(header)
    page.text(f"Link with \\fB\\-l{link}\\fP (pkg\\-config: \\fB{link}\\fP; CMake: \\fB{target}\\fP).")
    page.heading("DESCRIPTION")
    writer.blocks(page, header.blocks, name)
    for entry in header.entries:
        if entry.title:
            page.heading(entry.title, 2)
        if entry.declarations:
            page.paragraph()
            bold_lines(page, "\n".join(wrapped(d.text) for d in entry.declarations))
        described = [m for d in entry.declarations for m in d.members if m.blocks]
        inside = entry.declarations and (entry.blocks or described)
        if inside:
            page.add(".RS 4")
        writer.blocks(page, entry.blocks, name)
        for member in described:
            page.term(f"\\fB{escape(member.text, code=True)}\\fP")
            if isinstance(member.blocks[0], markup.Paragraph):
                page.text(writer.spans(member.blocks[0].spans, name))
                rest = member.blocks[1:]
            else:
                rest = member.blocks
            if rest:
                page.add(".RS")
                writer.blocks(page, rest, name)
                page.add(".RE")
        if inside:
            page.add(".RE")
    page.heading("SEE ALSO")
    others = sorted({target for key, target in writer.names.items() if target[1] == 3 and target[0] != name and mentions(header, key)})
    page.text(", ".join(f"\\fB{escape(n)}\\fP({s})" for n, s in others + [("hooksess", 7), ("hooksess-conventions", 7)]))
    return str(page)


def mentions(header, key):
    """True if the comment of the header itself names another header."""
    return key.endswith((".h", ".hpp")) and any(
        re.search(rf"(?<![\w/]){re.escape(key)}", markup.plain(block.spans)) for block in header.blocks if isinstance(block, markup.Paragraph))


def tool_page(writer, tool, date, version):
    page = Page("hooksess", 1, date, version)
    page.heading("NAME")
    page.text(f"hooksess \\- {escape(tool.about[0].lower() + tool.about[1:].rstrip('.'))}")
    page.heading("SYNOPSIS")
    for command in tool.commands:
        page.text(f"\\fBhooksess {escape(command.words, code=True)}\\fP {escape(command.synopsis, code=True)}")
        page.add(".br")
    page.text("\\fBhooksess help\\fP [COMMAND]")
    page.add(".br", "\\fBhooksess \\-\\-version\\fP")
    page.heading("DESCRIPTION")
    page.text(escape(tool.about))
    for note in tool.notes:
        page.add(".PP")
        page.text(escape(note))
    page.heading("COMMANDS")
    for command in tool.commands:
        page.heading(f"{command.words} {command.synopsis}", 2)
        writer.blocks(page, command.blocks, "hooksess")
    page.heading("EXIT STATUS")
    for status, meaning in tool.statuses:
        page.term(f"\\fB{status}\\fP")
        page.text(escape(meaning[0].upper() + meaning[1:] + "."))
    page.heading("SEE ALSO")
    page.add("\\fBhooksess\\fP(3), \\fBhooksess\\fP(7)")
    return str(page)


def document_page(writer, name, blocks, summary, date, version):
    page = Page(name, 7, date, version)
    page.heading("NAME")
    page.text(f"{escape(name)} \\- {escape(summary)}")
    page.heading("SYNOPSIS")
    bold_lines(page, "#include <hooksess/hooksess.h>")
    page.heading("DESCRIPTION")
    writer.blocks(page, blocks, name)
    page.heading("SEE ALSO")
    page.add("\\fBhooksess\\fP(1), \\fBhooksess\\fP(3), " + ("\\fBhooksess\\-conventions\\fP(7)" if name == "hooksess" else "\\fBhooksess\\fP(7)"))
    return str(page)
