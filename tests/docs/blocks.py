#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""blocks.py --write FOLDER DOCUMENT...: writes the programs of cuda blocks to FOLDER.
blocks.py [--empty] PREFIX DOCUMENT...: compiles and runs the code blocks of documents, against the library in PREFIX.

  block              what happens
  c, cpp             with `main(`: it is compiled and run in an empty directory, and must exit with 0
  c, cpp, cmake      with a frame: the block is inserted into a file of frames/, which is compiled and run, or built
  cuda               with a frame: the same, over the stand-in for CUDA's driver. Where nvcc is, it must compile it, too
  sh                 runs; all commands must succeed. The sh and console blocks of a document share one shell and directory
  console            the lines after "$ " run (after "> ": the command continues), and must print the lines that follow
  text, diff, json   nothing, as for each block in another language; a block must name its language

Comments directly before a block change this:

  <!-- frame: NAME -->     inserts a c, cpp, cuda or cmake block into frames/NAME.c, .cpp, .cuda or .cmake, at the line that is
                           /* BLOCK */ or # BLOCK (CMake). A fragment needs a frame, which checks the effect
  <!-- frame: NAME 2 -->   the same for the second such line. A frame with several lines takes as many blocks, in order
  <!-- file: NAME -->      writes the block to NAME in the shell's directory, for the sh and console blocks that follow.
                           Then a c, cpp or cmake block needs neither `main(` nor a frame
  <!-- exit: N -->         the exit code of the block's program
  <!-- varies: REGEX because REASON -->   text that matches may differ in the output of a console block. Parts of lines only.
                                          The reason names its dependency: the time, the machine, another library
  <!-- same: REGEX because REASON -->     the same, but equal texts in the block must be equal in the output

What a program prints each time, on each machine, is compared: show the output of a run, and hide no digit of it. Of a number
whose last digits vary, hide these alone: (?<=0.045)[0-9]+

With --empty, each frame must also fail, or not compile, if one of its blocks is empty.

Frames may include the headers in frames/. In the shell, the programs in stubs/ replace programs that need a cluster or a network
service. `python3` is the Python that runs this script.
The shell's directory has links to the folders of the source.
If GGML is set, the directory has this folder as `ggml`: ggml's source, or what replaces it.
Variables of the shell: CC, CXX, SOURCE (the source), PREFIX (the installed library), TENSORFLOW_ROOT.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
TIMEOUT = 300
CC, CXX = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
COMPILERS = {"c": [CC, "-x", "c", "-std=gnu11"], "cpp": [CXX, "-x", "c++", "-std=c++20"]}
LINES = {"c": "/* BLOCK */", "cpp": "/* BLOCK */", "cuda": "/* BLOCK */", "cmake": "# BLOCK"}
TESTS = SOURCE / "tests"
LINKED = {"hooksess/testing.h": ["hooksess_testing"], "hooksess/cuda.h": ["hooksess_cuda"],
          "cmocka.h": ["cmocka"]}  # packages of pkg-config that headers need
KILLED = re.compile(r"^\S+: line \d+: +\d+ (Killed|Terminated).*$", re.M)  # a terminal shows the word alone


class Wrong(Exception):
    pass


class Block:
    def __init__(self, document, line, language, comments, lines):
        self.document, self.line, self.language, self.lines = document, line, language, lines
        self.text = "".join(line + "\n" for line in lines)
        self.varies = []
        for key, value in comments:
            if key in ("varies", "same"):
                expression, _, reason = value.partition(" because ")
                if not reason.strip():
                    raise self.wrong(f"'{key}: {value}' lacks its reason: {key}: REGEX because REASON")
                self.varies.append((key, expression))
        self.seen = {}  # printed texts, by the shown ones
        single = dict(comments)
        self.frame, _, number = single.get("frame", "").partition(" ")
        self.number = int(number or 1)
        self.file = single.get("file")
        self.exit = int(single.get("exit", 0))
        unknown = set(single) - {"frame", "file", "exit", "varies", "same"}
        if unknown:
            raise self.wrong(f"unknown comment '{unknown.pop()}'")

    def wrong(self, why):
        return Wrong(f"{self.document}:{self.line}: {why}")

    def is_program(self):
        return self.language in COMPILERS and re.search(r"\bmain\s*\(", self.text)

    def source(self):
        """The block with the place that compilers name."""
        return f'#line {self.line + 1} "{self.document}"\n{self.text}' if self.language != "cmake" else self.text


