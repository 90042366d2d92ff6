#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""floors_picture.py PICTURE NM OBJECT...: compares docs/floors.svg with the references between the object files.
With --write before PICTURE it writes the picture.

An arrow means that the upper folder refers to symbols of the lower folder. Arrows that follow from other arrows are omitted."""
import pathlib
import sys

import floors

WIDTH, ROW, BOX, MARGIN = 760, 90, 40, 20
# Where boxes stand in their rows, in percent, so that no arrow passes behind a box. Others are spread evenly.
PLACE = {"backends": 30, "formats": 72, "ranks": 10, "backends/graph": 84, "checkpoint": 18, "summary": 50, "threads": 82,
         "session": 56, "hooks": 32, "drivers": 14, "tf1": 14, "testing": 38}


def read_references(nm, objects):
    """Pairs of folders, the upper one first."""
    home = {name: source for source, name in floors.read_symbols(nm, "--defined-only", objects)}
    used = floors.read_symbols(nm, "--undefined-only", objects)
    pairs = {(floors.folder_of(source), floors.folder_of(home[name])) for source, name in used if name in home}
    return {(upper, lower) for upper, lower in pairs if upper != lower}


def without_implied(pairs):
    """The pairs that do not follow from a way over a third folder."""
    reached = {upper: {lower for a, lower in pairs if a == upper} for upper, _ in pairs}

    def below(folder):
        lower = reached.get(folder, set())
        return lower.union(*(below(other) for other in lower)) if lower else set()

    return {(upper, lower) for upper, lower in pairs
            if not any(lower in below(other) for other in reached[upper] if other != lower)}


def draw(pairs):
    place, lines = {}, []
    height = len(floors.FLOORS) * ROW + MARGIN
    for floor, folders in enumerate(floors.FLOORS):
        y = height - (floor + 1) * ROW
        for i, folder in enumerate(folders):
            place[folder] = (WIDTH * PLACE.get(folder, 100 * (2 * i + 1) / (2 * len(folders))) / 100, y)
    for upper, lower in sorted(pairs):
        (x1, y1), (x2, y2) = place[upper], place[lower]
        lines.append(f'<line x1="{x1:.0f}" y1="{y1 + BOX:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" marker-end="url(#arrow)"/>')
    for folder, (x, y) in place.items():
        half = 5 * len(folder) + 14
        lines.append(f'<rect x="{x - half:.0f}" y="{y:.0f}" width="{2 * half}" height="{BOX}" rx="5"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + BOX / 2 + 5:.0f}">{folder}</text>')
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="15">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#567"/></marker></defs>',
        '<style>rect{fill:#eef3f8;stroke:#567}line{stroke:#567}text{text-anchor:middle;fill:#123}</style>',
        f'<rect x="0" y="0" width="{WIDTH}" height="{height}" style="fill:#fff;stroke:none"/>', *lines, "</svg>", ""])


def main(arguments):
    write = arguments[0] == "--write"
    path, nm, *objects = arguments[write:]
    pairs = read_references(nm, objects)
    if any(floors.goes_up(upper, lower) for upper, lower in pairs):
        sys.exit("a folder refers to a folder that is not below it; floors.py prints which")
    picture = draw(without_implied(pairs))
    if write:
        pathlib.Path(path).write_text(picture)
    elif pathlib.Path(path).read_text() != picture:
        sys.exit(f"{path} is out of date: floors_picture.py --write makes it again")


if __name__ == "__main__":
    main(sys.argv[1:])
