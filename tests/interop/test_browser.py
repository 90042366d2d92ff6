# SPDX-License-Identifier: Apache-2.0
"""TensorBoard in a browser shows all data that the trainer has written, and a resumed run as one line."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import types
import unittest
import urllib.error
import urllib.request

import support
from browser import DIRECTLY, Browser
from support import tf
from test_tensorboard import Server

TRAINER = str(support.BUILD / "examples/trainer/trainer")
ADOPTED = str(support.BUILD / "examples/adopt/adopt_after")
SCREENSHOTS = support.BUILD / "tests/interop/screenshots"
OPTIONS = ["--hidden", "32,16", "--seed", "7", "--threads", "1", "--no-progress", "--save-steps", "40", "--keep", "0",
           "--log-steps", "40", "--summary-steps", "10", "--eval-steps", "100", "--histogram-steps", "50"]
TIMEOUT = 300
MATRICES = ["b1", "b2", "b3", "w1", "w2", "w3"]
LOSS, ACCURACY = "curves/loss", "curves/test_accuracy"
HISTOGRAMS = [f"{kind}/{name}" for kind in ("gradients", "weights") for name in MATRICES]
PICTURES = {"mistakes/confusion/image": 748, "mistakes/images/image": 680}  # with their widths


def train(directory, last_step, *options):
    """Trains to the end. Returns the command."""
    command = [TRAINER, "--model-dir", str(directory), "--losses", f"{directory}.losses", *OPTIONS, "--max-steps",
               str(last_step), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return command


def losses(directory):
    """The losses of the current run: {step: loss}."""
    lines = pathlib.Path(f"{directory}.losses").read_text().splitlines()
    return {int(step): float.fromhex(loss) for step, loss in map(str.split, lines)}


def events(directory):
    for path in sorted(directory.glob("events.*")):
        yield from tf.train.summary_iterator(str(path))


class BrowserCase(unittest.TestCase):
    """A run, a TensorBoard that has read it and a browser, for all tests of a class."""
    READER = []  # TensorBoard's options

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.directory = pathlib.Path(folder.name, "run")
        cls.make_run()
        cls.server = Server(types.SimpleNamespace(addCleanup=cls.addClassCleanup), cls.directory, *cls.READER)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.stop)
        cls.wait_until_read()

    @classmethod
    def wait_until_read(cls):
        cls.server.wait(lambda: max(cls.server.points(LOSS), default=[0])[0] == max(losses(cls.directory)))
        cls.server.wait(cls.sessions)

    @classmethod
    def sessions(cls):
        """The data of the hyperparameters' plugin, as soon as it has a session's end, which is the last event of a run."""
        body = {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS"], "startIndex": 0, "sliceSize": 9, "colParams": []}
        request = urllib.request.Request(f"{cls.server.address}/data/plugin/hparams/session_groups",
                                         json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with DIRECTLY.open(request, timeout=TIMEOUT) as answer:
                return json.load(answer).get("sessionGroups")
        except urllib.error.URLError:
            return None  # not yet

    def open(self, tab, query=""):
        """Opens a new page: if only the fragment of the address changed, the browser would not load it again."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.server.address}/{query}#{tab}")
        self.addCleanup(self.browser.save_screenshot, SCREENSHOTS / f"{type(self).__name__.lower()}_{tab.split('&')[0]}.png")

    def wait_for(self, condition, wanted, script, *arguments):
        """The result of a script, as soon as it fulfills the condition."""
        seen = None

        def asks():
            nonlocal seen
            seen = self.browser.run(script, *arguments)
            return condition(seen)
        try:
            self.browser.wait(asks, f"the page does not show {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}\nbut {seen}\n{self.browser.text()[-3000:]}") from None
        return seen

    def wait_for_words(self, *words):
        self.wait_for(lambda text: all(word in " ".join(text.split()) for word in words), words, "return text(document.body);")

    def corners(self, tag, least):
        """The corners of the drawn line under Scalars. TensorBoard does not draw corners far above the chart."""
        script = """
            const card = all('tf-scalar-card').find(card => text(card).split(/\\s+/).includes(arguments[0]));
            const lines = card ? [...elements(card.shadowRoot)].filter(element => element.matches('path.line')) : [];
            return lines.map(line => line.getAttribute('d') || '');"""
        corner = re.compile(r"[ML](-?[\d.e-]+),(-?[\d.e-]+)")
        lines = self.wait_for(lambda lines: any(len(corner.findall(line)) >= least for line in lines), f"the line of {tag}",
                              script, tag)
        return [[float(x) for x, _ in corner.findall(line)] for line in lines if line]

    def assert_drawn_as_one_line(self, tag, n):
        for line in self.corners(tag, n - 3):  # itself, and a smooth one
            gaps = [right - left for left, right in zip(line, line[1:])]
            self.assertLessEqual(len(line), n)
            for gap in gaps[:-1]:
                self.assertAlmostEqual(gap, gaps[0], delta=0.01)
            self.assertLessEqual(gaps[-1], gaps[0] + 0.01)  # the last step has a point in any case
            self.assertGreater(gaps[0], 0)


