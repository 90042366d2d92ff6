# SPDX-License-Identifier: Apache-2.0
"""Writes the declarations of the C headers as macros that src/tool/abi_command.c defines. The compiler fills in sizes, offsets and
numbers."""
import re

import markup

LIBRARIES = {"cuda.h": "hooksess_cuda", "mpi.h": "hooksess_mpi", "tensorflow.h": "hooksess_tensorflow", "tensorflow_server.h": "hooksess_tensorflow",
             "testing.h": "hooksess_testing", "simulation.h": "hooksess_testing"}


def quoted(text):
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"' if text else "NULL"


def comment(blocks):
    return " ".join(markup.plain(block.spans) for block in blocks if isinstance(block, markup.Paragraph))


def default(text):
    """What 0 means, if the comment of an option says so: "NULL: the default stream"."""
    found = re.search(r"(?:^|[ (])(?:0|NULL|false)(?:, HS_NEVER)?: ([^.;]+)", text)
    return found[1] if found else ""


def declared(text):
    """(name, type, is_array) of each declared name: of "const char *key, *value" or "int64_t dims[HS_MAX_RANK]"."""
    if function := re.search(r"\(\*(\w+)\)\(", text):
        return [(function[1], text.replace(f"(*{function[1]})", "(*)"), False)]
    found, base = [], None
    for part in text.split(","):
        m = re.fullmatch(r"(.*?)\s*((?:\*(?:const)?\s*)*)(\w+)((?:\[[^\]]*\])?)", part.strip())
        base = m[1] if base is None else base
        found.append((m[3], f"{base} {m[2]}".strip() if m[2] else base, bool(m[4])))
    return found


def parameters(text):
    """(name, type) of each parameter in "hs_env *env, ..."."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    parts = [part.strip() for part in parts]
    if parts == ["void"]:
        return []
    return [("...", "...") if part == "..." else declared(part)[0][:2] if part != "va_list" else ("arguments", part) for part in parts]


def rows_of(header):
    """The macros of one header."""
    where = quoted(header.path)
    library = quoted("hooksess_tf1" if header.path.startswith("tf1/") else LIBRARIES.get(header.path, "hooksess"))
    for d in header.declarations():
        if d.name.startswith("hs__"):
            continue
        if d.kind in ("struct", "union"):
            grows = any(member.text == "size_t size" for member in d.members[:1])
            yield f"ABI_STRUCT({d.name}, {where}, {quoted(d.kind)}, {str(grows).lower()})"
            for member in d.members:
                text = comment(member.blocks)
                for name, kind, is_array in declared(member.text):
                    macro = "ABI_ARRAY" if is_array else "ABI_FIELD"
                    yield f"{macro}({d.name}, {name}, {quoted(kind)}, {quoted(default(text))}, {quoted(text)})"
            yield "ABI_END"
        elif d.kind == "enum":
            yield f"ABI_ENUM({quoted(d.name)}, {where})"
            for member in d.members:
                yield f"ABI_CONSTANT({member.names[0]})"
            yield "ABI_END"
        elif d.kind == "function":
            m = re.fullmatch(rf"(.*?)\s*\b{d.name}\((.*)\);", d.text)
            yield f"ABI_FUNCTION({quoted(d.name)}, {where}, {library}, {quoted(m[1])})"
            for parameter, kind in parameters(m[2]):
                yield f"ABI_PARAMETER({quoted(parameter)}, {quoted(kind)})"
            yield "ABI_END"
        elif d.kind == "type":
            text = re.sub(r"\s+", " ", d.text)
            yield f"ABI_TYPE({quoted(d.name)}, {where}, {quoted(text.removeprefix('typedef ').removesuffix(';'))})"
        elif d.kind == "macro" and (m := re.fullmatch(r"#define (\w+) ([-\d(].*)", d.text)):
            yield f"ABI_MACRO({m[1]}, {where})"


def write(path, headers):
    headers = [header for header in headers if header.path.endswith(".h") and header.path != "ggml.h"]  # which needs ggml
    lines = [f"#include <hooksess/{header.path}>" for header in headers] + ["#else"]
    sections = {"ABI_STRUCT": [], "ABI_ENUM": [], "ABI_MACRO": [], "ABI_TYPE": [], "ABI_FUNCTION": []}
    rows = None
    for header in headers:
        for row in rows_of(header):
            rows = sections.get(row.split("(")[0], rows)
            rows.append(row)
    for kind, rows in sections.items():
        lines += [f"{kind}S", *rows, "ABI_END_LIST"]
    path.write_text("\n".join(["#ifdef ABI_HEADERS", *lines, "#endif", ""]))
