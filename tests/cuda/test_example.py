# SPDX-License-Identifier: Apache-2.0
"""test_example.py SOURCE TOOL DRIVER CXX CC LIBRARY...: compiles examples/cuda over the stand-in for CUDA's driver, with the kernels as
functions. It is killed at random times, as often as it takes, and must have the checkpoint of an undisturbed run."""
import gzip
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

source, tool, driver, cxx, cc, *libraries = sys.argv[1:]
source = pathlib.Path(source)
PIXELS, TRAINING, TEST, STEPS = 8, 300, 60, 100


def write_data(directory):
    numbers = random.Random(1)
    directory.mkdir()
    for part, n in ("train", TRAINING), ("t10k", TEST):
        labels = bytes(numbers.randrange(10) for _ in range(n))
        images = b"".join(bytes((25 * label + numbers.randrange(60)) % 256 for _ in range(PIXELS * PIXELS)) for label in labels)
        for name, header, content in (
            ("images-idx3", struct.pack(">4B3I", 0, 0, 8, 3, n, PIXELS, PIXELS), images),
            ("labels-idx1", struct.pack(">4BI", 0, 0, 8, 1, n), labels),
        ):
            with gzip.open(directory / f"{part}-{name}-ubyte.gz", "wb") as file:
                file.write(header + content)


def build(work):
    """The launches k<<<...>>>(...) become calls of fake_kernel (runtime/cuda_runtime.h)."""
    text = (source / "examples/cuda/cuda.cu").read_text()
    text, launches = re.subn(r"(\w+)<<<(.*?)>>>\(", r"fake_kernel(\1, \2)(", text)
    assert launches > 5, launches
    (work / "cuda.cpp").write_text(text)
    trainer = source / "examples/trainer"
    parts = []
    for part in "idx", "input", "rng":
        parts.append(work / f"{part}.o")
        subprocess.run([cc, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O1", "-ffp-contract=off", f"-I{source}/include", "-c",
                        trainer / f"{part}.c", "-o", parts[-1]], check=True)
    includes = [f"-I{path}" for path in (source / "tests/cuda/runtime", source / "tests", source / "src", source / "include", trainer)]
    subprocess.run([cxx, "-std=c++20", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-missing-field-initializers", *includes,
                    work / "cuda.cpp", *parts, "-o", work / "cuda", driver, *libraries, f"-Wl,-rpath,{os.path.dirname(driver)}", "-lz",
                    "-lm", "-lpthread"], check=True)


def command(work, run):
    return [work / "cuda", "--data", work / "data", "--model-dir", run, "--max-steps", str(STEPS), "--batch-size", "32", "--hidden", "16",
            "--save-steps", "5", "--log-steps", "20", "--learning-rate", "0.05"]


with tempfile.TemporaryDirectory() as temporary:
    work = pathlib.Path(temporary)
    write_data(work / "data")
    build(work)
    straight, killed = work / "straight", work / "killed"
    done = subprocess.run(command(work, straight), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "accuracy = " in done.stderr, done.stderr
    times, starts = random.Random(), 0
    while True:
        starts += 1
        assert starts < 200, "it does not end"
        try: # the later starts get more time, so that it ends on a slow machine, too
            status = subprocess.run(command(work, killed), capture_output=True, timeout=0.05 + times.random() * 0.1 * starts)
        except subprocess.TimeoutExpired: # killed
            continue
        assert status.returncode == 0, status.stderr
        break
    assert starts > 1, "the program was never killed"
    assert b"restored" in status.stderr, status.stderr
    last = f"model.ckpt-{STEPS}"
    compared = subprocess.run([tool, "checkpoint", "diff", straight / last, killed / last], capture_output=True, text=True)
    assert compared.returncode == 0 and ", 0 different, 0 only in A (-), 0 only in B (+)" in compared.stdout, compared.stdout
    print(f"equal after {starts} starts: {compared.stdout.strip()}")