def parse(path):
    """The blocks of a document."""
    blocks, comments, fence, name = [], [], None, os.path.relpath(path, SOURCE)
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if fence:
            indent = fence[1]
            if line.strip() == "```":
                blocks.append(Block(name, fence[0], fence[2], comments, fence[3]))
                comments, fence = [], None
            else:
                fence[3].append(line.removeprefix(indent))
        elif opened := re.fullmatch(r"( *)```(\w*)", line):
            fence = (number, opened[1], opened[2], [])
            if not opened[2]:
                raise Wrong(f"{name}:{number}: a block without its language; `text` is not run")
        elif comment := re.fullmatch(r" *<!-- (\w+): (.*?) -->", line):
            comments.append((comment[1], comment[2]))
        else:
            if comments and comments[0][0] in ("frame", "file", "exit", "varies", "same"):
                raise Wrong(f"{name}:{number}: the comment before it belongs directly before a block")
            comments = []
    if fence:
        raise Wrong(f"{name}:{fence[0]}: a block without an end")
    return blocks


def run(command, directory, environment, where, code=0):
    """Runs the command in a new process group. Returns its output."""
    process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        output = f"more than {TIMEOUT} s"
        code = None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # its processes in the background
        except ProcessLookupError:
            pass
        process.wait()
    if process.returncode != code:
        raise where(f"{' '.join(map(str, command))}\n{output}\nexit code {process.returncode}, not {code}")
    return output


