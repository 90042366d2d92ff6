# SPDX-License-Identifier: Apache-2.0
"""Parses the public headers: comments and declarations.

The first comment of a header describes the header. A comment directly above a declaration describes it and the declarations
that follow without an empty line. A comment with an empty line after it is a section: a title if it is short, and text. In a
struct or an enum, a comment describes the member below it, or the member before it on the same line. What begins with hs__ or
HS__ is internal and is left out. Of conditional code, the branch for C and GCC is read.
"""
import dataclasses
import re

import markup


@dataclasses.dataclass
class Member:
    text: str  # "int64_t last_step", or "HS_OK = 0"
    names: list
    blocks: list


@dataclasses.dataclass
class Declaration:
    kind: str  # function, macro, struct, union, enum, type, class
    name: str  # "" for an enum without a name
    text: str  # without comments
    members: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Entry:
    """Declarations with their comment, or a section (without declarations)."""

    blocks: list
    declarations: list
    title: str = ""


@dataclasses.dataclass
class Header:
    path: str  # "hooks/stop_at_step.h"
    blocks: list
    entries: list
    summary: str = ""

    @property
    def page(self):
        stem = self.path[:-2].replace("/", "-") if self.path.endswith(".h") else self.path
        return stem if self.path in ("hooksess.h", "hooksess.hpp") else "hooksess-" + stem

    def declarations(self):
        return [d for entry in self.entries for d in entry.declarations]


TAKEN = re.compile(r"#\s*(ifndef \w+_H(PP)?$|ifdef (__GNUC__|MPI_VERSION)$|if defined\(__GNUC__\))")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


def taken_lines(text):
    """The text without branches of the preprocessor that are not taken."""
    stack, kept = [], []
    for line in text.split("\n"):
        if re.match(r"#\s*if", line):
            stack.append(bool(TAKEN.match(line)))
        elif re.match(r"#\s*else", line):
            stack[-1] = not stack[-1]
        elif re.match(r"#\s*endif", line):
            stack.pop()
        elif all(stack):
            kept.append("" if line in ("HS_BEGIN_DECLS", "HS_END_DECLS") else line)
    return "\n".join(kept)


def comment_text(comment):
    """The text of /* ... */, without the asterisks at the beginning of lines."""
    first, *others = comment[2:-2].split("\n")
    return "\n".join([first.removeprefix(" ").rstrip()] + [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in others])


def without_comments(text):
    text = COMMENT.sub("", text)
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())


def end_of(text, at, stop):
    """The position after the next character of `stop` that is not in parentheses, braces or a comment."""
    depth = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        if text[at] == '"':
            at = re.compile(r'"(?:\\.|[^"\\])*"').match(text, at).end()
            continue
        if depth == 0 and text[at] in stop:
            return at + 1
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(text[at], 0)
        at += 1
    return len(text)


def pieces(text, stop):
    """Yields (kind, text, gap): comments, directives and declarations, and the white space in front of each."""
    at = 0
    while True:
        gap = re.compile(r"\s*").match(text, at)
        at = gap.end()
        if at == len(text):
            return
        if text.startswith("/*", at):
            end, kind = text.index("*/", at) + 2, "comment"
        elif text[at] == "#":
            end, kind = re.compile(r"(?:\\\n|(?!/\*).)*").match(text, at).end(), "directive"
        else:
            end, kind = end_of(text, at, stop), "code"
        yield kind, text[at:end].strip(), gap[0]
        at = end


def members(body, stop, name_of):
    found, pending = [], None
    for kind, text, gap in pieces(body, stop):
        if kind == "comment":
            blocks = markup.comment_blocks(comment_text(text))
            if found and "\n" not in gap:
                found[-1].blocks = blocks
            else:
                pending = blocks
        elif kind == "code":
            anonymous = re.match(r"(?:union|struct) \{(.*)\};$", text, re.S)
            if anonymous:
                found.extend(members(anonymous[1], stop, name_of))
                found[-1].blocks = found[-1].blocks or pending or []
                pending = None
                continue
            inside = COMMENT.search(text)  # of the last constant, which no comma follows
            if inside and not pending:
                pending, gap = markup.comment_blocks(comment_text(inside[0])), ""
            text = without_comments(text).rstrip(stop).strip()
            text = re.sub(r"\s+", " ", text)
            if text:
                found.append(Member(text, name_of(text), (pending if "\n\n" not in gap else None) or []))
            pending = None
    return found


