#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training step of examples/gpt, and the same in PyTorch, interleaved on the CPU.

    python3 tests/bench/gpt_peers.py build/release/tests/bench/gpt [--threads 2] [--rounds 7]

Run it with a Python that has torch. PyTorch computes the model with its fused attention and its AdamW, without compilation. It
must find the benchmark's loss for the benchmark's first parameters. Each round runs the benchmark once, and PyTorch for about as
many steps. Prints JSON lines, medians over the rounds."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

BATCH, CONTEXT, LAYERS, HEADS, WIDTH, VOCABULARY = 8, 128, 4, 4, 256, 256
STEPS = 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.qkv, self.project = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.ln_2, self.expand, self.shrink = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.ln_1(x)).chunk(3, -1))
        x = x + self.project(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.shrink(F.gelu(self.expand(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy((self.ln_f(x) @ self.wte.weight.T).flatten(0, 1), targets.flatten())


def read(path, model):
    """Sets the parameters from the benchmark's file, which has matrices as [in][out]. Returns the batch."""
    content = np.fromfile(path, np.int32)
    n = BATCH * CONTEXT
    tokens, targets = (torch.tensor(content[at:at + n].astype(np.int64)).reshape(BATCH, CONTEXT) for at in (0, n))
    floats, at = content[2 * n:].view(np.float32), 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.tensor(floats[at:at + parameter.numel()])
            at += parameter.numel()
            transposed = parameter.dim() == 2 and "blocks" in name
            parameter.copy_(values.reshape(parameter.shape[::-1]).T if transposed else values.reshape(parameter.shape))
    assert at == len(floats)
    return tokens, targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("benchmark")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = Gpt()
    figures, units = {}, {"torch_tokens_per_s": "1/s", "over_torch": "1"}

    def benchmark(rounds, *file):
        out = subprocess.run([options.benchmark, str(options.threads), str(rounds), *file], check=True, capture_output=True, text=True).stdout
        lines = [json.loads(line) for line in out.splitlines()]
        units.update((figure["name"], figure["unit"]) for figure in lines)
        return {figure["name"]: figure["value"] for figure in lines}

    with tempfile.TemporaryDirectory() as directory:
        path = str(pathlib.Path(directory, "first"))
        first = benchmark(1, path)
        tokens, targets = read(path, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)

    def step():
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    loss = step()
    assert abs(loss - first["first_loss"]) < 1e-4 * loss, f"PyTorch's loss is {loss}, the benchmark's {first['first_loss']}"
    for _ in range(options.rounds):
        row = benchmark(1)
        step()
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        row["torch_tokens_per_s"] = STEPS * BATCH * CONTEXT / (time.perf_counter() - start)
        row["over_torch"] = row["tokens_per_s"] / row["torch_tokens_per_s"]
        for name, value in row.items():
            figures.setdefault(name, []).append(value)
    for name, values in figures.items():
        print(json.dumps({"name": name, "value": float(f"{statistics.median(values):.3g}"), "unit": units[name]}))


if __name__ == "__main__":
    main()
