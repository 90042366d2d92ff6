# SPDX-License-Identifier: Apache-2.0
"""test_links.py SOURCE TOOL: every link in the Markdown files of the project, and in the HTML of the reference, leads somewhere.

Addresses of other hosts are not opened.
"""
import collections
import os
import pathlib
import re
import sys
import tempfile
import unittest
import urllib.parse

import pages

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
GENERATED = ("build", ".git", "third_party")


def without_code(text):
    text = re.sub(r"^(```+|~~~+).*?^\1[ \t]*$", "", text, flags=re.S | re.M)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", re.sub(r"<!--.*?-->", "", text, flags=re.S), flags=re.S)


def anchors(text):
    """The anchors of headings, as code hosts make them."""
    found, used = set(), collections.Counter()
    text = re.sub(r"^(```+|~~~+).*?^\1[ \t]*$", "", text, flags=re.S | re.M)
    for line in re.findall(r"^#{1,6} +(.*?)[ #]*$", text, re.M):
        line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
        ident = re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-")
        found.add(f"{ident}-{used[ident]}" if used[ident] else ident)
        used[ident] += 1
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def markdown_files():
    return [path for path in sorted(SOURCE.rglob("*.md")) if path.relative_to(SOURCE).parts[0] not in GENERATED]


def broken_links_of_markdown(path):
    text = without_code(path.read_text())
    targets = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text) + re.findall(r"\b(?:href|src)=\"([^\"]+)\"", text)
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, re.M)
    for target in targets:
        parts = urllib.parse.urlsplit(target)
        if parts.scheme:
            if parts.scheme not in ("http", "https", "mailto") or (parts.scheme != "mailto" and not parts.hostname):
                yield target
            continue
        file = path.parent / urllib.parse.unquote(parts.path) if parts.path else path
        if not file.exists() or not file.resolve().is_relative_to(SOURCE):
            yield target
        elif parts.fragment and (file.suffix != ".md" or parts.fragment not in anchors(file.read_text())):
            yield target


class Links(unittest.TestCase):
    def test_links_of_markdown_files_lead_somewhere(self):
        files = markdown_files()
        self.assertIn(SOURCE / "README.md", files)
        broken = [f"{path.relative_to(SOURCE)}: {target}" for path in files for target in broken_links_of_markdown(path)]
        self.assertEqual(broken, [])

    def test_broken_links_are_found(self):
        with tempfile.TemporaryDirectory(dir=SOURCE / "tests/reference") as directory:
            path = pathlib.Path(directory) / "page.md"
            path.write_text("# A heading\n[a](page.md#a-heading) [b](#a-heading) [c](#b) [d](other.md) ![e](f.png) `[g](h)`\n"
                            "[i](https://example.org) [j](https://)\n```\n[k](l)\n```\n")
            self.assertEqual(list(broken_links_of_markdown(path)), ["#b", "other.md", "f.png", "https://"])

    def test_links_of_the_html_lead_somewhere(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            pages.write(SOURCE, "html", root, TOOL)
            found = {path: pages.HtmlPage(path) for path in root.rglob("*.html")}
            self.assertGreater(len(found), 60)
            broken, count = [], 0
            for path, page in found.items():
                twice = [ident for ident, n in collections.Counter(page.idents).items() if n > 1]
                self.assertEqual(twice, [], path)
                for link in page.links + page.sources:
                    parts = urllib.parse.urlsplit(link)
                    if parts.scheme:
                        continue
                    count += 1
                    file = pathlib.Path(os.path.normpath(path.parent / parts.path)) if parts.path else path
                    if not file.is_file() or (parts.fragment and parts.fragment not in found[file].idents):
                        broken.append(f"{path.relative_to(root)}: {link}")
            self.assertEqual(broken, [])
            self.assertGreater(count, 5000)
            index = (root / "search-index.js").read_text()
            for address, fragment in re.findall(r'"([\w/.-]+\.html)(?:#([^"]+))?"', index):
                self.assertIn(root / address, found)
                self.assertTrue(not fragment or fragment in found[root / address].idents, f"{address}#{fragment}")


if __name__ == "__main__":
    unittest.main()
