# SPDX-License-Identifier: Apache-2.0
"""The files of examples/gpt: the model that it exports computes the same in NumPy and in PyTorch, and TensorBoard shows its charts and samples."""
import json
import subprocess
import sys
import unittest

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import support
from support import TestCase

GPT = support.BUILD / "examples/gpt/gpt"
LOGITS = support.BUILD / "tests/interop/gpt_logits"
TIMEOUT = 300
TEXT = "In the beginning the License"
STEPS = 60


def read_safetensors(path):
    """Returns the tensors by name, and the metadata."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    metadata = header.pop("__metadata__")
    return {name: numpy.frombuffer(content[start:][slice(*entry["data_offsets"])], numpy.float32).reshape(entry["shape"]).astype(numpy.float64)
            for name, entry in header.items()}, metadata


def reference(w, heads, tokens):
    """GPT-2's logits, as in its paper and its code."""
    def norm(x, name):
        centered = x - x.mean(-1, keepdims=True)
        return centered / numpy.sqrt((centered ** 2).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    n, x = len(tokens), w["wte.weight"][tokens] + w["wpe.weight"][:len(tokens)]
    for block in range(sum(name.endswith(".ln_1.weight") for name in w)):
        h = f"h.{block}."
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn")
        width = x.shape[1]
        mixed = numpy.empty_like(x)
        for head in range(heads):
            size = width // heads
            q, k, v = (qkv[:, part * width + head * size:][:, :size] for part in range(3))
            for i in range(n):
                p = numpy.exp(q[i] @ k[:i + 1].T / numpy.sqrt(size))
                mixed[i, head * size:(head + 1) * size] = p / p.sum() @ v[:i + 1]
        x = x + linear(mixed, h + "attn.c_proj")
        hidden = linear(norm(x, h + "ln_2"), h + "mlp.c_fc")
        active = hidden / 2 * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (hidden + 0.044715 * hidden ** 3)))
        x = x + linear(active, h + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def python_with_torch():
    """A Python that has PyTorch: this one, or the system's. None: neither has."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", "import torch"], capture_output=True, timeout=TIMEOUT).returncode == 0:
                return python
        except FileNotFoundError:
            pass
    return None


class Exported(TestCase):
    def setUp(self):
        super().setUp()
        subprocess.run([str(GPT), "--text", str(support.SOURCE / "LICENSE"), "--model-dir", self.path("run"), "--layers", "2", "--heads", "4",
                        "--width", "32", "--context", "32", "--max-steps", str(STEPS), "--log-steps", "20", "--eval-steps", "30",
                        "--learning-rate", "0.01"],
                       check=True, capture_output=True, timeout=TIMEOUT)
        self.model = self.directory / "run/model.safetensors"
        printed = subprocess.run([str(LOGITS), str(self.model), "4", TEXT], check=True, capture_output=True, text=True).stdout
        self.logits = numpy.array([[float.fromhex(number) for number in line.split()] for line in printed.splitlines()])
        self.assertEqual(self.logits.shape, (len(TEXT), 256))
        self.assertGreater(numpy.abs(self.logits).max(), 1, "the logits must differ from those of an untrained model")

    def test_the_names_are_those_of_gpt_2(self):
        tensors, metadata = read_safetensors(self.model)
        block = ["attn.c_attn.bias", "attn.c_attn.weight", "attn.c_proj.bias", "attn.c_proj.weight", "ln_1.bias", "ln_1.weight", "ln_2.bias",
                 "ln_2.weight", "mlp.c_fc.bias", "mlp.c_fc.weight", "mlp.c_proj.bias", "mlp.c_proj.weight"]
        self.assertEqual(sorted(tensors), sorted(["ln_f.bias", "ln_f.weight", "wpe.weight", "wte.weight",
                                                  *(f"h.{layer}.{name}" for layer in range(2) for name in block)]))
        self.assertEqual(tensors["h.1.attn.c_attn.weight"].shape, (32, 96))
        self.assertEqual(metadata, {"format": "pt", "heads": "4"})

    def test_numpy_computes_the_same_logits(self):
        tensors, metadata = read_safetensors(self.model)
        numpy.testing.assert_allclose(self.logits, reference(tensors, int(metadata["heads"]), list(TEXT.encode())), atol=1e-4)

    def test_pytorch_computes_the_same_logits(self):
        python = python_with_torch()
        if not python:
            self.skipTest("PyTorch is not installed (Debian: python3-torch)")
        script = ("import sys, torch; sys.path.append(sys.argv[1]); import generate\n"
                  "tensors, heads = generate.load(sys.argv[2])\n"
                  "print(generate.logits(tensors, heads, torch.tensor(list(sys.argv[3].encode()))).tolist())")
        folder = support.SOURCE / "examples/gpt"
        printed = subprocess.run([python, "-c", script, str(folder), str(self.model), TEXT], check=True, capture_output=True, text=True).stdout
        numpy.testing.assert_allclose(self.logits, json.loads(printed), atol=1e-4)
        printed = subprocess.run([python, str(folder / "generate.py"), str(self.model), TEXT], check=True, capture_output=True).stdout
        self.assertTrue(printed.startswith(TEXT.encode()))
        self.assertGreater(len(printed), len(TEXT) + 300)

    def test_tensorboard_has_charts_and_samples(self):
        events = EventAccumulator(self.path("run"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
        self.assertEqual(sorted(events.Tags()["scalars"]), ["eval/validation_loss", "global_step/sec", "gradient_norm", "learning_rate", "loss",
                                                            "mfu", "tokens/sec"])
        self.assertEqual([event.step for event in events.Scalars("loss")], [20, 40, 60])
        self.assertEqual([event.step for event in events.Scalars("eval/validation_loss")], [30, 60])
        self.assertTrue(all(event.value > 0 for event in events.Scalars("mfu")))
        samples = events.Tensors("sample/text_summary" if "sample/text_summary" in events.Tags()["tensors"] else "sample")
        self.assertEqual([event.step for event in samples], [30, 60])
        for event in samples:
            self.assertTrue(event.tensor_proto.string_val[0].decode().startswith("    "))


if __name__ == "__main__":
    unittest.main()
