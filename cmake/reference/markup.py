# SPDX-License-Identifier: Apache-2.0
"""Parses text into blocks: comments of headers, help texts of the tool, and a subset of Markdown.

A block is one of the classes below. Text in a block is a list of spans, which are tuples:

    ("text", text) ("code", text) ("strong", spans) ("em", spans) ("link", spans, target) ("image", alt, target)
"""
import collections
import dataclasses
import re


@dataclasses.dataclass
class Paragraph:
    spans: list


@dataclasses.dataclass
class Code:
    text: str
    language: str = "c"


@dataclasses.dataclass
class Table:
    head: list  # cells, which are spans; empty: no head
    rows: list


@dataclasses.dataclass
class Items:
    numbered: bool
    items: list  # lists of blocks


@dataclasses.dataclass
class Heading:
    level: int
    spans: list
    ident: str


@dataclasses.dataclass
class Html:
    text: str


def plain(spans):
    """Returns the text of spans without markup."""
    return "".join(plain(span[1]) if isinstance(span[1], list) else span[1] for span in spans)


def wrapped_at_commas(text, width, indent=""):
    """The text in lines of at most `width` characters that end with commas, unless a part is longer."""
    lines = []
    for part in re.split(r"(?<=,) ", text):
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += " " + part
        else:
            lines.append((indent if lines else "") + part)
    return "\n".join(lines)


def comment_spans(text):
    """Spans of a comment: only backticks are markup."""
    text = " ".join(text.split())
    return [("code" if i % 2 else "text", part) for i, part in enumerate(re.split(r"`([^`]+)`", text)) if part]


# Comments. The form of a line depends on its indentation:
#
#   0   paragraphs; "name   text" is a row of a table of parameters
#   2   "1. text" and "- text" are items; all else is a row of a table, whose columns are two spaces apart
#   4   code


def indent(line):
    return len(line) - len(line.lstrip())


def column_starts(lines):
    """The columns of a table: where cells begin in several rows. Cells are two spaces apart, or one if a cell is full."""
    starts = collections.Counter(m.end() for line in lines for m in re.finditer(r"\S {2,}(?=\S)|^ +(?=\S)", line))
    first = min(indent(line) for line in lines)
    found = [first]
    head = [m.end() for m in re.finditer(r"\S {2,}(?=\S)", lines[0])]
    for start in sorted(starts):
        if start > first and (start in head or starts[start] > 1):
            if all(len(line) <= start or line[start - 1] == " " or "  " not in line.strip() for line in lines):
                found.append(start)
    return found


def table(lines):
    """Returns the rows of a table, or None if the lines are not one."""
    first = min(indent(line) for line in lines)
    starts = column_starts(lines)
    if len(starts) < 2:
        return None
    rows = []
    for line in lines:
        cells = [line[a:b].strip() for a, b in zip(starts, starts[1:] + [None])]
        if line[starts[1] - 1 : starts[1]].strip():  # one long cell
            cells = [line.strip()] + [""] * (len(starts) - 1)
        continues = rows and rows[-1][0].endswith(",") and not cells[1]
        if (indent(line) == first and not continues) or not rows or (len(cells) > 2 and re.fullmatch(r"HS_\w+", cells[1])):
            rows.append(cells)
        else:
            rows[-1] = [(old + " " + new).strip() for old, new in zip(rows[-1], cells)]
    return rows


def is_head(rows):
    """True if the first row names the columns: a few plain words, without names of the API and punctuation."""
    first, second, *others = rows[0]
    words = re.compile(r"[A-Za-z][A-Za-z' ]*")
    return (
        len(rows) > 2
        and (not first or words.fullmatch(first))
        and all(words.fullmatch(cell) for cell in others + [second.replace(",", "") if not first else second])
        and len(second.split()) <= 4
        and not second.isupper()
    )


def make_table(rows, may_have_head):
    cells = [[comment_spans(cell) for cell in row] for row in rows]
    return Table(cells[0], cells[1:]) if may_have_head and is_head(rows) else Table([], cells)


ITEM_OF_COMMENT = re.compile(r" *(\d+\.|-) +(?=\S)")


def items(lines):
    marker = ITEM_OF_COMMENT
    found = []
    for line in lines:
        if indent(line) == indent(lines[0]) and marker.match(line):
            found.append([marker.sub("", line, count=1)])
        else:
            found[-1].append(line)
    return Items(lines[0].strip()[0] != "-", [[Paragraph(comment_spans(" ".join(item)))] for item in found])


def comment_chunk(lines):
    """The blocks of lines without an empty line between them."""
    first = min(indent(line) for line in lines)
    if first >= 4:
        return [Code("\n".join(line[4:] for line in lines))]
    if re.match(ITEM_OF_COMMENT, lines[0]):
        start = indent(lines[0])
        end = next((i for i, line in enumerate(lines) if indent(line) <= start and not ITEM_OF_COMMENT.match(line)), len(lines))
        return [items(lines[:end])] + (comment_chunk(lines[end:]) if end < len(lines) else [])
    if first == 2 or (first == 0 and re.match(r"\S+( \S+)* {2,}\S", lines[0])):
        rows = table(lines)
        if rows:
            return [make_table(rows, first == 2)]
    if first == 2:
        return [Code("\n".join(line[2:] for line in lines), "text")]
    for i, line in enumerate(lines):
        if i and ((indent(line) >= 2) != (indent(lines[0]) >= 2) or re.match(ITEM_OF_COMMENT, line)):
            return comment_chunk(lines[:i]) + comment_chunk(lines[i:])
    return [Paragraph(comment_spans(" ".join(lines)))]