class Trained(BrowserCase):
    """A run from its beginning to its end."""

    @classmethod
    def make_run(cls):
        cls.command = train(cls.directory, 240)

    def test_scalars(self):
        self.open("scalars")
        self.wait_for_words(f"tag: {LOSS}", "tag: global_step/sec", ACCURACY)
        self.assert_drawn_as_one_line(LOSS, 25)
        self.assertEqual([step for step, _ in self.server.points("global_step/sec")], [101, 201])

    def test_time_series(self):
        self.open("timeseries", "?tagFilter=%5Ecurves/loss%24")
        script = "return all('tb-data-table-content-cell').filter(shown).map(cell => text(cell).trim());"
        cells = self.wait_for(lambda cells: "240" in cells, "the last step", script)
        numbers = [float(cell) for cell in cells if re.fullmatch(r"\d+\.\d+", cell)]
        last = losses(self.directory)[240]
        self.assertTrue([number for number in numbers if abs(number - last) < 1e-3], (last, cells))

    def test_images(self):
        self.open("images")
        self.wait_for_words("step 240", *(f"tag: {tag}" for tag in PICTURES))
        script = "return all('img').filter(image => shown(image) && image.complete).map(image => image.naturalWidth);"
        self.wait_for(lambda widths: sorted(widths) == sorted(PICTURES.values()), "both pictures", script)

    def test_histograms(self):
        self.open("histograms")
        self.wait_for_words(*(f"tag: {tag}" for tag in HISTOGRAMS))
        script = """return all('vz-histogram-timeseries').filter(shown)
                        .map(chart => [...elements(chart.shadowRoot)].filter(element => element.matches('g.histogram')).length);"""
        self.wait_for(lambda counts: counts == [6] * len(HISTOGRAMS), "a histogram of each matrix every 50 steps", script)

    def test_the_main_graph_is_the_training(self):
        self.open("graphs")
        names = {"train", "loss", "test_accuracy", "summary", "input", "momentum", "gradients", "global_step", "model"}
        self.wait_for(names.issubset, names, """
            const nodes = all('g.node[data-name]').filter(node => !node.closest('.in-extract, .out-extract'));
            return nodes.map(node => node.getAttribute('data-name'));""")

    def test_hyperparameters(self):
        self.open("hparams")
        script = "return all('vaadin-grid-cell-content').map(cell => text(cell).trim());"
        names = {"optimizer", "learning_rate", "batch_size", "hidden", "seed", "test accuracy"}
        values = {"momentum", "0.050000", "128.00", "32,16", "7.0000"}
        self.wait_for(lambda cells: names | values <= set(cells), names | values, script)

    def test_the_session_ended_well(self):
        groups = self.sessions()
        self.assertEqual([session["status"] for group in groups for session in group["sessions"]], ["STATUS_SUCCESS"])

    def test_the_command_and_the_settings(self):
        self.open("text")
        command = " ".join(self.command).replace(" --", " \\ --")
        self.wait_for_words("tag: command", "Started: " + command, "batch size 128", "last step 240")

    def test_the_confusion_matrix_is_the_accuracy(self):
        self.open("text")
        script = """
            const table = all('table').find(table => text(table).includes('label \\\\ predicted'));
            return table ? [...table.rows].slice(1).map(row => [...row.cells].slice(1).map(cell => Number(text(cell)))) : [];"""
        rows = self.wait_for(len, "the confusion matrix", script)
        self.assertEqual([sum(row) for row in rows], [1000] * 10)
        right = sum(rows[label][label] for label in range(10))
        self.assertAlmostEqual(right / 10000, dict(self.server.points(ACCURACY))[240], places=6)


