# SPDX-License-Identifier: Apache-2.0
import json
import math
import os
import random
import re
import resource
import stat
import struct
import unittest
import xml.etree.ElementTree as xml

from event_files import event, field, scalars, start, tensor_scalar, version
from support import TOOL, ToolCase, run

BRAILLE = re.compile("[\u2801-\u28ff]")
SVG = "{http://www.w3.org/2000/svg}"
NAN, INFINITY = float("nan"), float("inf")


class PlotCase(ToolCase):
    def write_run(self, name, points, tag="loss"):
        (self.directory / name).mkdir(exist_ok=True)
        data = b"".join(scalars(step, **{tag: value}) for step, value in points)
        self.write(f"{name}/events.out.tfevents.0000000001.a", version() + start(1) + data)

    def plot(self, *arguments, columns=80, locale="C.UTF-8", status=0):
        """The lines of the chart, without the title, the step axis and the legend, and all of it."""
        environment = {**os.environ, "COLUMNS": str(columns), "LC_ALL": locale}
        done = run(TOOL, "events", "plot", *arguments, cwd=self.directory, env=environment)
        self.assertEqual((done.returncode, done.stderr), (status, b""))
        text = done.stdout.decode()
        return text.splitlines()[1:21], text


class Terminal(PlotCase):
    def test_a_line_from_corner_to_corner(self):
        self.write_run("run", [(step, step * 0.1) for step in range(0, 101)])
        rows, text = self.plot("loss", "run")
        width = max(map(len, rows))
        self.assertEqual(width, 80)
        self.assertTrue(BRAILLE.match(rows[0][-1]), rows[0])  # the last value is the highest
        self.assertTrue(BRAILLE.match(rows[-1].split("┤")[-1][0]), rows[-1])
        columns = [BRAILLE.search(row).start() for row in rows]
        self.assertEqual(columns, sorted(columns, reverse=True))
        self.assertEqual([row.split("┤")[0].strip() for row in rows if "┤" in row], ["10", "8", "6", "4", "2", "0"])
        axis = text.splitlines()[22].split()
        self.assertEqual(axis, ["0", "20", "40", "60", "80", "100"])
        self.assertTrue(text.startswith("loss by step\n"))
        self.assertTrue(text.endswith("── run: 101 points, last 10 at step 100\n"), text)

    def test_the_width_is_that_of_the_terminal(self):
        self.write_run("run", [(1, 1), (2, 2)])
        for columns in 30, 61, 120, 399:
            self.assertEqual(max(map(len, self.plot("loss", "run", columns=columns)[1].splitlines()[:-1])), columns)
        for columns, expected in (0, 80), (-5, 30), ("x", 80), (10**9, 400), (10**30, 400):
            self.assertEqual(max(map(len, self.plot("loss", "run", columns=columns)[1].splitlines()[:-1])), expected)
        shown = re.sub("\x1b\\[\\d+m", "", self.terminal("events", "plot", "loss", "run", columns=47, rows=15))
        self.assertEqual(max(map(len, shown.splitlines())), 47)
        self.assertEqual(len(shown.splitlines()), 14)

    def test_colors_are_for_terminals_that_want_them(self):
        self.write_run("run", [(1, 1), (2, 2)])
        self.write_run("other", [(1, 2), (2, 1)])
        shown = self.terminal("events", "plot", "loss", "run", "other")
        self.assertIn("\x1b[36m", shown)
        self.assertIn("\x1b[35m", shown)
        self.assertTrue(BRAILLE.search(shown))
        self.assertNotIn("\x1b", self.terminal("events", "plot", "loss", "run", "other", NO_COLOR="1"))
        self.assertNotIn("\x1b", self.terminal("events", "plot", "loss", "run", "other", TERM="dumb"))
        self.assertIn("\x1b", self.terminal("events", "plot", "loss", "run", "other", NO_COLOR=""))
        self.assertNotIn("\x1b", self.plot("loss", "run", "other")[1])

    def test_without_colors_each_run_has_a_letter(self):
        self.write_run("run", [(1, 1), (100, 1)])
        self.write_run("other", [(1, 2), (50, 2)])
        rows, text = self.plot("loss", "run", "other")
        self.assertEqual(set(rows[-1].split("┤")[-1].strip()), {"a"})
        self.assertEqual(set(rows[0].split("┤")[-1].strip()), {"b"})
        self.assertLess(rows[0].count("b"), rows[-1].count("a"))
        self.assertIn("\na run: 2 points, last 1 at step 100\nb other: 2 points, last 2 at step 50\n", text)

    def test_a_locale_without_utf_8_gets_ascii(self):
        self.write_run("run", [(1, 1), (2, 2)])
        self.assertTrue(self.plot("loss", "run", locale="C")[1].isascii())

    def test_nan_and_infinity_interrupt_the_line(self):
        self.write_run("run", [(1, 0), (50, 0), (51, NAN), (52, INFINITY), (100, -INFINITY), (151, 0), (200, 0)])
        rows, text = self.plot("loss", "run", locale="C")
        line = next(row for row in rows if "*" in row)
        self.assertRegex(line, r"\*{15,} {20,}\*{15,}$")
        self.assertEqual(sum("*" in row for row in rows), 1)
        self.assertIn("7 points, last 0 at step 200, 3 not finite", text)

    def test_no_finite_value(self):
        self.write_run("run", [(1, NAN)])
        self.assertIn("'loss' has no finite value", self.says("events", "plot", "loss", "run"))

    def test_extreme_values(self):
        for values in ([7], [0, 0], [3.4e38, -3.4e38], [1e-45, 2e-45], [1, 1 + 2**-23], [-5, -5], [1e30]):
            self.write_run("run", list(enumerate(values)))
            rows, text = self.plot("loss", "run")
            self.assertTrue(BRAILLE.search("".join(rows)), values)
            self.assertNotRegex(text, r"\bnan\b|\binf\b")

    def test_doubles_may_be_larger_than_floats(self):
        (self.directory / "run").mkdir()
        values = [-1.7e308, 1.7e308]
        data = b"".join(event(step, field(5, field(1, field(1, "loss") + field(8, field(1, 2) + field(2, b"") +
                        field(6, struct.pack("<d", value)))))) for step, value in enumerate(values))
        self.write("run/events.out.tfevents.0000000001.a", data)
        rows, _ = self.plot("loss", "run")
        self.assertTrue(BRAILLE.search(rows[0]) and BRAILLE.search(rows[-1]))

    def test_extreme_steps(self):
        self.write_run("run", [(-2**63, 1), (0, 2), (2**63 - 1, 3)])
        self.assertTrue(BRAILLE.search("".join(self.plot("loss", "run")[0])))