def comment_blocks(text):
    blocks = []
    for chunk in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        for block in comment_chunk(chunk.rstrip().split("\n")) if chunk.strip() else ():
            if isinstance(block, Code) and blocks and isinstance(blocks[-1], Code):
                blocks[-1].text += "\n\n" + block.text
            else:
                blocks.append(block)
    return blocks


# Markdown: headings, paragraphs, fenced and indented code, tables, nested lists, quotes, links, images, emphasis. A line that
# begins with a tag passes through to HTML; comments are dropped.

INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)(?!`)"
    r"|!\[(?P<alt>[^\]]*)\]\((?P<image>[^)\s]+)\)"
    r"|\[(?P<text>(?:!\[[^\]]*\]\([^)]*\)|[^\]])+)\]\((?P<target>[^)\s]+)\)"
    r"|<(?P<url>https?://[^>]+)>"
    r"|(?P<bare>https?://[^\s<>)`]*[\w/])"
    r"|\*\*(?P<strong>.+?)\*\*"
    r"|(?<![\w*])\*(?P<em>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|\\(?P<escaped>[\\`*_{}\[\]()#+.!|<>-])"
    r"|<!--.*?-->",
    re.S,
)


def markdown_spans(text):
    text = re.sub(r"\s*\n\s*", " ", text.strip())
    spans, at = [], 0
    for m in INLINE.finditer(text):
        if m.start() > at:
            spans.append(("text", text[at : m.start()]))
        at = m.end()
        if m["ticks"]:
            spans.append(("code", m["code"].strip()))
        elif m["image"]:
            spans.append(("image", m["alt"], m["image"]))
        elif m["target"]:
            spans.append(("link", markdown_spans(m["text"]), m["target"]))
        elif m["url"] or m["bare"]:
            spans.append(("link", [("text", m["url"] or m["bare"])], m["url"] or m["bare"]))
        elif m["strong"]:
            spans.append(("strong", markdown_spans(m["strong"])))
        elif m["em"]:
            spans.append(("em", markdown_spans(m["em"])))
        elif m["escaped"]:
            spans.append(("text", m["escaped"]))
    if at < len(text):
        spans.append(("text", text[at:]))
    return spans


def slug(text, used):
    """The anchor of a heading, as code hosts make it."""
    ident = re.sub(r"[^\w -]", "", text.lower()).strip().replace(" ", "-")
    n = used[ident]
    used[ident] += 1
    return f"{ident}-{n}" if n else ident


def cells(line):
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


ITEM = re.compile(r"( {0,3})([-*+]|\d+[.)])( +)(?=\S)")


def markdown_list(lines, used):
    """Parses the list at the beginning of the lines. Returns it and the number of its lines."""
    numbered, found, at = ITEM.match(lines[0])[2][0].isdigit(), [], 0
    while at < len(lines):
        m = ITEM.match(lines[at])
        if not m:
            break
        width, item = m.end(), [lines[at][m.end() :]]
        at += 1
        while at < len(lines):
            line = lines[at]
            continues = bool(line.strip()) and bool(item[-1].strip()) and not ITEM.match(line)  # a line that is not indented
            if not line.strip() and not any(rest.strip() and indent(rest) >= 2 for rest in lines[at + 1 : at + 2]):
                break
            if line.strip() and indent(line) < min(width, 2) and not continues:
                break
            item.append(line[min(indent(line), width) :])
            at += 1
        found.append(markdown_blocks("\n".join(item), used))
        while at < len(lines) and not lines[at].strip() and any(ITEM.match(rest) for rest in lines[at + 1 : at + 2]):
            at += 1
    return Items(numbered, found), at


def markdown_blocks(text, used=None):
    used = collections.Counter() if used is None else used
    lines, at, blocks = re.sub(r"^<!--.*?-->[ \t]*\n?", "", text, flags=re.S | re.M).split("\n"), 0, []
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif m := re.match(r"(`{3,}|~{3,})\s*([\w+-]*)", line):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == m[1]), len(lines))
            blocks.append(Code("\n".join(lines[at + 1 : end]), m[2] or "text"))
            at = end + 1
        elif m := re.match(r"(#{1,6}) +(.*?)[ #]*$", line):
            spans = markdown_spans(m[2])
            blocks.append(Heading(len(m[1]), spans, slug(plain(spans), used)))
            at += 1
        elif line.lstrip().startswith("|") and at + 1 < len(lines) and re.match(r"\s*\|?[ :|-]*---?[ :|-]*$", lines[at + 1]):
            head, at, rows = cells(line), at + 2, []
            while at < len(lines) and lines[at].lstrip().startswith("|"):
                rows.append([markdown_spans(cell) for cell in cells(lines[at])])
                at += 1
            blocks.append(Table([markdown_spans(cell) for cell in head] if any(head) else [], rows))
        elif ITEM.match(line):
            block, length = markdown_list(lines[at:], used)
            blocks.append(block)
            at += length
        elif indent(line) >= 4:
            end = at
            while end < len(lines) and (indent(lines[end]) >= 4 or not lines[end].strip()):
                end += 1
            blocks.append(Code("\n".join(rest[4:] for rest in lines[at:end]).rstrip("\n"), "text"))
            at = end
        elif re.match(r"</?[a-z]", line):
            end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
            blocks.append(Html("\n".join(lines[at:end])))
            at = end
        else:
            end = at + 1
            while end < len(lines) and lines[end].strip() and not re.match(r"(```|#{1,6} |\||<[a-z])", lines[end]) and not ITEM.match(lines[end]):
                end += 1
            text = " ".join(re.sub(r"^> ?", "", rest) for rest in lines[at:end])
            blocks.append(Paragraph(markdown_spans(text)))
            at = end
    return blocks
