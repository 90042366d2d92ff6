# SPDX-License-Identifier: Apache-2.0
"""test_torchrun.py: torchrun starts the ranks of a group over TCP, which find rank 0 by MASTER_ADDR and MASTER_PORT, next to the
store of torchrun and the process group of torch. TORCHRUN and ENV_RANKS are the programs."""
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

TORCHRUN, RANKS = (os.path.abspath(os.environ[name]) for name in ("TORCHRUN", "ENV_RANKS"))
N = 4
WORKER = """
import subprocess, sys
import torch
import torch.distributed
torch.distributed.init_process_group("gloo")
ones = torch.ones(1)
torch.distributed.all_reduce(ones)
code = subprocess.run([sys.argv[1]]).returncode
torch.distributed.all_reduce(ones)
assert ones.item() == torch.distributed.get_world_size() ** 2
torch.distributed.destroy_process_group()
sys.exit(code)
"""


def free_ports():
    """A port such that the next one is free, too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


class Torchrun(unittest.TestCase):
    def run_ranks(self, *arguments):
        done = subprocess.run([TORCHRUN, f"--nproc-per-node={N}", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(done.stdout.split("\n")), ["", *(f"rank {rank} of {N}" for rank in range(N))], done.stderr)

    def test_with_a_given_port(self):
        self.run_ranks("--master-addr=127.0.0.1", f"--master-port={free_ports()}", "--no-python", RANKS)

    def test_with_a_rendezvous_of_torchrun(self):
        self.run_ranks("--standalone", "--no-python", RANKS)

    def test_with_a_file(self):
        with tempfile.TemporaryDirectory() as directory:
            self.run_ranks("--standalone", "--no-python", RANKS, directory)

    def test_together_with_a_process_group_of_torch(self):
        with tempfile.TemporaryDirectory() as directory:
            worker = pathlib.Path(directory, "worker.py")
            worker.write_text(WORKER)
            self.run_ranks("--standalone", str(worker), RANKS)


if __name__ == "__main__":
    unittest.main()