class Selection(PlotCase):
    def series(self, *arguments, status=0):
        return [(s["run"], s["tag"], s["steps"], s["values"]) for s in self.json("events", "plot", "--json", *arguments, status=status)]

    def processor_secs(self, *arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.plot(*arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def test_runs_are_overlaid(self):
        self.write_run("a", [(1, 1), (2, NAN)])
        self.write_run("b", [(1, 3)])
        self.assertEqual(self.series("loss", "a", "b"), [("a", "loss", [1, 2], [1, None]), ("b", "loss", [1], [3])])

    def test_steps_are_selected(self):
        self.write_run("a", [(step, step) for step in range(10)])
        self.assertEqual(self.series("--from", "3", "--to", "5", "loss", "a"), [("a", "loss", [3, 4, 5], [3, 4, 5])])
        self.assertIn("--from: 'x' is not an integer", self.says("events", "plot", "--from", "x", "loss", "a"))

    def test_a_pattern_gives_a_line_for_each_tag(self):
        (self.directory / "a").mkdir()
        self.write("a/events.out.tfevents.1.a", scalars(1, loss=1, lost=2, rate=3) + tensor_scalar(2, "loss", 5))
        self.assertEqual(self.series("los*", "a"), [("a", "loss", [1, 2], [1, 5]), ("a", "lost", [1], [2])])
        self.assertIn("a a: loss: 2 points", self.plot("los*", "a")[1])

    def test_time_grows_as_the_number_of_tags(self):
        (self.directory / "a").mkdir()
        secs = []
        for n in (5000, 20000):
            self.write("a/events.out.tfevents.1.a", scalars(1, **{f"x{i}": i for i in range(n)}))
            secs.append(min(self.processor_secs("*", "a") for _ in range(3)))
        self.assertLess(secs[1], 10 * secs[0])  # 4 times as many; 16 times the time would be quadratic

    def test_points_that_a_restart_made_obsolete_are_left_out(self):
        (self.directory / "a").mkdir()
        self.write("a/events.out.tfevents.1.a", start(1) + b"".join(scalars(step, loss=step) for step in range(1, 6)))
        self.write("a/events.out.tfevents.2.a", start(4) + scalars(4, loss=40) + scalars(5, loss=50))
        self.assertEqual(self.series("loss", "a"), [("a", "loss", [1, 2, 3, 4, 5], [1, 2, 3, 40, 50])])

    def test_each_of_many_restarts_drops_the_points_from_its_step_on(self):
        chance = random.Random(1)
        for _ in range(30):
            data, expected = version(), {"a": [], "b": []}
            for _ in range(chance.randrange(1, 60)):
                step, tag = chance.randrange(20), chance.choice("ab")
                if chance.random() < 0.3:
                    data += start(step)
                    expected = {tag: [point for point in points if point < step] for tag, points in expected.items()}
                else:
                    data += scalars(step, **{tag: 1})
                    expected[tag].append(step)
            if not any(expected.values()):
                continue
            self.write("events.out.tfevents.0000000001.a", data)
            lines = json.loads(run(TOOL, "events", "plot", "--json", "*", str(self.directory)).stdout)
            self.assertEqual({line["tag"]: line["steps"] for line in lines if line["steps"]},
                             {tag: points for tag, points in expected.items() if points})

    def test_missing_tags_and_directories_are_named(self):
        self.write_run("a", [(1, 1)])
        self.assertIn("a: contains no scalar 'lost'", self.says("events", "plot", "lost", "a"))
        self.assertIn("gone", self.says("events", "plot", "loss", "gone"))
        output, said = self.tool("events", "plot", "--json", "loss", "a", "gone", status=2)
        self.assertIn('"run": "a"', output)
        self.assertIn("gone", said)
        self.assertIn("expected", self.says("events", "plot", "loss"))
        self.assertIn("only one of --json and --svg", self.says("events", "plot", "--json", "--svg", "x", "loss", "a"))

    def test_damage_is_skipped_and_named(self):
        (self.directory / "a").mkdir()
        damaged = bytearray(scalars(2, loss=2))
        damaged[20] ^= 1
        self.write("a/events.out.tfevents.1.a", scalars(1, loss=1) + damaged + scalars(3, loss=3))
        output, said = self.tool("events", "plot", "--json", "loss", "a", status=1)
        self.assertIn("bytes skipped", said)
        self.assertRegex(output, r'"steps": \[1, 3\]')

    def test_hostile_names_are_escaped(self):
        name = "run\x1b[2J"
        self.write_run(name, [(1, 1), (2, 2)], tag="\x1b]0;x\x07\n")
        text = self.plot("*", name)[1]
        self.assertNotIn("\x1b", text)
        self.assertIn("run\\x1b[2J: 2 points", text)


class Svg(PlotCase):
    def svg(self, *arguments, status=0):
        self.assertEqual(self.prints("events", "plot", "--svg", "chart.svg", *arguments, status=status), "")
        return xml.fromstring(self.bytes_of("chart.svg"))

    def lines(self, root):
        return [[tuple(map(float, point.split(","))) for point in line.get("points").split()] for line in root.iter(f"{SVG}polyline")]

    def texts(self, root):
        return [text.text for text in root.iter(f"{SVG}text")]

    def test_a_picture_of_two_runs(self):
        self.write_run("a", [(0, 0), (50, 1), (100, 0)])
        self.write_run("b", [(0, 1), (100, 1)])
        root = self.svg("loss", "a", "b")
        first, second = self.lines(root)
        self.assertEqual(first[0], (80, 380))
        self.assertIn((430, 40), first)
        self.assertEqual(first[-1], (780, 380))
        self.assertEqual({y for _, y in second}, {40})
        for text in "loss", "a", "b", "0", "0.2", "1", "step", "100":
            self.assertIn(text, self.texts(root))

    def test_nan_interrupts_the_line(self):
        self.write_run("a", [(0, 0), (1, 1), (2, NAN), (3, 1), (4, INFINITY), (5, 1), (6, 0)])
        self.assertEqual(len(self.lines(self.svg("loss", "a"))), 3)

    def test_a_long_run_gives_a_small_file_with_all_peaks(self):
        points = [(step, math.sin(step / 300) + (5 if step == 12345 else -5 if step == 23456 else 0)) for step in range(30000)]
        self.write_run("a", points)
        (line,) = self.lines(self.svg("loss", "a"))
        self.assertLess(len(self.bytes_of("chart.svg")), 150000)
        self.assertEqual((min(y for _, y in line), max(y for _, y in line)), (40, 380))
        self.assertEqual([x for x, _ in line], sorted(x for x, _ in line))

    def test_names_are_escaped(self):
        name = "a&<b>\"'\x01\x7f\udcff\uffff"
        self.write_run(name, [(1, 1)], tag="<&")
        texts = self.texts(self.svg("*", name))
        self.assertIn("a&<b>\"'\ufffd\ufffd\ufffd\ufffd", texts)

    def test_a_file_that_cannot_be_written(self):
        self.write_run("a", [(1, 1)])
        self.assertIn("gone", self.says("events", "plot", "--svg", "gone/chart.svg", "loss", "a"))
        (self.directory / "taken").mkdir()
        self.assertIn("taken", self.says("events", "plot", "--svg", "taken", "loss", "a"))
        self.assertEqual(sorted(os.listdir(self.directory)), ["a", "taken"])

    def test_a_file_that_is_not_regular_stays(self):
        self.write_run("a", [(1, 1)])
        os.mkfifo(self.directory / "fifo")
        os.symlink("/dev/null", self.directory / "link")
        for name in "fifo", "link":
            self.assertIn(f"{name}: is not a regular file", self.says("events", "plot", "--svg", name, "loss", "a"))
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.directory / "fifo").st_mode))
        self.assertEqual(os.readlink(self.directory / "link"), "/dev/null")
        self.assertEqual(sorted(os.listdir(self.directory)), ["a", "fifo", "link"])

    def test_an_earlier_file_stays_if_there_is_nothing_to_draw(self):
        self.write_run("a", [(1, NAN)])
        self.write("chart.svg", b"earlier")
        self.says("events", "plot", "--svg", "chart.svg", "loss", "a")
        self.assertEqual(self.bytes_of("chart.svg"), b"earlier")


