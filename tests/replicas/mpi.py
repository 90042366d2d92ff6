# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of groups over MPI: starts ranks with mpirun, and reads how each rank ended."""
import collections
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

MPIRUN, RANKS, REPLICAS, SINGLE, TRAINER, TOOL = (
    os.environ[name] for name in ("MPIRUN", "MPI_RANKS", "REPLICAS", "SINGLE", "TRAINER", "HOOKSESS_TOOL"))
# One machine with fewer cores than ranks: they may share cores, and a rank that waits gives way.
LAUNCH = [MPIRUN, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "self,vader", "--quiet"]
# Runs a command, and writes its exit code to a file of this rank. mpirun may end this shell with SIGKILL, if another rank has failed.
WRITE_CODE = ["sh", "-c", 'trap : TERM; path=$1$OMPI_COMM_WORLD_RANK; shift; "$@"; code=$?; echo $code >"$path~"; mv "$path~" "$path"; exit $code', "sh"]
RECOVERY = ["--enable-recovery"]  # when a rank fails, mpirun lets the others live
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
FAR = 300  # seconds: a limit that no undisturbed run reaches

# As a rank writes it: its exit code, error, step, ..., the position in the data, and the parameters bit for bit.
End = collections.namedtuple("End", "code error step saved cause signal position parameters message")


def read_end(path):
    words = path.read_text().rstrip("\n").split(" ", 10)
    return End(int(words[0]), words[1], *map(int, words[2:7]), tuple(words[7:10]), words[10])


def processes(text):
    """The running processes with this text in their arguments."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (path / "cmdline").read_bytes().split(b"\0")
            state = (path / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if os.fsencode(text) in arguments and state not in "ZX":
            found.append((int(path.name), arguments))
    return found


class Test(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name, "run")

    def fresh(self, **parameters):
        """A part of a test, with a new directory."""
        shutil.rmtree(self.directory, ignore_errors=True)
        return self.subTest(**parameters)

    def start(self, n, program, *arguments, options=(), directory=None):
        """Starts n ranks. Their log goes to a file."""
        directory = directory or self.directory
        for path in directory.parent.glob(directory.name + ".*-[0-9]*"):
            path.unlink()
        with open(f"{directory}.log", "w") as log:
            return subprocess.Popen([*LAUNCH, *options, "-n", str(n), *WRITE_CODE, f"{directory}.code-", program, *map(str, arguments)], env=ENVIRONMENT,
                                    stdout=subprocess.PIPE, stderr=log, text=True)

    def wait(self, process, directory=None):
        """Returns the lines that rank 0 printed, and mpirun's exit code. No rank may remain."""
        directory = directory or self.directory
        remaining = []

        def end_all():
            remaining.extend(processes(str(directory)))
            process.kill()
            for pid, _ in remaining:
                os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(FAR, end_all)
        timer.start()
        lines = process.stdout.read().splitlines()
        process.stdout.close()
        process.wait()
        timer.cancel()
        self.assertEqual(remaining, [], f"still run. Their log: {self.log(directory)[-3000:]}")
        limit = time.monotonic() + FAR
        while processes(str(directory)):
            self.assertLess(time.monotonic(), limit, processes(str(directory)))
            time.sleep(0.01)
        return lines, process.returncode

    def log(self, directory=None):
        return pathlib.Path(f"{directory or self.directory}.log").read_text()

    def ends(self, directory=None):
        """The results of the ranks that ended normally."""
        directory = directory or self.directory
        return {int(path.name.rsplit("-", 1)[1]): read_end(path) for path in directory.parent.glob(directory.name + ".rank-*")}

    def codes(self):
        """The exit codes of the ranks."""
        return {int(path.name.rsplit("-", 1)[1]): int(path.read_text()) for path in
                self.directory.parent.glob(self.directory.name + ".code-*[0-9]")}

    def happened(self, rank):
        """Whether the event of the training has happened."""
        return pathlib.Path(f"{self.directory}.event-{rank}").exists()

    def train(self, n, steps, *event, limit=FAR, options=(), directory=None):
        """Returns the lines, mpirun's exit code, and the ends."""
        directory = directory or self.directory
        lines, code = self.wait(self.start(n, RANKS, "train", directory, steps, limit, *event, options=options, directory=directory),
                                directory)
        return lines, code, self.ends(directory)

    def undisturbed(self, n, steps):
        """The lines and the end of a training without events."""
        cache = Test.__dict__.get("cache") or {}
        if (n, steps) not in cache:
            with tempfile.TemporaryDirectory() as directory:
                lines, code, ends = self.train(n, steps, directory=pathlib.Path(directory, "run"))
            self.assertEqual((code, len(lines), len(ends), len(set(ends.values()))), (0, steps, n, 1))
            cache[n, steps] = lines, ends[0]
            Test.cache = cache
        return cache[n, steps]

    def assert_same_lines(self, lines, wanted):
        """Each line is the one of the undisturbed run for this step."""
        self.assertEqual([line for line in lines if line not in wanted], [])

    def assert_completes(self, n, steps):
        """Started again, it ends as if nothing had happened."""
        wanted, end = self.undisturbed(n, steps)
        lines, code, ends = self.train(n, steps)
        self.assertEqual(code, 0, self.log())
        self.assertEqual(set(ends.values()), {end})
        self.assertEqual(lines, wanted[len(wanted) - len(lines):])
