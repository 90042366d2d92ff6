#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""floors.py NM SRC OBJECT...: a folder of src/ depends on folders of lower floors only, so no cycles exist.

It reads the object files: a symbol that one object leaves undefined belongs to the folder of the object that defines it. It also
reads the includes, because the fields of structs have no symbols. The tool is a program: it uses the public headers, its own, and
those of files that are compiled into it, with all that these need."""
import os
import pathlib
import re
import subprocess
import sys

# From the ground up. Folders of one floor do not know each other.
FLOORS = [
    ["base"],
    ["backends", "formats", "ranks"],
    ["backends/graph"],
    ["checkpoint", "summary", "threads"],
    ["session"],
    ["hooks"],
    ["drivers"],
    ["tf1", "testing", "tensorflow", "mpi", "cuda"],
]
FLOOR_OF = {folder: floor for floor, folders in enumerate(FLOORS) for folder in folders}
OF_TOOL = {"base/json_reader.h", "base/json_writer.h", "base/similar_name.h", "base/text.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def folder_of(path):
    """The longest known folder at the beginning of the path. None: the path is in no known folder."""
    folders = str(path).split("/")[:-1]
    prefixes = ["/".join(folders[:n]) for n in range(len(folders), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in FLOOR_OF), None)


def goes_up(folder, other):
    return folder != other and FLOOR_OF[folder] <= FLOOR_OF[other]


def wrong_includes(source):
    """Includes of the sources that do not point down, and how many sources there are."""
    wrong, files = [], sorted(source.rglob("*.[ch]"))
    for path in files:
        name = path.relative_to(source)
        included = INCLUDE.findall(path.read_text())
        if name.parts[0] == "tool":
            wrong += [f'{name}: includes "{other}"' for other in included
                      if "/" in other and other not in OF_TOOL or other.endswith(".pb-c.h")]
            continue
        folder = folder_of(name)
        if not folder:
            wrong.append(f"{name}: its folder stands on no floor")
            continue
        for other in included:
            if "/" in other and goes_up(folder, folder_of(other)):
                wrong.append(f'{name}: includes "{other}", which is not below it')
    return wrong, len(files)


def source_of(path):
    """The path in src/ of the source of an object."""
    name = re.sub(r"\.o$", "", re.sub(r"^.*/src/(.*/)?CMakeFiles/[^/]*\.dir/", r"\1", path))
    return os.path.normpath(name.replace("__/", "../"))  # as CMake writes it


def read_symbols(nm, flag, objects):
    """A list of (source, symbol) of the library's symbols."""
    lines = subprocess.run([nm, "-A", flag, *objects], check=True, capture_output=True, text=True).stdout.splitlines()
    pairs = [(source_of(line.split(":")[0]), line.split()[-1]) for line in lines]
    return [(source, name) for source, name in pairs if name.startswith("hs_")]


def wrong_symbols(nm, objects):
    """References to symbols that do not point down, and how many references there are."""
    home = {name: source for source, name in read_symbols(nm, "--defined-only", objects)}
    used = [pair for pair in read_symbols(nm, "--undefined-only", objects) if pair[1] in home]
    strangers = sorted({source for source in home.values() if not folder_of(source)})
    wrong = [f"{source}: its folder stands on no floor" for source in strangers]
    for source, name in used if not strangers else []:
        if goes_up(folder_of(source), folder_of(home[name])):
            wrong.append(f"{source}: refers to {name} of {home[name]}, which is not below it")
    return wrong, len(used)


def main(nm, source, objects):
    includes, n_files = wrong_includes(pathlib.Path(source))
    symbols, n_references = wrong_symbols(nm, objects)
    if includes or symbols or not n_files or not n_references:
        sys.exit("\n".join(includes + symbols) or "there is nothing to look at")
    print(f"{n_files} files and {n_references} references between objects point down")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
