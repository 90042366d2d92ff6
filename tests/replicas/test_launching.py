# SPDX-License-Identifier: Apache-2.0
"""test_launching.py: the loop of docs/guide/launching.md starts ranks again if that helps, and ends if the launcher was forgotten. TRAIN_RANKS
and HOOKSESS_TOOL are the programs."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

TRAIN, TOOL = (os.path.abspath(os.environ[name]) for name in ("TRAIN_RANKS", "HOOKSESS_TOOL"))
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/launching.md"
STEPS = "40"
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
COUNTS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
ALL = """#!/bin/sh
# all.sh COMMAND STEPS: starts two ranks, and exits with the code of rank 0. The first start has no end: when it has saved, rank 1 is killed.
steps=1000000000
[ ! -e starts ] || steps=$2
echo start >>starts
RANK=1 WORLD_SIZE=2 $1 "$steps" &
rank_1=$!
if [ "$steps" != "$2" ]; then
    (until ls run/*.index >/dev/null 2>&1; do sleep 0.01; done; kill -9 $rank_1) &
fi
RANK=0 WORLD_SIZE=2 $1 "$steps"
code=$?
wait
exit $code
"""


class Loop(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        loop = re.search("<!-- file: run.sh -->\n```text\n(.*?)```", PAGE.read_text(), re.S)[1]
        (self.directory / "run.sh").write_text(loop.replace("sleep 5", "sleep 0"))
        (self.directory / "hooksess").symlink_to(TOOL)

    def run_loop(self, *command, **environment):
        clean = {name: value for name, value in os.environ.items() if name not in RANKS + COUNTS and not name.startswith("SLURM_")}
        done = subprocess.run(["sh", "run.sh", *command], cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**clean, "PATH": f"{self.directory}:{os.environ['PATH']}", **environment})
        return done.returncode, done.stdout

    def test_it_starts_again_after_a_rank_was_killed(self):
        (self.directory / "all.sh").write_text(ALL)
        code, output = self.run_loop("sh", "all.sh", f"{TRAIN} ./run run", STEPS)
        self.assertEqual(code, 0, output)
        self.assertEqual((self.directory / "starts").read_text(), "start\nstart\n", output)
        self.assertEqual(output.count(f"stopped at {STEPS} with"), 2, output)

    def test_it_ends_if_srun_was_forgotten(self):
        code, output = self.run_loop(TRAIN, "./run", "run", STEPS, SLURM_JOB_ID="7", SLURM_PROCID="0", SLURM_NTASKS="4")
        self.assertEqual((code, output), (1, "environment variable SLURM_NTASKS is 4, but SLURM_STEP_ID is not set: start the program with srun\n"))

    def test_it_ends_if_rank_0_is_alone(self):
        code, output = self.run_loop(TRAIN, "./run", "run", STEPS, "0.1", RANK="0", WORLD_SIZE="4")
        self.assertEqual(code, 1, output)
        self.assertEqual(output.count("this is rank 0 of 4, but no other rank has connected within connect_secs"), 1, output)


if __name__ == "__main__":
    unittest.main()
