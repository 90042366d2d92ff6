#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate.py MODEL.safetensors TEXT: continues a text with a model of examples/gpt, in PyTorch."""
import json
import sys

import torch
from torch.nn import functional as F


def load(path):
    """Returns the tensors of a safetensors file by name, and the number of heads."""
    content = open(path, "rb").read()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    heads = int(header.pop("__metadata__")["heads"])
    tensors = {name: torch.tensor(memoryview(content)[start:][slice(*entry["data_offsets"])].cast("f")).reshape(entry["shape"])
               for name, entry in header.items()}
    return tensors, heads


def logits(tensors, heads, tokens):
    """The logits of each token's successor, [tokens][256]."""
    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], tensors[name + ".weight"], tensors[name + ".bias"])

    def linear(x, name):
        return x @ tensors[name + ".weight"] + tensors[name + ".bias"]

    n, block = len(tokens), 0
    x = tensors["wte.weight"][tokens] + tensors["wpe.weight"][:n]
    while f"h.{block}.ln_1.weight" in tensors:
        h, block = f"h.{block}.", block + 1
        q, k, v = (part.reshape(n, heads, -1).transpose(0, 1) for part in linear(norm(x, h + "ln_1"), h + "attn.c_attn").chunk(3, -1))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + torch.full((n, n), -torch.inf).triu(1)
        x = x + linear((scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1), h + "attn.c_proj")
        x = x + linear(F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
    return norm(x, "ln_f") @ tensors["wte.weight"].T


if __name__ == "__main__":
    tensors, heads = load(sys.argv[1])
    text = bytearray(sys.argv[2], "utf-8")
    for _ in range(300):
        last = logits(tensors, heads, torch.tensor(list(text[-len(tensors["wpe.weight"]):])))[-1]
        text.append(int(torch.multinomial((last / 0.8).softmax(-1), 1)))
    print(text.decode("utf-8", "replace"))
