# SPDX-License-Identifier: Apache-2.0
"""Reads the pages that cmake/reference writes, without its code."""
import html.parser
import re
import subprocess
import sys


def write(source, what, output, tool):
    subprocess.run([sys.executable, source / "cmake/reference", what, output, "--tool", tool], check=True, timeout=300)


class HtmlPage(html.parser.HTMLParser):
    """`text`: what a reader sees in <main>; `idents`, `links`, `sources`: values of id, href and src."""

    VOID = ("meta", "link", "img", "input", "br", "hr")

    def __init__(self, path):
        super().__init__()
        self.text, self.idents, self.links, self.sources, self.stack = "", [], [], [], []
        self.feed(path.read_text())
        self.close()
        if self.stack:
            raise ValueError(f"{path}: not closed: {self.stack}")
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            {"id": self.idents, "href": self.links, "src": self.sources}.get(name, []).append(value)
        if tag not in self.VOID:
            self.stack.append(tag)
        if tag in ("p", "td", "th", "dt", "dd", "li", "pre", "h1", "h2", "h3"):
            self.text += " "

    def handle_endtag(self, tag):
        if tag not in self.VOID and (not self.stack or self.stack.pop() != tag):
            raise ValueError(f"</{tag}> at {self.getpos()} closes another element")

    def handle_data(self, data):
        if "main" in self.stack:
            self.text += data


def without_code_of_cpp(text):
    """A header as C sees it: without the branches #ifdef __cplusplus."""
    return re.sub(r"^#ifdef __cplusplus\n.*?^(#else|#endif)\n", "", text, flags=re.S | re.M)


def comments(text):
    """The lines of the comments, without asterisks, and without the tags of license and formatter."""
    for comment in re.findall(r"/\*(.*?)\*/", text, re.S):
        if "SPDX-License" not in comment and "clang-format" not in comment:
            yield [re.sub(r"^\s*\*? ?", "", line) if i else line for i, line in enumerate(comment.split("\n"))]


def names(text):
    """The public names of a header: functions and function-like macros, types, constants and other macros, and fields."""
    code = re.sub(r"/\*.*?\*/", "", without_code_of_cpp(text), flags=re.S)
    functions = set(re.findall(r"^HS_API [^;(]*?\b(hs_\w+)\(", code, re.M)) | set(re.findall(r"^#define (h[sS]_(?!_)\w+)\(", code, re.M))
    functions |= set(re.findall(r"^#define (HS_(?!_)\w+)\(", code, re.M))
    types = set(re.findall(r"^} (hs_\w+);", code, re.M)) | set(re.findall(r"^typedef struct hs_\w+ (hs_\w+);", code, re.M))
    types |= set(re.findall(r"^typedef [^{;]*\(\*(hs_\w+)\)\(", code, re.M)) | set(re.findall(r"^typedef \w+ (hs_\w+);", code, re.M))
    constants = set(re.findall(r"^#define (HS_(?!_)\w+)\s+[^(]", code, re.M))
    for body in re.findall(r"\benum (?:\w+ )?\{(.*?)\}", code, re.S):
        constants |= set(re.findall(r"\b(HS_\w+) =", body))
    fields = set()
    for name, body in re.findall(r"^typedef (?:struct|union) (hs_\w+) \{(.*?)^\}", code, re.S | re.M):
        body = re.sub(r"\([^()]*\)(?=;)", "", re.sub(r"union \{|\};", "", body).replace("(*", "").replace(")(", "("))
        body = re.sub(r"\([^;]*(?=;)", "", body)
        fields |= {(name, field) for field in re.findall(r"(\w+)(?:\[[^\]]*\])?[,;]", body)}
    return functions, types, constants, fields