class Tester:
    """Compiles and runs blocks, in a new directory each."""

    def __init__(self, prefix, directory, empty):
        self.prefix, self.directory, self.empty, self.n = prefix, directory, empty, 0
        libraries = next(prefix.rglob("libhooksess.so"), None)
        if not libraries:
            sys.exit(f"{prefix}: no libhooksess.so")
        self.libraries = str(libraries.parent)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HOOKSESS_")},
            "CC": CC, "CXX": CXX, "PREFIX": str(prefix), "SOURCE": str(SOURCE), "HOME": str(directory), "LC_ALL": "C.UTF-8",
            "PATH": f"{HERE}/stubs:{prefix}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "PYTHONPATH": f"{HERE}/stubs",
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")),  # HOME is another one
            "LD_LIBRARY_PATH": self.libraries,
            "PKG_CONFIG_PATH": f"{self.libraries}/pkgconfig", "CMAKE_PREFIX_PATH": str(prefix)}

    def new_directory(self):
        self.n += 1
        path = self.directory / str(self.n)
        path.mkdir()
        return path

    def flags(self, text, where):
        packages = ["hooksess", *(name for header, names in LINKED.items() if f"<{header}>" in text for name in names)]
        flags = run(["pkg-config", "--cflags", "--libs", *packages], self.directory, self.environment, where).split()
        if re.search(r"<hooksess/tensorflow\w*\.h>", text):
            flags.append("-lhooksess_tensorflow")
        return [*flags, "-lm", "-pthread"]

    def program(self, language, text, code, where):
        """Compiles and runs a program."""
        if "-lhooksess_tensorflow" in self.flags(text, where) and not list(self.prefix.rglob("libhooksess_tensorflow.so")):
            print("skipped, as the library for TensorFlow's graphs is not built:", where(""))
            return
        folder = self.new_directory()
        source, program = folder / f"program.{language}", folder / "program"
        source.write_text(text)
        run([*COMPILERS[language], *WARNINGS, "-iquote", HERE / "frames", "-O1", "-g", source, "-o", program, "-x", "none",
             *self.flags(text, where)],
            folder, self.environment, where)
        run([program], self.new_directory(), self.environment, where, code)

    def cuda(self, name, text, where):
        """Runs a program over the stand-ins of tests/cuda. Launches become calls of fake_kernel. nvcc compiles it, too."""
        folder, driver = self.new_directory(), self.prefix.parents[1] / "cuda/libcuda.so.1"
        (folder / "program.cu").write_text(text)
        (folder / "program.cpp").write_text(re.sub(r"(\w+)<<<(.*?)>>>\(", r"fake_kernel(\1, \2)(", text))
        flags = self.flags(text, where)
        run([*COMPILERS["cpp"], *WARNINGS, "-Wno-missing-field-initializers", f"-I{TESTS}/cuda/runtime", f"-I{TESTS}", f"-I{TESTS}/../src",
             "-iquote", HERE / "frames", "program.cpp", "-o", "program", "-x", "none", *flags, driver, f"-Wl,-rpath,{driver.parent}"],
            folder, self.environment, where)
        run([folder / "program"], self.new_directory(), self.environment, where)
        nvcc = run(["sh", TESTS / "checks/find_nvcc.sh"], folder, self.environment, where).strip()
        if nvcc and not self.empty and ("<nccl.h>" not in text or (pathlib.Path(nvcc).parents[1] / "include/nccl.h").exists()):
            run([nvcc, "-std=c++17", "-Xcompiler", ",".join(WARNINGS), "-I", HERE / "frames", flags[0], "-c", "program.cu"],
                folder, self.environment, where)

    def cmake(self, text, where):
        """Configures and builds a project, which may name the folders of the source."""
        folder = self.new_directory()
        (folder / "CMakeLists.txt").write_text(text)
        run(["cmake", "-S", folder, "-B", folder / "build", f"-DSOURCE={SOURCE}"], folder, self.environment, where)
        run(["cmake", "--build", folder / "build"], folder, self.environment, where)

    def fill(self, frame, lines, places, blocks):
        """Tests the frame with the blocks in its places. None: the place stays empty."""
        lines, language = list(lines), frame.suffix[1:]
        for at, piece in zip(places, blocks):
            back = f'#line {at + 2} "{frame}"' if language != "cmake" else ""
            lines[at] = f"{piece.source()}{back}" if piece else ""
        text, where = "\n".join(lines), next((block.wrong for block in reversed(blocks) if block), Wrong)
        if language in COMPILERS:
            self.program(language, f'#line 1 "{frame}"\n{text}', blocks[-1].exit if blocks[-1] else 0, where)
        elif language == "cuda":
            self.cuda(frame.stem, f'#line 1 "{frame}"\n{text}', where)
        else:
            self.cmake(text, where)

    def framed(self, blocks):
        """Inserts the blocks of a document into their frames, and runs these. Returns the number of programs."""
        waiting, done = {}, 0
        for block in blocks:
            frame = HERE / "frames" / f"{block.frame}.{block.language}"
            if not frame.exists():
                raise block.wrong(f"no frame {frame.relative_to(SOURCE)}")
            lines = frame.read_text().split("\n")
            places = [at for at, line in enumerate(lines) if line.strip() == LINES[block.language]]
            given = waiting.setdefault(frame, [])
            given.append(block)
            if block.number != len(given) or len(given) > len(places):
                raise block.wrong(f"{frame.name} has {len(places)} places; this is number {len(given)}")
            if len(given) < len(places):
                continue
            del waiting[frame]
            done += 1
            self.fill(frame, lines, places, given)
            for at in range(len(given)) if self.empty else []:
                try:
                    self.fill(frame, lines, places, [None if other == at else each for other, each in enumerate(given)])
                except Wrong:
                    continue
                raise given[at].wrong(f"{frame.name} also passes without this block")
        for frame, given in waiting.items():
            raise given[-1].wrong(f"{frame.name} has more places than it gets blocks")
        return done

    def shell(self, blocks):
        """Runs the sh and console blocks of a document in one shell. Returns their number."""
        work, pieces = self.new_directory(), self.new_directory()
        for path in SOURCE.iterdir():
            if path.is_dir() and path.name != "build" and not path.name.startswith("."):
                (work / path.name).symlink_to(path)
        if "GGML" in os.environ:
            (work / "ggml").symlink_to(os.environ["GGML"])
        script, expected, unused = ["set +m"], [], None
        for block in blocks:
            if block.file:
                unused = unused or block
                copy = pieces / f"file-{block.line}"
                copy.write_text(block.text)
                script.append(f"mkdir -p \"$(dirname '{block.file}')\" && cp {copy} '{block.file}'")
            if block.language not in ("sh", "console"):
                continue
            unused = None
            for command, output in [(block.text, None)] if block.language == "sh" else commands(block):
                piece, printed = (pieces / f"{len(expected)}.{kind}" for kind in ("sh", "out"))
                piece.write_text(("set -e\n" if output is None else "set +e\n") + command + "\n")
                script.append(f". {piece} >{printed} 2>&1")
                script.append("set +e")
                expected.append((block, command, output, printed))
        if unused:
            raise unused.wrong("no sh or console block follows, which could use the file")
        if not expected:
            return 0
        (pieces / "script").write_text("\n".join([*script, f"echo >{pieces}/done"]) + "\n")
        failure = None
        try:
            run(["bash", pieces / "script"], work, self.environment, Wrong)
        except Wrong as error:
            failure = error
        if not (pieces / "done").exists() or failure:
            begun = [each for each in expected if each[3].exists()]
            block, command, _, printed = begun[-1] if begun else expected[0]
            raise block.wrong(f"fails:\n{command}\n{printed.read_text() if begun else failure}")
        for block, command, output, printed in expected:
            if output is not None:
                compare(block, command, output, printed.read_text(errors="replace"))
        return len({block.line for block, *_ in expected})