class Resumed(BrowserCase):
    """A run whose last checkpoints were lost, but not its events: it resumes at step 120 with other losses. It is read by the
    one of TensorBoard's two readers that drops events only after a session's START."""
    READER = ["--load_fast", "false"]

    @classmethod
    def make_run(cls):
        train(cls.directory, 200)
        cls.lost = losses(cls.directory)
        for path in cls.directory.glob("model.ckpt-*"):
            if int(re.match(r"model\.ckpt-(\d+)", path.name)[1]) > 120:
                path.unlink()
        (cls.directory / "checkpoint").unlink()
        train(cls.directory, 300, "--learning-rate", "0.01")

    def test_the_lost_steps_are_in_the_files_and_not_shown(self):
        kept = losses(self.directory)
        self.assertEqual(sorted(kept), list(range(1, 301)))
        self.assertNotEqual(self.lost[191], kept[191])
        written = [event.step for event in events(self.directory) for value in event.summary.value if value.tag == LOSS]
        self.assertEqual(written.count(191), 2)
        self.server.wait_for_points(LOSS, [(step, kept[step]) for step in [*range(1, 300, 10), 300]])

    def test_one_line_without_a_zigzag(self):
        self.open("scalars")
        self.assert_drawn_as_one_line(LOSS, 31)

    def test_the_time_series_end_with_it(self):
        self.open("timeseries", "?tagFilter=%5Ecurves/loss%24")
        script = "return all('tb-data-table-content-cell').filter(shown).map(cell => text(cell).trim());"
        self.wait_for(lambda cells: "300" in cells, "the last step", script)

    def test_one_session_of_hyperparameters(self):
        groups = self.sessions()
        self.assertEqual([len(group["sessions"]) for group in groups], [1])
        self.assertEqual(groups[0]["hparams"]["learning_rate"], 0.05)
        tags = [value.tag for event in events(self.directory) for value in event.summary.value]
        self.assertEqual(tags.count("_hparams_/session_start_info"), 1)

    def test_a_note_of_each_start(self):
        self.open("text")
        self.wait_for_words("Started:", "Resumed at step 120:", "--learning-rate 0.01")


def save_picture(browser, name):
    """Writes a picture of the documents, if the environment has HOOKSESS_PICTURES, which is the folder."""
    if "HOOKSESS_PICTURES" in os.environ:
        browser.save_screenshot(pathlib.Path(os.environ["HOOKSESS_PICTURES"], name).absolute())


class Example(BrowserCase):
    """The run of examples/run, interrupted and continued."""

    @classmethod
    def make_run(cls):
        command = [TRAINER, "--model-dir", str(cls.directory / "fashion-mnist"), "--no-progress"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if "epoch 3/10" in line:
                    process.send_signal(signal.SIGINT)
        if process.returncode != 75:
            raise AssertionError(f"exit code {process.returncode}")
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT)

    @classmethod
    def points(cls, tag):
        return cls.server.get("scalars/scalars", run="fashion-mnist", tag=tag) or []

    @classmethod
    def wait_until_read(cls):
        cls.server.wait(lambda: all(max((step for _, step, _ in cls.points(tag)), default=0) == 4690 for tag in (LOSS, ACCURACY)))

    def test_the_charts_end_with_the_training(self):
        steps = [step for _, step, _ in self.points(ACCURACY)]
        self.assertEqual(steps, list(range(469, 4691, 469)))
        self.assertEqual([step for _, step, _ in self.points(LOSS)], [*range(1, 4690, 100), 4690])

    def test_time_series_open_with_loss_and_accuracy(self):
        self.browser.resize(1000, 880)
        self.open("timeseries")
        script = "return all('.group-title').map(title => text(title).trim());"
        groups = self.wait_for(lambda groups: len(groups) >= 4, "the groups of charts", script)
        self.assertEqual([group for group in groups if group != "Pinned"][:2], ["curves", "global_step"])
        self.wait_for_words("curves /loss", "curves /test_accuracy", "4,690", "fashion-mnist")
        self.browser.run("all('.settings-button').forEach(button => button.click());")  # hides them
        script = "return all('scalar-card').map(card => card.getBoundingClientRect()).map(box => [box.x, box.y, box.width]);"
        self.wait_for(lambda boxes: len(boxes) > 1 and boxes[0][1] == boxes[1][1], "two charts side by side", script)
        save_picture(self.browser, "trainer.png")


class Killed(BrowserCase):
    """The program of examples/adopt, killed and started again."""

    @classmethod
    def make_run(cls):
        folder = cls.directory.parent  # the program writes to the folder `run`
        process = subprocess.Popen([ADOPTED], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pipesize=4096)
        for _ in range(2500):
            process.stdout.readline()
        process.kill()
        process.stdout.close()
        process.wait()
        done = subprocess.run([ADOPTED], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
        if "restored run/model.ckpt-2000" not in done.stderr:
            raise AssertionError(done.stderr)

    @classmethod
    def wait_until_read(cls):
        cls.server.wait(lambda: [step for step, _ in cls.server.points("loss")] == list(range(1, 6000, 100)))

    def test_one_line_in_a_large_chart(self):
        self.browser.resize(1000, 850)
        self.open("scalars&_smoothingWeight=0&tagFilter=%5Eloss%24")
        self.assert_drawn_as_one_line("loss", 60)
        self.browser.run("all('tf-scalar-card [icon=fullscreen], [icon=fullscreen]').find(shown).click();")
        wide = "return all('tf-scalar-card').filter(shown).map(card => card.getBoundingClientRect().width);"
        self.wait_for(lambda widths: widths and widths[0] > 500, "a large chart", wide)
        save_picture(self.browser, "tensorboard.png")


if __name__ == "__main__":
    unittest.main()