class Styles(PlotCase):
    def test_listings_have_colors_on_a_terminal(self):
        (self.directory / "run").mkdir()
        self.save("run/model-1", 1, 1)
        self.assertIn("\x1b[32mrun/model-1", self.terminal("checkpoint", "ls", "run"))
        self.assertNotIn("\x1b", self.terminal("checkpoint", "ls", "run", NO_COLOR="1"))
        self.assertIn("\x1b[33munknown\x1b[0m", self.terminal("status", "run"))


class Many(PlotCase):
    """Time in proportion to the file. With time in proportion to its square, these would take minutes, and run() ends them."""

    def write_events(self, data):
        (self.directory / "run").mkdir()
        self.write("run/events.out.tfevents.0000000001.a", version() + data)

    def test_tags(self):
        values = b"".join(field(1, field(1, f"tag{i}") + field(2, 1.0)) for i in range(400000))
        self.write_events(event(1, field(5, values)))
        done = run(TOOL, "events", "plot", "--svg", "all.svg", "*", "run", cwd=self.directory)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual((self.directory / "all.svg").read_bytes().count(b"<polyline"), 400000)

    def test_starts(self):
        self.write_events(scalars(1, loss=1.0) * 400000 + start(2) * 400000)
        self.assertTrue(self.plot("loss", "run")[1].endswith(": 400000 points, last 1 at step 1\n"))


if __name__ == "__main__":
    unittest.main()
