#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saving and restoring checkpoints: bench_checkpoint and other libraries, interleaved, on one disk.

    python3 tests/bench/checkpoint_peers.py build/release/tests/bench/checkpoint DIRECTORY \\
        --python /path/to/python-with-tensorflow --python /path/to/python-with-torch

Peers: tf.compat.v1.train.Saver, torch.save and load, safetensors' save_file and load_file for torch and for numpy, and Orbax's
PyTreeCheckpointer on numpy arrays. Each runs in a separate process, with the first --python that can import it; the others are
omitted. Two states, with the values of bench_checkpoint: 1 GiB in 64 tensors, and 10,000 tensors of 4 KiB. Each round runs the
benchmark and every peer once, in a different order.

The peers return when the kernel has the bytes, hooksess when the disk has them. So each peer is measured twice: the save alone,
and the save with an fsync of every file and directory that it wrote (save_fsync), which compares with hooksess. Restoring reads
from the system's cache into existing variables or arrays; Orbax makes new ones. TensorFlow writes no MetaGraphDef, as in the
benchmark. Orbax compresses, the others do not: GB/s are of the tensors' bytes. hooksess and TensorFlow verify checksums when they
restore; the others do not. The first round is not counted. In it, every tensor that a peer restores is compared.

Prints JSON lines like the benchmark, medians over the rounds, then a table in Markdown. Needs about 15 GiB of memory. Not a
test: nothing here fails because it is slow."""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"": (64, 1 << 24), "small_": (10000, 4096)}  # prefix of the figures: number of tensors, bytes of each
BENCHMARK_MIB = {"": 1024, "small_": 40}
FIGURES = ("save", "save_fsync", "restore")


# The peers. Each has tensors, saves them to a directory, restores them from there, forgets them, and shows them.


def values(tensors, each):
    """One tensor after the other."""
    import numpy as np

    floats = each // 4
    for i in range(tensors):
        count = np.arange(i * floats, (i + 1) * floats) % 1000003
        yield count.astype(np.float32) * np.float32(0.001)


def names(tensors):
    return [f"tensor/{i:05d}" for i in range(tensors)]


class TensorFlow:
    modules, title = ("tensorflow",), "tf.compat.v1.train.Saver"

    def __init__(self, state):
        import tensorflow.compat.v1 as tf

        tf.disable_eager_execution()
        self.version = tf.__version__
        self.variables = [
            tf.get_variable(name, value.shape, tf.float32, tf.zeros_initializer()) for name, value in state.items()
        ]
        self.saver = tf.train.Saver(self.variables, max_to_keep=1)
        self.session = tf.Session()
        self.zeros = [variable.initializer for variable in self.variables]
        self.session.run(
            self.zeros,
            {variable.initializer.inputs[1]: value for variable, value in zip(self.variables, state.values())},
        )

    def save(self, directory):
        self.saver.save(self.session, f"{directory}/model.ckpt", write_meta_graph=False)

    def restore(self, directory):
        self.saver.restore(self.session, f"{directory}/model.ckpt")

    def forget(self):
        self.session.run(self.zeros)

    def show(self):
        return self.session.run(self.variables)


class Torch:
    modules, title = ("torch", "numpy"), "torch.save, torch.load"

    def __init__(self, state):
        import torch

        self.version = torch.__version__
        self.torch = torch
        self.tensors = {name: torch.from_numpy(value) for name, value in state.items()}

    def take(self, restored):
        for name, value in restored.items():
            self.tensors[name].copy_(value)

    def save(self, directory):
        self.torch.save(self.tensors, f"{directory}/model.pt")

    def restore(self, directory):
        self.take(self.torch.load(f"{directory}/model.pt"))

    def forget(self):
        for tensor in self.tensors.values():
            tensor.zero_()

    def show(self):
        return [tensor.numpy() for tensor in self.tensors.values()]


class SafetensorsTorch(Torch):
    modules, title = ("safetensors.torch", "torch", "numpy"), "safetensors.torch"

    def __init__(self, state):
        import safetensors.torch

        super().__init__(state)
        self.version = safetensors.__version__
        self.files = safetensors.torch

    def save(self, directory):
        self.files.save_file(self.tensors, f"{directory}/model.safetensors")

    def restore(self, directory):
        self.take(self.files.load_file(f"{directory}/model.safetensors"))


class SafetensorsNumpy:
    modules, title = ("safetensors.numpy", "numpy"), "safetensors.numpy"

    def __init__(self, state):
        import safetensors.numpy

        self.version = safetensors.__version__
        self.files = safetensors.numpy
        self.tensors = state

    def save(self, directory):
        self.files.save_file(self.tensors, f"{directory}/model.safetensors")

    def restore(self, directory):
        for name, value in self.files.load_file(f"{directory}/model.safetensors").items():
            self.tensors[name][:] = value

    def forget(self):
        for tensor in self.tensors.values():
            tensor.fill(0)

    def show(self):
        return list(self.tensors.values())


class Orbax:
    modules, title = ("orbax.checkpoint", "numpy"), "Orbax PyTreeCheckpointer"

    def __init__(self, state):
        import logging

        import orbax.checkpoint as orbax

        logging.disable(logging.WARNING)
        self.version = orbax.__version__
        self.tensors = {name.replace("/", "_"): value for name, value in state.items()}
        self.checkpointer = orbax.PyTreeCheckpointer()
        self.restored = None

    def save(self, directory):
        self.checkpointer.save(f"{directory}/model", self.tensors)

    def restore(self, directory):
        self.restored = self.checkpointer.restore(f"{directory}/model")

    def forget(self):
        self.restored = None

    def show(self):
        return [self.restored[name] for name in self.tensors]


PEERS = {
    "tensorflow": TensorFlow,
    "torch": Torch,
    "safetensors_torch": SafetensorsTorch,
    "safetensors_numpy": SafetensorsNumpy,
    "orbax": Orbax,
}


# A peer's process: a line with a directory comes in, a line with its times goes out.


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def sync_tree(directory):
    """Syncs everything that was written: files, then directories, then the directory's own name."""
    for folder, _, files in os.walk(directory, topdown=False):
        for file in files:
            sync(os.path.join(folder, file))
        sync(folder)
    sync(os.path.dirname(directory))


