#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make.py BUILD [NAME...]: makes the pictures in docs/pictures from runs of the programs of a build.
make.py --check BUILD NAME...: makes SVG pictures, and fails if other words or shapes are in docs/pictures.

  step.svg          which callbacks a session calls around a step (step.c)
  resume.svg        a training that is killed and started again (examples/adopt)
  terminal.svg      the trainer in a terminal, stopped with Ctrl-C and started again
  tensorboard.png   the trainer in TensorBoard. Needs a Python with TensorBoard, Chromium and its driver

Without names: all. The trainer needs Debian's dataset-fashion-mnist, and takes half a minute.
"""
import html
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import types

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 300
TEXT, SOFT, LINE, MARK, LOST = "#1c1e21", "#5c636b", "#0b5cad", "#1b7f3c", "#c0392b"


class Svg:
    def __init__(self, width, height, title, font="system-ui, sans-serif", background="#ffffff"):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                      f'font-family="{font}" font-size="14" role="img">\n<title>{html.escape(title)}</title>\n'
                      f'<rect width="{width}" height="{height}" fill="{background}"/>']

    def text(self, x, y, text, color=TEXT, anchor="start", **more):
        extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
        self.parts.append(f'<text x="{x:g}" y="{y:g}" fill="{color}" text-anchor="{anchor}"{extra}>{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, color=TEXT, width=1, **more):
        extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" stroke-width="{width}"{extra}/>')

    def arrow(self, x1, y1, x2, y2, color=TEXT):
        self.line(x1, y1, x2, y2, color)
        if y1 == y2:
            back = 7 if x1 < x2 else -7
            points = f"{x2:g},{y2:g} {x2 - back:g},{y2 - 4:g} {x2 - back:g},{y2 + 4:g}"
        else:
            back = 7 if y1 < y2 else -7
            points = f"{x2:g},{y2:g} {x2 - 4:g},{y2 - back:g} {x2 + 4:g},{y2 - back:g}"
        self.parts.append(f'<polygon points="{points}" fill="{color}"/>')

    def __str__(self):
        return "\n".join([*self.parts, "</svg>\n"])


def lines_of(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE, **options).stdout.splitlines()


def step(build, folder):
    """Three columns, and a row for each line that step.c prints."""
    printed = [line.split(" ", 1) for line in lines_of(build / "tests/pictures/step", cwd=folder)]
    columns, top, row = {"loop": 110, "session": 320, "hook": 530}, 60, 28
    picture = Svg(640, top + row * len(printed) + 20, "the calls of a training loop, and the callbacks of a hook, in their order")
    for name, title in (("loop", "your loop"), ("session", "session"), ("hook", "a hook")):
        picture.text(columns[name], 28, title, anchor="middle", font_weight="bold")
        picture.line(columns[name], 40, columns[name], top + row * len(printed), "#d9dde2", 2)
    steps = 0
    for i, (who, what) in enumerate(printed):
        y = top + row * i + row / 2
        if what == "hs_step_begin":
            steps += 1
            picture.line(10, y - row / 2, 630, y - row / 2, "#d9dde2", 1, stroke_dasharray="3 3")
            picture.text(14, y - 1, f"step {steps}" if any(other == "your mathematics" for _, other in printed[i:]) else "end", SOFT, font_size=11)
        if who == "hook":
            picture.arrow(columns["session"], y, columns["hook"] - 4, y, LINE)
            picture.text((columns["session"] + columns["hook"]) / 2, y - 4, what, LINE, "middle")
        elif what.startswith("hs_"):
            picture.arrow(columns["loop"], y, columns["session"] - 4, y)
            picture.text((columns["loop"] + columns["session"]) / 2, y - 4, what, anchor="middle")
        else:
            picture.parts.append(f'<rect x="{columns["loop"] - 75:g}" y="{y - 12:g}" width="150" height="22" rx="4" fill="#fff3c4" stroke="#e0c766"/>')
            picture.text(columns["loop"], y + 4, what, anchor="middle")
    return str(picture)


def resume(build, folder):
    """A row for each of two runs. The first one is killed in step 2601 or a few later."""
    program = build / "examples/adopt/adopt_after"
    process = subprocess.Popen([program], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pipesize=4096)
    for _ in range(2600):
        process.stdout.readline()
    process.kill()
    reached = 2600 + sum(line.endswith("\n") for line in process.stdout)
    first = process.stderr.read()
    process.wait()
    second = subprocess.run([program], cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True)
    whole = subprocess.run([program], cwd=folder / "run", capture_output=True, text=True, timeout=PATIENCE, check=True)
    last = int(second.stdout.splitlines()[-1].split()[0])
    (restored,) = map(int, re.findall(r"step (\d+): restored", second.stderr))
    if second.stdout.splitlines() != whole.stdout.splitlines()[restored:]:
        raise AssertionError("the second run has other losses than a run without a kill")
    saves = [list(map(int, re.findall(r"step (\d+): saved", log))) for log in (first, second.stderr)]

    x = lambda step: 130 + 580 * step / last
    picture = Svg(760, 230, f"a training that was killed at step {reached} and continued from step {restored}")
    for title, y in (("first run", 70), ("second run", 150)):
        picture.text(110, y + 5, title, anchor="end", font_weight="bold")
    picture.line(x(0), 70, x(restored), 70, LINE, 4)
    picture.line(x(restored), 70, x(reached), 70, LOST, 4, stroke_dasharray="5 4")
    picture.text(x(reached) + 10, 75, f"kill -9 at step {reached}", LOST)
    picture.text((x(restored) + x(reached)) / 2, 48, "lost, computed again", LOST, "middle", font_size=12)
    picture.arrow(x(restored), 78, x(restored), 138, SOFT)
    picture.text(x(restored) + 8, 115, f"restored from the checkpoint of step {restored}", SOFT, font_size=12)
    picture.line(x(restored), 150, x(last), 150, LINE, 4)
    for steps, y in zip(saves, (70, 150)):
        for at in steps:
            picture.parts.append(f'<circle cx="{x(at):g}" cy="{y}" r="6" fill="{MARK}"/>')
    picture.parts.append(f'<circle cx="{x(last / 4):g}" cy="212" r="6" fill="{MARK}"/>')
    picture.text(x(last / 4) + 12, 217, "a checkpoint. The second run prints the losses of a run without a kill.", SOFT, font_size=12)
    for at in range(0, last + 1, 1000):
        picture.text(x(at), 185, str(at), SOFT, "middle", font_size=12)
    return str(picture)


class Terminal:
    """A shell in a terminal of 100 columns."""

    COLUMNS, ROWS = 100, 40

    def __init__(self, folder, path):
        self.output = b""
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            environment = {**os.environ, "PS1": "$ ", "TERM": "xterm", "PATH": f"{path}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
            os.execvpe("dash", ["dash", "-i"], environment)
        import fcntl
        import termios
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", self.ROWS, self.COLUMNS, 0, 0))

    def read_until(self, expression, start=0):
        """Reads until what was printed since `start` matches."""
        until = time.monotonic() + PATIENCE
        while not re.search(expression, self.output[start:]):
            ready, _, _ = select.select([self.file], [], [], until - time.monotonic())
            if not ready:
                raise AssertionError(f"no {expression}:\n{self.output.decode(errors='replace')}")
            self.output += os.read(self.file, 65536)

    def type(self, text):
        os.write(self.file, text.encode())

    def stop(self):
        os.close(self.file)
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)

    def screen(self):
        """Rows of characters with their SGR codes. Knows what programs without a full screen use."""
        rows, x, style = [[]], 0, ""
        text = self.output.decode(errors="replace")
        for m in re.finditer(r"\x1b\[(\d*)(?:;[\d;]*)?([A-Za-z])|\x1b\[\?[\d;]*[hl]|(\r)|(\n)|(\x08)|([^\x1b])", text):
            number, command, to_start, newline, back, character = m.groups()
            row = rows[-1]
            if command == "K":
                del row[x if number in ("", "0") else 0 :]
            elif command == "m":
                style = number if number not in ("", "0") else ""
            elif command == "A":
                raise AssertionError("the program moves up, which this terminal cannot do")
            elif to_start:
                x = 0
            elif newline:
                rows.append([])
                x = 0
            elif back:
                x = max(0, x - 1)
            elif character:
                row += [(" ", "")] * (x - len(row))
                row[x : x + 1] = [(character, style)]
                x += 1
        return rows


def terminal(build, folder):
    window = Terminal(folder, build / "examples/trainer")
    try:
        window.read_until(rb"\$ ")
        window.type("trainer --epochs 3\n")
        window.read_until(rb"step 7\d\d")
        window.type("\x03")
        window.read_until(rb"\n\$ $")
        end = len(window.output)
        window.type("trainer --epochs 3\n")
        window.read_until(rb"\n\$ $", end)
        rows = window.screen()[:-1]
    finally:
        window.stop()
    width, height, row, column = 16 + 7.8 * window.COLUMNS, 20 + 19 * len(rows), 19, 7.8
    picture = Svg(width, height, "the trainer in a terminal, stopped with Ctrl-C and started again", "ui-monospace, DejaVu Sans Mono, monospace", "#15181c")
    colors = {"": "#e3e6ea", "1": "#ffffff", "2": "#9aa3ad", "31": "#ff8a80", "32": "#8ed99f", "33": "#f3d27a", "34": "#7db7f5", "36": "#7fdbe6"}
    for i, cells in enumerate(rows):
        text = "".join(character for character, _ in cells).rstrip()
        styles = {style for _, style in cells} or {""}
        color = "#8ed99f" if text.startswith("$ ") else colors.get(next(iter(styles)) if len(styles) == 1 else "", "#e3e6ea")
        if text:
            picture.text(8, 24 + row * i, text, color, xml__space="preserve", font_size=13,
                         textLength=f"{column * len(text):g}")
    return str(picture).replace("xml--space", "xml:space")


def tensorboard(build, folder):
    """A screenshot of the scalars of a training of three epochs."""
    sys.path.insert(0, str(SOURCE / "tests/interop"))
    from browser import Browser
    from test_tensorboard import Server
    subprocess.run([build / "examples/trainer/trainer", "--epochs", "3", "--summary-steps", "10", "--no-progress"], cwd=folder, check=True,
                   capture_output=True, timeout=PATIENCE)
    cleanups = []
    server = Server(types.SimpleNamespace(addCleanup=cleanups.append), folder / "run")
    window = Browser()
    try:
        window.resize(1150, 620)
        window.open(f"{server.address}/#scalars&_smoothingWeight=0&tagFilter=loss%7Caccuracy")
        window.wait(lambda: window.run("return all('tf-scalar-card').filter(shown).length;") >= 2, "no chart")
        time.sleep(5)  # until the charts are drawn
        window.save_screenshot(folder / "tensorboard.png")
    finally:
        window.stop()
        for cleanup in cleanups:
            cleanup()
    return (folder / "tensorboard.png").read_bytes()


def without_numbers(svg):
    """The kill comes at a different moment in each run."""
    return re.sub(r"[\d.]+", "0", svg)


def main():
    pictures = {"step.svg": step, "resume.svg": resume, "terminal.svg": terminal, "tensorboard.png": tensorboard}
    check = sys.argv[1:2] == ["--check"]
    build, *names = sys.argv[1 + check :] or sys.exit(__doc__)
    for name in names or pictures:
        with tempfile.TemporaryDirectory() as folder:
            made = pictures[name](pathlib.Path(build).resolve(), pathlib.Path(folder))
        path = SOURCE / "docs/pictures" / name
        if check:
            if without_numbers(made) != without_numbers(path.read_text()):
                sys.exit(f"{path} is not what the program draws now: {sys.argv[0]} {build} {name} makes it again")
            continue
        path.write_bytes(made if isinstance(made, bytes) else made.encode())
        print(path)


if __name__ == "__main__":
    main()
