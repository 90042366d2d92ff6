# SPDX-License-Identifier: Apache-2.0
"""test_hosts.py: the ranks of a group run on several hosts, which are network namespaces of this machine. Needs root and ip (iproute2).
ENV_RANKS, MPI_RANKS and MPIRUN are the programs."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

RANKS, MPI_RANKS = (os.path.abspath(os.environ[name]) for name in ("ENV_RANKS", "MPI_RANKS"))
MPIRUN = os.environ["MPIRUN"]
SECS = 100  # more than the limit of the ranks


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Host:
    """A namespace with the interface eth0, addresses 10.77.0.N and fd77::N, and another interface eth1 with 10.78.0.N."""
    def __init__(self, number):
        self.number = number
        self.name = f"hooksess-{os.getpid()}-{number}"
        self.names = pathlib.Path("/etc/netns", self.name)
        self.v4, self.v6, self.other = f"10.77.0.{number}", f"fd77::{number}", f"10.78.0.{number}"

    def link(self, other, interface):
        ip("link", "add", interface, "netns", self.name, "type", "veth", "peer", "name", interface, "netns", other.name)

    def configure(self):
        for interface, address in (("eth0", self.v4 + "/24"), ("eth0", self.v6 + "/64"), ("eth1", self.other + "/24")):
            ip("-n", self.name, "address", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))
        for interface in ("lo", "eth0", "eth1"):
            ip("-n", self.name, "link", "set", interface, "up")

    def lose(self, neighbor, address, interface="eth0"):
        """Packets to this address of a neighbor vanish."""
        ip("-n", self.name, "neighbor", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", interface, "nud", "permanent")

    def command(self, *arguments):
        """Runs it with the host's name, which no resolver knows."""
        return ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', f"node{self.number}", *arguments]


@unittest.skipIf(os.geteuid() != 0, "only root can make namespaces of the network")
class Hosts(unittest.TestCase):
    def setUp(self):
        self.hosts = Host(1), Host(2)
        self.addCleanup(self.remove)
        for host in self.hosts:
            ip("netns", "add", host.name)
            host.names.mkdir(parents=True)
        for interface in ("eth0", "eth1"):
            self.hosts[0].link(self.hosts[1], interface)
        for host in self.hosts:
            host.configure()
        self.set_names("")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def remove(self):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "delete", host.name], stderr=subprocess.DEVNULL)
            shutil.rmtree(host.names, ignore_errors=True)
        if not any(host.names.parent.iterdir()):
            host.names.parent.rmdir()

    def set_names(self, text):
        for host in self.hosts:
            (host.names / "hosts").write_text("127.0.0.1 localhost\n" + text)
            (host.names / "resolv.conf").write_text("")
            (host.names / "nsswitch.conf").write_text("hosts: files\n")

    def start(self, places, way):
        """Starts a rank on each of these hosts. Returns their outputs and exit codes."""
        ranks = [subprocess.Popen(self.hosts[place].command(RANKS, way), stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(places))})
                 for rank, place in enumerate(places)]
        outputs = [rank.communicate(timeout=SECS)[0].rstrip() for rank in ranks]
        return outputs, [rank.returncode for rank in ranks]

    def assert_starts(self, places, way):
        outputs, codes = self.start(places, way)
        self.assertEqual(outputs, [f"rank {rank} of {len(places)}" for rank in range(len(places))])
        self.assertEqual(set(codes), {0})

    def test_a_name_with_addresses_of_ipv6_and_ipv4(self):
        one = self.hosts[0]
        for text in (f"{one.v6} node1\n{one.v4} node1\n", f"{one.v4} node1\n{one.v6} node1\n"):
            self.set_names(text)
            self.assert_starts([0, 1, 1], "node1:4000")

    def test_hosts_that_have_only_one_of_both(self):
        one, two = self.hosts
        self.set_names(f"{one.v6} node1\n{one.v4} node1\n")
        ip("-n", two.name, "address", "delete", two.v6 + "/64", "dev", "eth0")
        self.assert_starts([0, 1, 1], "node1:4000")
        ip("-n", two.name, "address", "add", two.v6 + "/64", "dev", "eth0", "nodad")
        ip("-n", two.name, "address", "delete", two.v4 + "/24", "dev", "eth0")
        self.assert_starts([0, 1, 1], "node1:4001")

    def test_packets_to_one_of_both_vanish(self):
        one, two = self.hosts
        self.set_names(f"{one.v6} node1\n{one.v4} node1\n")
        two.lose(one, one.v6)
        self.assert_starts([0, 1, 1], "node1:4000")
        ip("-n", two.name, "neighbor", "delete", one.v6, "dev", "eth0")
        two.lose(one, one.v4)
        self.assert_starts([0, 1, 1], "node1:4001")

    def test_names_that_do_not_resolve(self):
        self.assert_starts([0, 1, 1], self.directory)

    def test_children_on_another_host_than_their_parent(self):
        """Rank 1 runs next to rank 0, and ranks 17 to 19 are its children."""
        self.assert_starts([0, 0] + 18 * [1], self.directory)
        self.assert_starts([0, 0] + 18 * [1], f"{self.hosts[0].v4}:4000")

    def test_one_network_works(self):
        one, two = self.hosts
        for host, other in ((one, two), (two, one)):
            host.lose(other, other.v4)
            host.lose(other, other.v6)
        self.assert_starts([0, 1, 1], self.directory)

    def test_a_port_in_use_ends_all_ranks(self):
        one = self.hosts[0]
        stranger = subprocess.Popen(one.command("python3", "-c", f"""
import socket, time
listener = socket.create_server(("{one.v4}", 4000))
print("listens", flush=True)
time.sleep({SECS})"""), stdout=subprocess.PIPE, text=True)
        self.addCleanup(stranger.stdout.close)
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        stranger.stdout.readline()
        outputs, codes = self.start([0, 0, 1], f"{one.v4}:4000")
        for output in outputs:
            self.assertIn(f"cannot listen on {one.v4}:4000: Address already in use", output)
        self.assertEqual(set(codes), {9})  # HS_FAILED_PRECONDITION

    def test_a_group_over_mpi_whose_names_do_not_resolve(self):
        agent = pathlib.Path(self.directory, "agent")
        agent.write_text('#!/bin/sh\ncase $1 in\n' + "".join(
            f'{host.v4}) name={host.name} node=node{host.number} ;;\n' for host in self.hosts) +
            'esac\nshift\nexec ip netns exec "$name" unshare --uts sh -c "hostname $node; $*"\n')
        agent.chmod(0o755)
        one, two = self.hosts
        done = subprocess.run(one.command(
            MPIRUN, "--allow-run-as-root", "--mca", "plm_rsh_agent", str(agent), "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include",
            "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24", "--host", f"{one.v4}:2,{two.v4}:2", "-n", "4", MPI_RANKS, "calls"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