def field_names(text):
    pointer = re.search(r"\(\*(\w+)\)\(", text)
    if pointer:
        return [pointer[1]]
    names = [re.search(r"(\w+)(?:\[[^\]]*\])*$", part.strip()) for part in text.split(",")]
    if None in names:
        raise ValueError(f"cannot parse the field '{text}'")
    return [name[1] for name in names]


def declaration(text):
    """Returns None for a struct of other code."""
    code = without_comments(text)
    if m := re.match(r"(?:typedef )?(struct|union|enum)\s*(\w*) \{(.*)\}\s*(\w*);$", text, re.S):
        name = m[4] or m[2]
        inside = members(m[3], ",", lambda c: [c.split("=")[0].strip()]) if m[1] == "enum" else members(m[3], ";", field_names)
        return Declaration(m[1], name, code, inside)
    if code.startswith("typedef"):
        m = re.search(r"\(\*(\w+)\)\(", code) or re.search(r"(\w+);$", code)
        return Declaration("type", m[1], code)
    if m := re.match(r"HS_API\s+(.*?\b(hs_\w+)\(.*)", code, re.S):
        return Declaration("function", m[2], re.sub(r"\s+", " ", re.sub(r"\s*HS_PRINTF\([^)]*\)", "", m[1])))
    if re.match(r"struct \w+;$", code):
        return None
    raise ValueError(f"cannot parse '{code}'")


def macro(text):
    """Returns None if it is internal. A body that uses internal macros is left out."""
    text = re.sub(r"\s*\\\n\s*", " ", text)
    m = re.match(r"#define ((\w+)(?:\([^)]*\))?)\s*(.*)", text, re.S)
    if m[2].startswith(("HS__", "hs__", "HOOKSESS_")):
        return None
    hidden = "__" in re.sub(r"__VA_ARGS__", "", m[3]) or len(m[3]) > 90
    return Declaration("macro", m[2], f"#define {m[1]}" + ("" if hidden or not m[3] else f" {m[3]}"))


def section(text):
    """A title, if the first sentence is short, and blocks."""
    first, _, rest = text.partition(".")
    longest = 4 if rest.strip() else 8
    if "\n" not in first and len(first.split()) <= longest and not re.search(r"[`\d]", first):
        return Entry(markup.comment_blocks(rest.strip(" ")), [], first[0].upper() + first[1:])
    return Entry(markup.comment_blocks(text), [])


def parse_c(path, text):
    text = re.sub(r"^static inline ([^{]*?\bhs_(?!_)\w+\([^{]*\))\n\{.*?^}\n", r"HS_API \1;\n", taken_lines(text), flags=re.S | re.M)
    text = re.sub(r"^static inline .*?^}\n", "", text, flags=re.S | re.M)  # parts of macros
    head, entries, pending, joins = None, [], None, False
    found = list(pieces(text, ";"))
    for i, (kind, piece, gap) in enumerate(found):
        after = found[i + 1][2] if i + 1 < len(found) else "\n\n"
        if kind == "comment":
            if "SPDX-License-Identifier" in piece or "clang-format" in piece:
                continue
            if "\n" not in gap and i and found[i - 1][1].startswith("#include"):
                continue  # the summary of that header
            if "\n" not in gap and entries and joins:  # behind a macro, on the same line
                entries[-1].declarations[-1].members.append(
                    Member(entries[-1].declarations[-1].name, [], markup.comment_blocks(comment_text(piece))))
            elif head is None:
                head = markup.comment_blocks(comment_text(piece))
            elif "\n\n" in after:
                entries.append(section(comment_text(piece)))
                pending, joins = None, False
            else:
                pending, joins = comment_text(piece), False
            continue
        if kind == "directive":
            made = macro(piece) if piece.startswith("#define") else None
        else:
            made = declaration(piece)
        if made is None:
            continue
        options = made.kind == "macro" and entries and any(
            d.name and re.search(rf"\b{d.name}\b", made.text) for d in entries[-1].declarations)
        if pending is None and entries and entries[-1].declarations and ((joins and "\n\n" not in gap) or options):
            if made.name not in [d.name for d in entries[-1].declarations if d.name]:
                entries[-1].declarations.append(made)
        else:
            entries.append(Entry(markup.comment_blocks(pending) if pending else [], [made]))
        pending, joins = None, True
    return Header(path, head or [], entries)


