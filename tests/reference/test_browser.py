# SPDX-License-Identifier: Apache-2.0
"""test_browser.py SOURCE TOOL: the HTML of the reference in Chromium, from files: the search, a phone, dark mode."""
import pathlib
import re
import sys
import tempfile
import unittest

import pages

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
TOOL = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(SOURCE / "tests/interop"))

import browser  # noqa: E402: the path comes first

RESULTS = "return [...document.querySelectorAll('#results a')].map(a => [a.textContent, a.href.split('/').pop()]);"


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.root = pathlib.Path(cls.directory.name)
        pages.write(SOURCE, "html", cls.root, TOOL)
        cls.window = browser.Browser()
        cls.addClassCleanup(cls.window.stop)

    def open(self, address):
        self.window.open(f"file://{self.root}/{address}")

    def search(self, words):
        self.window.run("const q = document.querySelector('input[type=search]'); q.value = arguments[0];"
                        "q.dispatchEvent(new Event('input'));", words)
        return self.window.run(RESULTS)

    def set_media(self, **features):
        self.window.ask("POST", self.window.session + "/goog/cdp/execute", {
            "cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": n.replace("_", "-"), "value": v} for n, v in features.items()]}})

    def set_width(self, width):
        self.window.ask("POST", self.window.session + "/goog/cdp/execute", {
            "cmd": "Emulation.setDeviceMetricsOverride", "params": {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}})

    def test_the_search_finds_names_first(self):
        self.open("reference/graph.h.html")
        self.assertEqual(self.search("hs_session_open")[0], ["hs_session_open", "session.h.html#hs_session_open"])
        self.assertEqual(self.search("session_open")[0], ["hs_session_open", "session.h.html#hs_session_open"])
        self.assertEqual(self.search("hs_training_options.checkpoint_dir")[0][1], "training_session.h.html#hs_training_options.checkpoint_dir")
        self.assertEqual(self.search("HS_GUARD_ROLLBACK")[0][1], "hooks-finite_guard.h.html#HS_GUARD_ROLLBACK")
        self.assertEqual(self.search("verify-resume")[0][1], "hooksess.1.html#verify-resume")

    def test_the_search_finds_words_of_texts_and_documents(self):
        self.open("index.html")
        self.assertIn("hs_session_interrupt", [title for title, _ in self.search("sigterm pauses attempts")])
        self.assertIn("conventions.html#ownership", [link for _, link in self.search("ownership")])
        self.assertEqual(self.search("xyzzy"), [])

    def test_the_search_answers_what_readers_ask(self):
        self.open("index.html")
        for query, wanted in {"stop training": "hooks.html", "gpu": "values.html", "quickstart": "your-loop.html", "pandas": "python.html",
                              "resume": "checkpoints.html", "slurm": "signals.html#slurm", "install": "install.html",
                              "early stopping": "hooks-early_stopping.h.html#hs_early_stopping", "--tag": "hooksess.1.html#events-cat",
                              "save checkpoint every": "hooks-checkpoint_saver.h.html#hs_checkpoint_saver_options.every_n_secs",
                              "progress bar": "hooks-progress.h.html"}.items():
            self.assertIn(wanted, [link for _, link in self.search(query)][:3], query)

    def test_pages_of_the_guide_come_before_headers(self):
        self.open("index.html")
        links = self.window.run("return [...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'));")
        of_folder = lambda folder: [i for i, link in enumerate(links) if link.startswith(folder)]
        self.assertLess(max(of_folder("docs/") + of_folder("examples/")), min(i for i in of_folder("reference/") if links[i].endswith(".h.html")))

    def test_code_of_the_library_is_not_cut(self):
        self.set_width(1400)
        for path in ("index.html", "docs/guide/your-loop.html", "reference/training_session.h.html", "reference/checkpoint.h.html"):
            self.open(path)
            cut = self.window.run("return [...document.querySelectorAll('pre')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent);")
            self.assertEqual(cut, [], path)

    def test_a_page_has_its_contents_in_a_column_at_the_right(self):
        script = ("const box = s => document.querySelector(s).getBoundingClientRect(); const list = document.querySelector('aside ul');"
                  "return [box('aside').left - box('main').right, box('aside').bottom - box('main').top, list.checkVisibility(),"
                  "[...list.querySelectorAll('a')].map(a => a.textContent)];")
        self.set_width(1400)
        self.open("docs/guide/checkpoints.html")
        gap, _, shown, titles = self.window.run(script)
        self.assertTrue(gap >= 0 and shown)
        self.assertEqual(titles, [re.sub(r"[*`]", "", title) for title in
                                  re.findall(r"^##+ (.*)$", (SOURCE / "docs/guide/checkpoints.md").read_text(), re.M)])
        self.set_width(700)
        self.open("docs/guide/checkpoints.html")
        _, below, shown, _ = self.window.run(script)
        self.assertTrue(below <= 0 and not shown)

    def test_a_button_copies_code(self):
        self.window.ask("POST", self.window.session + "/goog/cdp/execute", {"cmd": "Browser.grantPermissions", "params": {
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}})
        pressed = ("const pre = [...document.querySelectorAll('pre')].find(e => e.dataset.language === arguments[0]); pre.nextSibling.click();"
                   "return pre.textContent;")
        self.open("index.html")
        copied = "return navigator.clipboard.readText();"

        def copy(language):
            code = self.window.run(pressed, language)
            self.window.wait(lambda: self.window.run("return [...document.querySelectorAll('.code button')].some(b => b.textContent === 'Copied');"),
                             "the button says nothing")
            return code, self.window.run(copied)

        code, clipboard = copy("diff")
        lines = [line[1:] for line in code.split("\n") if line[:1] in ("+", " ")]
        self.assertEqual(clipboard.split("\n"), lines)
        self.open("docs/guide/your-loop.html")
        code, clipboard = copy("console")
        self.assertEqual(clipboard.split("\n"), [line[2:] for line in code.split("\n") if line.startswith("$ ")])

    def test_a_diff_has_colors(self):
        self.open("index.html")
        colors = self.window.run("return ['.added', '.removed', 'pre'].map(s => getComputedStyle(document.querySelector(s)).backgroundColor);")
        self.assertEqual(len(set(colors)), 3)

    def test_a_query_in_the_address_is_searched(self):
        self.open("index.html?q=hs_graph_new")
        self.assertEqual(self.window.run(RESULTS)[0], ["hs_graph_new", "graph.h.html#hs_graph_new"])

    def test_pages_fit_on_a_phone(self):
        self.set_width(360)
        for path in sorted(self.root.rglob("*.html")):
            self.open(path.relative_to(self.root))
            self.assertLessEqual(self.window.run("return document.documentElement.scrollWidth;"), 360, path)

    def test_dark_mode_has_light_text_on_a_dark_page(self):
        script = ("const s = getComputedStyle(document.body); const sum = c => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0);"
                  "return [sum(s.backgroundColor), sum(s.color)];")
        self.open("index.html")
        for scheme in "light", "dark":
            self.set_media(prefers_color_scheme=scheme)
            page, text = self.window.run(script)
            self.assertEqual(page < text, scheme == "dark")


if __name__ == "__main__":
    unittest.main()