def read_tree(directory):
    for path in pathlib.Path(directory).rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass


def timed(call, argument):
    start = time.perf_counter()
    call(argument)
    return time.perf_counter() - start


def take_turn(peer, directory):
    times = {"save": timed(peer.save, directory)}
    times["save_fsync"] = times["save"] + timed(sync_tree, directory)
    read_tree(directory)
    times["restore"] = timed(peer.restore, directory)
    return times


def check(peer, directory, tensors, each):
    peer.forget()
    peer.restore(directory)
    for restored, saved in zip(peer.show(), values(tensors, each), strict=True):
        if not (restored == saved).all():
            raise ValueError("the restored tensors differ from the saved ones")


def be_a_peer(name, tensors, each):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries may print to standard output
    peer = PEERS[name](dict(zip(names(tensors), values(tensors, each))))
    print(json.dumps({"version": peer.version}), file=out, flush=True)
    checked = False
    for line in sys.stdin:
        directory = line.rstrip("\n")
        times = take_turn(peer, directory)
        if not checked:
            check(peer, directory, tensors, each)
            checked = True
        print(json.dumps(times), file=out, flush=True)
    os._exit(0)  # some libraries take long to exit


# Running the peers.


class Runner:
    """A peer in a separate process."""

    def __init__(self, name, python, tensors, each):
        self.name, self.bytes = name, tensors * each
        self.log = tempfile.TemporaryFile("w+")
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu")
        self.process = subprocess.Popen(
            [python, __file__, "--peer", name, str(tensors), str(each)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment,
        )
        self.version = self.answer()["version"]
        self.rates = {figure: [] for figure in FIGURES}

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            sys.exit(f"{self.name} failed:\n{self.log.read()[-2000:]}")
        return json.loads(line)

    def take_turn(self, directory, counts):
        path = os.path.join(directory, f"peer-{self.name}")
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        os.sync()
        self.process.stdin.write(path + "\n")
        self.process.stdin.flush()
        times = self.answer()
        if counts:
            for figure, secs in times.items():
                self.rates[figure].append(self.bytes / secs / 1e9)
        shutil.rmtree(path)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Benchmark:
    """bench_checkpoint, whose figures are already medians."""

    name = "hooksess"

    def __init__(self, program, prefix):
        self.program, self.prefix = program, prefix
        self.rates = {"save_fsync": [], "restore": []}

    def take_turn(self, directory, counts):
        os.sync()
        command = [self.program, str(BENCHMARK_MIB[self.prefix]), directory]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        figures = {figure["name"]: figure["value"] for figure in map(json.loads, lines)}
        if counts:
            self.rates["save_fsync"].append(figures["small_gb_per_s" if self.prefix else "save_gb_per_s"])
            self.rates["restore"].append(figures[f"{self.prefix}restore_gb_per_s"])

    def end(self):
        pass


def can_import(python, modules):
    command = [python, "-c", "import " + ", ".join(modules)]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def find_peers(pythons):
    """The Python for each peer."""
    found = {}
    for name, peer in PEERS.items():
        found[name] = next((python for python in pythons if can_import(python, peer.modules)), None)
        if not found[name]:
            print(f"{name}: left out, as no Python has {', '.join(peer.modules)}", file=sys.stderr)
    return {name: python for name, python in found.items() if python}


def measure(prefix, options, peers):
    tensors, each = SIZES[prefix]
    runners = [Benchmark(options.benchmark, prefix)]
    runners += [Runner(name, python, tensors, each) for name, python in peers.items()]
    for turn in range(options.rounds + 1):
        random.shuffle(runners)
        for runner in runners:
            runner.take_turn(options.directory, counts=turn > 0)
    for runner in runners:
        runner.end()
    return {runner.name: runner for runner in runners}


def show_figures(prefix, runners):
    for name, runner in sorted(runners.items()):
        for figure, rates in runner.rates.items():
            label = f"{'' if name == 'hooksess' else 'peer.'}{name}.{prefix}{figure}_gb_per_s"
            value = float(f"{statistics.median(rates):.4g}")
            print(json.dumps({"name": label, "value": value, "unit": "GB/s"}), flush=True)


def title_of(runner):
    return "hooksess" if runner.name == "hooksess" else f"{PEERS[runner.name].title} {runner.version}"


def show_table(results):
    print("\n| | save and sync, GB/s | restore, GB/s | small: save and sync, GB/s | small: restore, GB/s |")
    print("| --- | --: | --: | --: | --: |")
    for name in ("hooksess", *PEERS):
        if name in results[""]:
            cells = [statistics.median(results[size][name].rates[f]) for size in SIZES for f in ("save_fsync", "restore")]
            print(f"| {title_of(results[''][name])} | " + " | ".join(f"{cell:.2g}" for cell in cells) + " |")


def main():
    if sys.argv[1:2] == ["--peer"]:
        return be_a_peer(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", help="the program tests/bench/checkpoint of a release build")
    parser.add_argument("directory", help="where to write; on the disk that is meant")
    parser.add_argument("--python", action="append", help="a Python that has peers; again for another one")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.directory = os.path.abspath(options.directory)
    os.makedirs(options.directory, exist_ok=True)
    peers = find_peers(options.python or [sys.executable])
    results = {}
    for prefix in SIZES:
        results[prefix] = measure(prefix, options, peers)
        show_figures(prefix, results[prefix])
    show_table(results)


if __name__ == "__main__":
    main()
