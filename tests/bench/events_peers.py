#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scalars to event files: bench_events and other libraries, interleaved, on one disk.

    python3 tests/bench/events_peers.py build/release/tests/bench/events DIRECTORY \\
        --python /path/to/python-with-tensorflow --python /path/to/python-with-torch

Peers: TensorFlow's FileWriter (tf.compat.v1.summary), tf.summary.scalar (run eagerly), torch.utils.tensorboard and
tensorboardX. Each runs in a separate process, with the first --python that can import it; the others are omitted. A peer's
figure is scalars per second until all are flushed, without imports and opening. Prints JSON lines like the benchmark, medians
over the rounds. Not a test: nothing here fails because it is slow."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SCALARS = 20000
TAG = "train/loss"


def tensorflow_v1(directory):
    import tensorflow.compat.v1 as tf
    tf.disable_eager_execution()
    writer = tf.summary.FileWriter(directory)

    def add(step):
        writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag=TAG, simple_value=float(step))]), step)
    return add, writer.flush


def tensorflow_v2(directory):
    import tensorflow as tf
    writer = tf.summary.create_file_writer(directory)
    writer.set_as_default()
    return lambda step: tf.summary.scalar(TAG, float(step), step=step), writer.flush


def torch(directory):
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(directory)
    return lambda step: writer.add_scalar(TAG, float(step), step), writer.flush


def tensorboardx(directory):
    from tensorboardX import SummaryWriter
    writer = SummaryWriter(directory)
    return lambda step: writer.add_scalar(TAG, float(step), step), writer.flush


PEERS = {"tensorflow_v1": tensorflow_v1, "tensorflow_v2": tensorflow_v2, "torch": torch,
         "tensorboardx": tensorboardx}


def run_peer(name):
    """Runs in the peer's process."""
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as directory:
        add, flush = PEERS[name](directory)
        for step in range(1000):  # warm-up
            add(step)
        flush()
        begun = time.perf_counter()
        for step in range(SCALARS):
            add(step)
        flush()
        print(SCALARS / (time.perf_counter() - begun))


def measure(python, name, directory):
    """Scalars per second. None: it cannot be imported."""
    done = subprocess.run([python, __file__, "peer-" + name, directory],
                          capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    figures = {}
    pythons = {}
    for _ in range(given.rounds):
        lines = subprocess.run([given.benchmark, given.directory], check=True, capture_output=True, text=True).stdout
        for line in map(json.loads, lines.splitlines()):
            figures.setdefault((line["name"], line["unit"]), []).append(line["value"])
        for name in PEERS:
            for python in [pythons[name]] if name in pythons else given.python or [sys.executable]:
                value = measure(python, name, given.directory)
                if value:
                    pythons[name] = python
                    figures.setdefault((name + "_per_second", "1/s"), []).append(value)
                    break
    for (name, unit), values in figures.items():
        print(json.dumps({"name": name, "value": statistics.median(values), "unit": unit}))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("peer-"):
        run_peer(sys.argv[1].removeprefix("peer-"))
    else:
        main()
