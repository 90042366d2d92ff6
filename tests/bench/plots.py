#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plots of docs/benchmarks.md, from docs/bench/results.jsonl.

    plots.py DOCS                            draws them again. DOCS: the folder docs/
    plots.py DOCS check                      fails if one is out of date
    plots.py DOCS record SITTING COMMAND...  runs a benchmark and replaces the figures of a sitting with its output

A sitting is one run of a benchmark, with its peers and limits. Its first line has the command, the machine and the
versions; each other line has a figure: `value`, or `low` and `high` for a range over several runs. Plots show ratios to a limit
of the same sitting, so that figures of different sittings can stand in one plot. They can be read on light and dark pages."""
import json
import math
import pathlib
import platform
import subprocess
import sys
from xml.sax.saxutils import escape

RESULTS = "bench/results.jsonl"
LABEL, BARS, VALUE, ROW, HEAD, FOOT, GAP = 210, 270, 100, 26, 52, 30, 40
TEXT, OURS, OTHER = "#768390", "#3f8ae0", "#9aa4af"  # enough contrast on white and on black

# A panel: title, what 1 means, logarithmic or not, and bars: label, sitting, figure, and whether 1 / value is shown.
STEP = ("A step with five idle hooks", "1 = a bare C loop that calls five hooks", True, [
    ("bare C loop", None, None, False),
    ("libhooksess", "step", "hooked_step_over_bare", False),
    ("Python loop, five objects", "loops of peers", "python_loop_over_c", False),
    ("Keras CallbackList", "loops of peers", "keras_callback_list_over_c", False),
    ("TensorFlow MonitoredSession", "step", ("tensorflow_five_hooks_over_bare_ns", "bare_loop_ns"), False),
    ("Lightning, manual loop", "loops of peers", "lightning_manual_over_c", False),
])
SAVE = ("A durable save of 1 GiB", "1 = write and fsync of the same bytes in C", False, [
    ("write + fsync", None, None, False),
    ("libhooksess", "checkpoint", "save_over_limit", True),
    ("safetensors + fsync", "saves of peers", "safetensors_over_write", False),
    ("TensorFlow Saver + fsync", "saves of peers", "tensorflow_saver_over_write", False),
    ("torch.save + fsync", "saves of peers", "torch_over_write", False),
    ("Orbax", "saves of peers", "orbax_over_write", False),
])
STALL = ("Training waits for a background save", "1 = memcpy of the state", False, [
    ("memcpy", None, None, False),
    ("libhooksess", "checkpoint", "stall_over_memcpy", False),
    ("libhooksess, overlap", "checkpoint", "stall_declared_over_memcpy", False),
    ("TensorFlow async, with update", "saves of peers", "tensorflow_async_stall_and_update_over_memcpy", False),
    ("Orbax async", "saves of peers", "orbax_async_stall_over_memcpy", False),
])
EVENTS = ("Time of a scalar in an event file", "1 = a C loop that writes the same records", True, [
    ("C loop", None, None, False),
    ("libhooksess", "events", "scalars_over_limit", True),
    ("tensorboard_logger (C++)", "events of peers", "tensorboard_logger_over_c", False),
    ("TensorFlow FileWriter", "events of peers", "tensorflow_file_writer_over_c", False),
    ("tensorboardX", "events of peers", "tensorboardx_over_c", False),
    ("torch SummaryWriter", "events of peers", "torch_over_c", False),
    ("tf.summary, eager", "events of peers", "tensorflow_summary_eager_over_c", False),
])
PLOTS = {"cost.svg": (STEP, SAVE), "bench/stall.svg": (STALL,), "bench/events.svg": (EVENTS,)}


def figures_of(results):
    """{(sitting, name): (low, high)}"""
    lines = [json.loads(line) for line in results.splitlines()]
    return {(line["sitting"], line["name"]): (line.get("low", line.get("value")), line.get("high", line.get("value")))
            for line in lines if "name" in line}


def range_of(figures, sitting, name, inverse):
    if sitting is None:
        return 1.0, 1.0
    names = name if isinstance(name, tuple) else (name,)
    missing = [part for part in names if (sitting, part) not in figures]
    if missing:
        sys.exit(f"docs/{RESULTS} lacks the figure '{missing[0]}' of the sitting '{sitting}'")
    (low, high), *limits = (figures[sitting, part] for part in names)
    for low_limit, high_limit in limits:
        low, high = low / high_limit, high / low_limit
    return (1 / high, 1 / low) if inverse else (low, high)


def number(value):
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 20 else f"{value:.2g}" if value < 0.995 or value >= 3 else f"{value:.2f}"


def text(x, y, content, anchor="start", size=13, weight="normal"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">{escape(content)}</text>'


def draw_panel(panel, figures, left):
    title, unit, logarithmic, bars = panel
    ranges = [range_of(figures, *bar[1:]) for bar in bars]
    most = max(high for _, high in ranges)
    zero = left + LABEL

    def width(value):
        return BARS * (math.log10(max(value, 1) * 1.5) / math.log10(most * 1.5) if logarithmic else value / most)

    lines = [text(left, 20, title, size=15, weight="bold"), text(left, 40, unit + (", logarithmic" if logarithmic else ""), size=12)]
    for i, ((label, *_), (low, high)) in enumerate(zip(bars, ranges)):
        y = HEAD + i * ROW
        color = OURS if label.startswith("libhooksess") else OTHER
        lines.append(text(zero - 8, y + 16, label, "end"))
        lines.append(f'<rect x="{zero}" y="{y + 4}" width="{max(width(high), 1.5):.1f}" height="{ROW - 9}" rx="2" fill="{color}"/>')
        shown = number(high) if number(low) == number(high) else f"{number(low)} to {number(high)}"
        lines.append(text(zero + width(high) + 6, y + 16, shown, weight="bold" if color == OURS else "normal"))
    return lines


def draw(panels, figures):
    step = LABEL + BARS + VALUE + GAP
    size = step * len(panels) - GAP, HEAD + ROW * max(len(panel[3]) for panel in panels) + FOOT
    title = "; ".join(f"{panel[0]} ({panel[1]})" for panel in panels)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" role="img" '
             f'font-family="sans-serif" fill="{TEXT}">', f"<title>{escape(title)}</title>"]
    for i, panel in enumerate(panels):
        lines += draw_panel(panel, figures, i * step)
    lines.append(text(0, size[1] - 8, "Less is better. Figures, machine and commands: docs/benchmarks.md", size=11))
    return "\n".join([*lines, "</svg>", ""])


def record(results, sitting, command):
    """The results with those of a new sitting."""
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    old = [line for line in results.splitlines() if json.loads(line)["sitting"] != sitting]
    head = {"sitting": sitting, "command": " ".join(command), "machine": f"{platform.machine()}, {platform.platform()}"}
    return "\n".join(old + [json.dumps(line) for line in (head, *({"sitting": sitting} | figure for figure in found))]) + "\n"


def main(arguments):
    docs, what = pathlib.Path(arguments[0] if arguments else ""), arguments[1:]
    recording = what[:1] == ["record"] and len(what) > 2
    if not arguments or not (recording or what in ([], ["check"])):
        sys.exit(__doc__)
    results = (docs / RESULTS).read_text()
    if recording:
        results = record(results, what[1], what[2:])
    figures = figures_of(results)
    pictures = {docs / name: draw(panels, figures) for name, panels in PLOTS.items()}
    if what == ["check"]:
        for path, picture in pictures.items():
            if not path.exists() or path.read_text() != picture:
                sys.exit(f"{path} is out of date: tests/bench/plots.py draws it again")
        return
    for path, content in ({docs / RESULTS: results} | pictures).items():
        path.write_text(content)


if __name__ == "__main__":
    main(sys.argv[1:])
