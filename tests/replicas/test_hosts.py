# SPDX-License-Identifier: Apache-2.0
"""test_hosts.py: the ranks of a group run on several hosts, which are network namespaces of this machine. Needs ip (iproute2), and root
that may make namespaces. ENV_RANKS, TRAIN_RANKS, HOOKSESS_TOOL, MPI_RANKS and MPIRUN are the programs."""
import atexit
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

RANKS, TRAIN, TOOL, MPI_RANKS = (os.path.abspath(os.environ.get(name, "")) for name in ("ENV_RANKS", "TRAIN_RANKS", "HOOKSESS_TOOL", "MPI_RANKS"))
MPIRUN = os.environ.get("MPIRUN", "")
SECS = 100  # more than the limit of the ranks


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def unmount():
    """What the first `ip netns add` of a machine has mounted, so that a test in a chroot leaves nothing behind."""
    if " /run/netns " in pathlib.Path("/proc/mounts").read_text():
        subprocess.run(["umount", "/run/netns"], stderr=subprocess.DEVNULL)  # fails if another program uses it


def reason_to_skip():
    """Why this machine has no namespaces of the network, or None."""
    if not shutil.which("ip"):
        return "no command ip (Debian: iproute2)"
    if os.geteuid() != 0:
        return "only root can make namespaces of the network"
    if " /run/netns " not in pathlib.Path("/proc/mounts").read_text():
        atexit.register(unmount)
    name = f"hooksess-{os.getpid()}"
    for command in (["netns", "add", name], ["-n", name, "link", "add", "bridge", "type", "bridge"]):
        done = subprocess.run(["ip", *command], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            break
    subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
    return f"cannot make namespaces of the network: {done.stderr.strip()}" if done.returncode else None


SKIP = reason_to_skip()


class Host:
    """A namespace with the interface eth0, addresses 10.77.0.N and fd77::N, and another interface eth1 with 10.78.0.N."""
    def __init__(self, number):
        self.number = number
        self.name = f"hooksess-{os.getpid()}-{number}"
        self.names = pathlib.Path("/etc/netns", self.name)
        self.v4, self.v6, self.other = f"10.77.0.{number}", f"fd77::{number}", f"10.78.0.{number}"

    def link(self, other, interface):
        ip("link", "add", interface, "netns", self.name, "type", "veth", "peer", "name", interface, "netns", other.name)

    def configure(self, *interfaces):
        for interface, address in (("eth0", self.v4 + "/24"), ("eth0", self.v6 + "/64"), ("eth1", self.other + "/24")):
            if interface in interfaces:
                ip("-n", self.name, "address", "replace", address, "dev", interface, *(["nodad"] if ":" in address else []))
        for interface in ("lo", *interfaces):
            ip("-n", self.name, "link", "set", interface, "up")

    def lose(self, neighbor, address, interface="eth0"):
        """Packets to this address of a neighbor vanish."""
        ip("-n", self.name, "neighbor", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", interface, "nud", "permanent")

    def command(self, *arguments):
        """Runs it with the host's name, which no resolver knows."""
        return ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', f"node{self.number}", *arguments]


@unittest.skipIf(SKIP, SKIP)
class OnHosts(unittest.TestCase):
    def make_hosts(self, n):
        self.hosts = [Host(number) for number in range(1, n + 1)]
        self.addCleanup(self.remove)
        for host in self.hosts:
            ip("netns", "add", host.name)
            host.names.mkdir(parents=True)
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


class Hosts(OnHosts):
    """Two hosts with two links between them."""
    def setUp(self):
        self.make_hosts(2)
        for interface in ("eth0", "eth1"):
            self.hosts[0].link(self.hosts[1], interface)
        for host in self.hosts:
            host.configure("eth0", "eth1")

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


class Training(OnHosts):
    """A rank on each of three hosts, which a switch connects. After each fault, no checkpoint is damaged, and the ranks train on, or all end by
    themselves with 75. Then the next start ends with the weights of a training without a fault."""
    STEPS = 500

    def setUp(self):
        self.make_hosts(3)
        self.switch = f"hooksess-{os.getpid()}-switch"
        ip("netns", "add", self.switch)
        self.addCleanup(ip, "netns", "delete", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for host in self.hosts:
            ip("link", "add", "eth0", "netns", host.name, "type", "veth", "peer", "name", f"port{host.number}", "netns", self.switch)
            ip("-n", self.switch, "link", "set", f"port{host.number}", "up")
            self.connect(host)
            host.configure("eth0")
        self.one, self.two, self.three = self.hosts
        self.set_names(f"{self.one.v6} node1\n{self.one.v4} node1\n")
        self.checkpoints = os.path.join(self.directory, "run")
        self.log = open(os.path.join(self.directory, "log"), "a+")
        self.addCleanup(self.log.close)

    def connect(self, host):
        ip("-n", self.switch, "link", "set", f"port{host.number}", "master", "bridge")

    def disconnect(self, host):
        """All packets vanish. The host does not notice it."""
        ip("-n", self.switch, "link", "set", f"port{host.number}", "nomaster")

    def start_rank(self, rank, way, **environment):
        process = subprocess.Popen(self.hosts[rank].command(TRAIN, way, self.checkpoints, str(self.STEPS)),
                                   stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3", **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start(self, way, **environment):
        """Starts all ranks. Their output is in the log, which begins here."""
        self.log.truncate(0)
        return [self.start_rank(rank, way, **environment) for rank in range(3)]

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def await_output(self, text):
        end = time.monotonic() + SECS
        while text not in self.output():
            self.assertLess(time.monotonic(), end, self.output())
            time.sleep(0.01)

    def finish(self, ranks):
        """Returns the exit codes of these ranks, which end by themselves."""
        return [rank.wait(timeout=SECS) for rank in ranks]

    def assert_complete(self, ranks):
        """The ranks end with the weights of a training without a fault."""
        self.assert_survives(ranks, 0)

    def expected(self):
        """The weight, in the order of the sums of train_ranks.c."""
        weight, position = 0.0, 0
        for _ in range(self.STEPS):
            gradient = 0.0
            for rank in range(3):
                gradient += weight - (position + rank) % 100
            weight -= 0.01 * gradient
            position += 3
        return re.sub(r"\.?0+p", "p", weight.hex())

    def assert_undamaged(self):
        done = subprocess.run([TOOL, "checkpoint", "verify", self.checkpoints], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertFalse([name for name in os.listdir(self.checkpoints) if "damaged" in name or "tmp" in name])

    def assert_survives(self, ranks, *expected):
        """The ranks train on to these weights, or all end by themselves with 75. `expected`: one of both codes."""
        codes = self.finish(ranks)
        self.assertIn(codes, [3 * [code] for code in expected or (0, 75)], self.output())
        if codes[0] == 0:
            ends = re.findall("^(?:stopped|already done) at (.*): $", self.output(), re.M)
            self.assertEqual(ends, 3 * [f"{self.STEPS} with {self.expected()}"], self.output())
        self.assert_undamaged()

    def start_and_disconnect(self, way):
        ranks = self.start(way)
        self.await_output("step 100")
        self.disconnect(self.three)
        return ranks

    def test_without_a_fault(self):
        for way in ("node1:4000", self.checkpoints):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            self.assert_complete(self.start(way))

    def test_a_short_partition(self):
        ranks = self.start_and_disconnect("node1:4000")
        time.sleep(3)
        self.connect(self.three)
        self.assert_survives(ranks)
        self.assert_complete(self.start("node1:4000"))

    def test_a_long_partition(self):
        """The ranks end before the network works again."""
        ranks = self.start_and_disconnect(self.checkpoints)
        end = time.monotonic() + 60
        self.assert_survives(ranks, 75)
        time.sleep(max(0, end - time.monotonic()))
        self.connect(self.three)
        self.assert_complete(self.start(self.checkpoints))

    def test_a_partition_of_one_direction(self):
        self.set_names(f"{self.one.v4} node1\n")
        for sender, receivers in ((self.three, (self.one, self.two)), (self.one, (self.three,))):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            ranks = self.start("node1:4000")
            self.await_output("step 100")
            for receiver in receivers:
                sender.lose(receiver, receiver.v4)
            self.assert_survives(ranks, 75)
            for receiver in receivers:
                ip("-n", sender.name, "neighbor", "delete", receiver.v4, "dev", "eth0")
            self.assert_complete(self.start("node1:4000"))

    def test_a_link_that_goes_down(self):
        for host in (self.three, self.one):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            ranks = self.start("node1:4000")
            self.await_output("step 100")
            ip("-n", host.name, "link", "set", "eth0", "down")
            self.assert_survives(ranks, 75)
            host.configure("eth0")
            self.assert_complete(self.start("node1:4000"))

    def test_a_link_that_goes_down_and_comes_back(self):
        ranks = self.start(self.checkpoints)
        self.await_output("step 100")
        ip("-n", self.two.name, "link", "set", "eth0", "down")
        self.two.configure("eth0")
        self.assert_survives(ranks)
        self.assert_complete(self.start(self.checkpoints))

    def test_names_of_both_versions(self):
        for addresses in ((self.one.v4, self.one.v6), (self.one.v6,), (self.one.v4,)):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            self.set_names("".join(f"{address} node1\n" for address in addresses))
            self.assert_complete(self.start("node1:4000"))

    def test_a_start_next_to_ranks_that_do_not_know_the_death_of_rank_0(self):
        first = self.start_and_disconnect(self.checkpoints)
        first[0].kill()
        first[0].wait()
        second = self.start(self.checkpoints)
        self.connect(self.three)
        self.assert_complete(second)
        self.assertEqual(self.finish(first[1:]), [75, 75], self.output())

    def test_two_starts_in_one_directory(self):
        """Rank 0 of the first start waits for its rank 2 until it is killed, or replaced."""
        for kills in (True, False):
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            self.log.truncate(0)
            first = [self.start_rank(rank, self.checkpoints) for rank in range(2)]
            self.await_output("until these ranks are connected: 2")
            if kills:
                first[0].kill()
                first[0].wait()
            second = [self.start_rank(0, self.checkpoints)]
            self.assertEqual(set(self.finish(first[kills:])), {75}, self.output())
            second += [self.start_rank(rank, self.checkpoints) for rank in (1, 2)]
            self.assert_complete(second)

    def test_two_starts_of_a_launcher_in_one_directory(self):
        """Rank 1 of the first start never finds its rank 0, although it has the time to connect to that of the second one."""
        first = self.start_rank(1, self.checkpoints, TORCHELASTIC_RUN_ID="first")
        second = [self.start_rank(rank, self.checkpoints, TORCHELASTIC_RUN_ID="second") for rank in (0, 2)]
        time.sleep(2)
        second.insert(1, self.start_rank(1, self.checkpoints, TORCHELASTIC_RUN_ID="second"))
        self.assert_complete(second)
        self.assertEqual(self.finish([first]), [75], self.output())


if __name__ == "__main__":
    unittest.main()
