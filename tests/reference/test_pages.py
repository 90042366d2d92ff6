# SPDX-License-Identifier: Apache-2.0
"""test_pages.py SOURCE TOOL: the man pages and the HTML have all that the headers, the help texts and the conventions say."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import pages

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
HEADERS = SOURCE / "include/hooksess"


def man_text(roff):
    """The words of a page without requests and fonts."""
    roff = re.sub(r"^(\.[A-Z]{1,2}|\.TS|nokeep;|T\{|T\}\t?(T\{)?)(?= |$)", "", roff, flags=re.M)
    for escape, text in (("\\fB", ""), ("\\fI", ""), ("\\fP", ""), ("\\&", ""), ("\\-", "-"), ("\\(ti", "~"), ("\\(ha", "^"),
                         ("\\(ga", "`"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\e", "\\")):
        roff = roff.replace(escape, text)
    return " ".join(roff.split())


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        root = pathlib.Path(cls.directory.name)
        cls.man, cls.html = root / "man", root / "html"
        pages.write(SOURCE, "man", cls.man, TOOL)
        pages.write(SOURCE, "html", cls.html, TOOL)
        cls.headers = sorted(path.relative_to(HEADERS).as_posix() for path in HEADERS.rglob("*.h"))
        cls.sources = {name: (HEADERS / name).read_text() for name in cls.headers}
        cls.roff = {name: (cls.man / f"man3/{cls.page(name)}.3").read_text() for name in cls.headers + ["hooksess.hpp", "torch.hpp"]}
        cls.web = {name: pages.HtmlPage(cls.html / f"reference/{name.replace('/', '-')}.html") for name in cls.roff}

    @staticmethod
    def page(name):
        return name.removesuffix(".h") if name in ("hooksess.h", "hooksess.hpp") else "hooksess-" + name.removesuffix(".h").replace("/", "-")

    def complete_pages(self):
        return [path for path in self.man.rglob("*.[137]") if not path.read_text().startswith(".so ")]

    def test_every_name_of_a_header_is_in_its_pages(self):
        count = 0
        for name in self.headers:
            text = man_text(self.roff[name])
            functions, types, constants, fields = pages.names(self.sources[name])
            for word in functions | types | constants | {field for _, field in fields}:
                self.assertRegex(text, rf"\b{word}\b", name)
                count += 1
            idents = self.web[name].idents
            for ident in functions | types | constants | {f"{struct}.{field}" for struct, field in fields}:
                if ident not in ("HS_BEGIN_DECLS", "HS_API"):
                    self.assertIn(ident, idents, name)
        self.assertGreater(count, 1500)

    def test_every_function_and_type_has_a_man_page_of_its_name(self):
        for name in self.headers:
            functions, types, _, _ = pages.names(self.sources[name])
            for word in functions | types:
                self.assertEqual((self.man / f"man3/{word}.3").read_text(), f".so man3/{self.page(name)}.3\n")

    def test_no_line_of_a_comment_is_lost(self):
        count = 0
        for name in self.headers:
            text = self.web[name].text
            source = re.sub(r"^#include <.*$", "", self.sources[name], flags=re.M)
            source = re.sub(r"^\{.*?^\}", "", source, flags=re.S | re.M)  # bodies of inline functions
            for lines in pages.comments(pages.without_code_of_cpp(source)):
                if "HS__" in " ".join(lines):
                    continue
                for i, part in enumerate([part for line in lines for part in re.split(r"\s{2,}", line.strip())]):
                    words = re.sub(r"^(?:- |\d+\. )", "", part.replace("`", ""))
                    if i == 0:
                        words = self.without_title(name, words)
                    if len(words) > 2 and not self.is_internal(words):
                        self.assertIn(words, text.replace("`", ""), name)
                        count += 1
        self.assertGreater(count, 3000)

    def without_title(self, name, words):
        """The title of a section has no full stop on the page."""
        title, _, rest = words.partition(".")
        return rest.strip() if "section-" + re.sub(r"\W+", "-", title.lower()) in self.web[name].idents else words

    @staticmethod
    def is_internal(words):
        """Of init.h: comments on macros that begin with HS__."""
        return words.startswith(("What data points to", "The dtype if it is", "The address of a pointer", "Whether memory of",
                                 "Macros of a system", "one, so with nvcc"))

    def test_the_overviews_list_every_header_with_its_summary(self):
        index = pages.HtmlPage(self.html / "reference/headers.html").text
        overview = man_text((self.man / "man7/hooksess.7").read_text())
        for name, summary in re.findall(r"^#include <hooksess/(\S+)>\s+/\* (.*) \*/", self.sources["hooksess.h"], re.M):
            self.assertIn(f"{name} {summary}", index)
            self.assertIn(f"{self.page(name)}(3) {summary}", overview)

    def test_the_first_page_is_the_readme(self):
        text = pages.HtmlPage(self.html / "index.html").text
        for heading in re.findall(r"^##? (.*)$", (SOURCE / "README.md").read_text(), re.M):
            self.assertIn(heading, text)

    def test_every_man_page_has_its_sections(self):
        found = self.complete_pages()
        self.assertEqual(len(found), len(self.roff) + 3)
        for path in found:
            sections = re.findall(r"^\.SH (.*)$", path.read_text(), re.M)
            self.assertEqual([section.strip('"') for section in sections][:3], ["NAME", "SYNOPSIS", "DESCRIPTION"], path)
            name = re.search(r"^\.SH \"NAME\"\n(.*) \\- .", path.read_text(), re.M)
            self.assertEqual(name[1].replace("\\", ""), path.stem)

    def test_pages_name_pages_that_exist(self):
        count = 0
        for path in self.complete_pages():
            for name, section in re.findall(r"\\fB([\w.\\-]+)\\fP\(([137])\)", path.read_text()):
                self.assertTrue((self.man / f"man{section}" / f"{name.replace(chr(92), '')}.{section}").exists(), f"{path}: {name}({section})")
                count += 1
        self.assertGreater(count, 700)

    def test_the_page_of_the_command_has_its_help_texts(self):
        run = lambda *words: subprocess.run([TOOL, "help", *words], check=True, capture_output=True, text=True).stdout
        commands = [m.split() for m in re.findall(r"^  ([a-z][a-z-]*(?: [a-z][a-z-]*)?) ", run(), re.M) if m != "help"]
        self.assertGreater(len(commands), 8)
        text = re.sub(r"(hs_\w+)\(3\)", r"\1", man_text((self.man / "man1/hooksess.1").read_text()))
        web = pages.HtmlPage(self.html / "reference/hooksess.1.html").text
        for words in commands:
            usage, help_text = run(*words).split("\n\n", 1)
            self.assertIn(" ".join(usage.removeprefix("usage: ").split()), text)
            for line in help_text.removesuffix(run().split("\n\n")[-1]).split("\n"):  # the exit status of most commands stands once
                for part in re.split(r"\s{2,}", line.strip()):
                    if part and not part.startswith(("Exit status:", "- ")):
                        self.assertIn(part, text)
                        self.assertIn(part, web)

    def test_the_conventions_are_a_man_page(self):
        text = re.sub(r"\((3|7)\)", "", man_text((self.man / "man7/hooksess-conventions.7").read_text()))
        source = (SOURCE / "docs/conventions.md").read_text()
        for heading in re.findall(r"^## (.*)$", source, re.M):
            self.assertIn(f'"{heading.upper()}"', text)
        for name in re.findall(r"`(hs_\w+)`", source):
            self.assertIn(name, text)

    def test_pages_do_not_depend_on_the_day_with_SOURCE_DATE_EPOCH(self):
        output = self.man.parent / "dated"
        subprocess.run([sys.executable, SOURCE / "cmake/reference", "man", output, "--tool", TOOL], check=True,
                       env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        self.assertIn('"2023-11-14"', (output / "man3/hooksess-graph.3").read_text())

    @unittest.skipUnless(shutil.which("mandoc"), "needs mandoc")
    def test_mandoc_finds_nothing(self):
        done = subprocess.run(["mandoc", "-Tlint", *self.complete_pages()], cwd=self.man, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stdout + done.stderr, "")
        shown = subprocess.run(["mandoc", "-Tutf8", "man3/hs_graph_new.3"], cwd=self.man, capture_output=True, text=True, timeout=120)
        self.assertIn("Creates an empty graph", re.sub("\b.", "", re.sub(".\b", "", shown.stdout)))

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_groff_warns_of_nothing(self):
        """As man --warnings does, in terminals of two widths."""
        for width in "78n", "118n":
            for path in self.complete_pages():
                done = subprocess.run(["groff", "-t", "-man", "-Tutf8", "-ww", f"-rLL={width}", path], capture_output=True, text=True, timeout=120)
                self.assertEqual(done.stderr, "", path)


if __name__ == "__main__":
    unittest.main()