class Writer(Tester):
    """Writes programs of CUDA to a directory, and runs nothing."""

    def __init__(self, directory):
        self.directory, self.empty = directory, False

    def cuda(self, name, text, where):
        (self.directory / f"{name}.cu").write_text(text)


def commands(block):
    """The commands of a console block: their text and their output."""
    found = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif not found:
            raise block.wrong("a console block begins with '$ '")
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        else:
            found[-1][1].append(line)
    return found


def compare(block, command, expected, printed):
    """Raises if a command of a console block has printed something else."""
    printed = KILLED.sub(r"\1", printed).rstrip("\n")
    shown = "\n".join(expected).rstrip("\n")
    for key, expression in block.varies:
        if not re.search(expression, "\n".join(block.lines)):
            raise block.wrong(f"nothing varies as '{expression}'")
        if key == "same":
            for one, other in zip(re.findall(expression, shown), re.findall(expression, printed)):
                if block.seen.setdefault(one, other) != other:
                    raise block.wrong(f"$ {command}\nprints {other}, and where '{one}' is shown before it, {block.seen[one]}")
        printed, shown = (re.sub(expression, "(varies)", text) for text in (printed, shown))
    if printed != shown:
        raise block.wrong(f"$ {command}\nprints\n{printed}\nand not\n{shown}")


def test(prefix, document, empty):
    """Returns a line about the blocks of a document."""
    blocks = parse(document)
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(prefix, pathlib.Path(folder), empty)
        programs = 0
        for block in blocks:
            if block.frame and block.language not in LINES:
                raise block.wrong("only c, cpp, cuda and cmake have frames")
            if block.frame or block.language not in LINES or block.language == "cuda":
                continue  # tests/cuda runs a cuda block without a frame
            if block.file and re.search(r"<hooksess/(torch\.hpp|ggml\.h)>", block.text):
                continue  # it needs the engine's flags; the sh block that uses the file has them
            if block.is_program():
                tester.program(block.language, block.source(), block.exit, block.wrong)
                programs += 1
            elif not block.file:
                raise block.wrong("a fragment needs a frame, or a file that a later block uses")
        framed = tester.framed([block for block in blocks if block.frame])
        scripts = tester.shell(blocks)
    return f"{os.path.relpath(document, SOURCE)}: {programs} programs, {framed} frames, {scripts} blocks of the shell"


def main():
    empty, write = (sys.argv[1:2] == [option] for option in ("--empty", "--write"))
    prefix, *documents = map(pathlib.Path, sys.argv[1 + (empty or write):] or sys.exit(__doc__))
    try:
        for document in documents:
            if write:
                Writer(prefix).framed([block for block in parse(document) if block.frame and block.language == "cuda"])
            else:
                print(test(prefix.resolve(), document.resolve(), empty), flush=True)
    except Wrong as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