def parse_cpp(path, text):
    """Classes and functions of the namespace hs, without private members and bodies."""
    head = markup.comment_blocks(comment_text([m[0] for m in COMMENT.finditer(text)][1]))  # after the license
    text = text[text.index("namespace hs\n") :]
    text = re.sub(r"^namespace detail\n\{.*?^\} // namespace detail$", "", text, flags=re.S | re.M)
    lines, kept, skip = text.split("\n"), [], None
    for i, line in enumerate(lines):
        at = markup.indent(line)
        if skip is not None:
            if line.strip() and at <= skip and line.strip() != "{":
                closes = line.strip().startswith("}")
                was, skip = skip, None
                if closes and was >= 0 and not line.startswith("};"):
                    continue
            else:
                continue
        if line.strip() in ("private:", "protected:"):
            skip = at - 1 if at == 0 else 1
            continue
        if line.strip() == "{" and not re.match(r"(class|struct|namespace)\b", lines[i - 1].strip()):
            kept[-1] = re.sub(r"\s+: [\w:]+\(.*$", "", kept[-1]) + ";"
            skip = at
            continue
        if line == "};" and not kept[-1]:
            kept.pop()
        kept.append(line)
    text = "\n".join(kept)
    entries = []
    for block in re.split(r"\n\n(?=\S)", text):
        m = re.match(r"(?:/\*(.*?)\*/\n)?(?:template <[^\n]*>[ \n])?((class|struct|inline|using)\b.*)", block.strip(), re.S)
        if not m:
            continue
        code = block.strip()[m.start(2) if m[1] else 0 :].rstrip()
        name = re.match(r"(?:class|struct) (\w+)|.*?\b(\w+)\(", m[2], re.S)
        name = "hs::" + (name[1] or name[2])
        comment = markup.comment_blocks(comment_text("/*" + m[1] + "*/")) if m[1] else []
        entries.append(Entry(comment, [Declaration("class" if m[3] in ("class", "struct") else "function", name, code)]))
    return Header(path, head, entries)


def summaries(root):
    """Path -> one line, from hooksess.h: the comments of its includes, and its list of other headers."""
    text = (root / "hooksess.h").read_text()
    found = {path: line.strip() for path, line in re.findall(r"#include <hooksess/(\S+)> +/\*(.*?)\*/", text)}
    rest = text[text.index("/* Not included:") :]
    found.update((path, line.strip()) for path, line in re.findall(r"^ \*   (\S+\.h(?:pp)?) +(.*)$", rest[: rest.index("*/")], re.M))
    return found


def parse(root):
    """Parses all headers of include/hooksess."""
    lines = summaries(root)
    lines.update({"hooksess.h": "hooked training sessions: the names to begin with", "export.h": "the base of all public headers"})
    headers = []
    for path in sorted([*root.rglob("*.h"), *root.rglob("*.hpp")]):
        name = path.relative_to(root).as_posix()
        header = (parse_cpp if name.endswith(".hpp") else parse_c)(name, path.read_text())
        if name not in lines:
            raise ValueError(f"include/hooksess/hooksess.h does not list {name}")
        header.summary = lines[name]
        headers.append(header)
    return headers
