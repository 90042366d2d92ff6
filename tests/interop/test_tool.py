# SPDX-License-Identifier: Apache-2.0
"""The command `hooksess` reads TensorFlow's files."""
import json
import subprocess
import unittest

import numpy
import safetensors.numpy

from support import BUILD, TIMEOUT, TestCase, tensorflow, tf


class Tool(TestCase):
    def tool(self, *arguments, status=0):
        command = [str(BUILD / "src/tool/hooksess"), "checkpoint", *arguments]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def save(self, build):
        with tf.Graph().as_default(), tf.Session() as session:
            build()
            session.run(tf.global_variables_initializer())
            return tf.train.Saver().save(session, self.path("model"), write_meta_graph=False)

    def test_the_list_and_the_numbers_equal_tensorflows(self):
        def build():
            tf.get_variable("a/weights", [30, 40])
            tf.get_variable("step", initializer=numpy.int64(7))
            tf.get_variable("words", initializer=numpy.array([b"one", b"\xff"]))

        reader = tf.train.load_checkpoint(self.save(build))
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        names = {tensorflow.float32: "float", tensorflow.int64: "int64", tensorflow.string: "string"}
        self.assertEqual([(c["path"], c["newest"]) for c in json.loads(self.tool("ls", "--json", "."))], [("./model", True)])
        sizes = {"a/weights": 30 * 40 * 4, "step": 8}
        listed = json.loads(self.tool("ls", "--json", "model"))
        self.assertEqual({tensor["name"]: tensor.pop("bytes") for tensor in listed if tensor["name"] in sizes}, sizes)
        self.assertEqual([{key: tensor[key] for key in ("name", "dtype", "shape")} for tensor in listed],
                         [{"name": name, "dtype": names[dtypes[name]], "shape": shapes[name]} for name in sorted(shapes)])
        found = json.loads(self.tool("stat", "--json", "."))["tensors"][0]
        weights = reader.get_tensor("a/weights").astype(numpy.float64)
        self.assertEqual((found["min"], found["max"]), (weights.min(), weights.max()))
        numpy.testing.assert_allclose((found["mean"], found["norm"]), (weights.mean(), numpy.linalg.norm(weights)), rtol=1e-12)

    def test_a_safetensors_file_of_another_library(self):
        weights = numpy.random.default_rng(1).normal(size=(30, 40)).astype(numpy.float32)
        tensors = {"weights": weights, "a": numpy.arange(6, dtype=numpy.int64).reshape(2, 3), "flags": numpy.array([True, False])}
        safetensors.numpy.save_file(tensors, self.path("m.safetensors"), {"format": "pt"})
        self.assertEqual(json.loads(self.tool("ls", "--json", "m.safetensors")),
                         [{"name": "a", "dtype": "int64", "shape": [2, 3], "bytes": 48}, {"name": "flags", "dtype": "bool", "shape": [2], "bytes": 2},
                          {"name": "weights", "dtype": "float", "shape": [30, 40], "bytes": 4800}])
        found = json.loads(self.tool("stat", "--json", "m.safetensors"))["tensors"]
        self.assertEqual((found[0]["min"], found[0]["max"], found[1]["zeros"]), (0, 5, 1))
        self.assertEqual((found[2]["min"], found[2]["max"]), (weights.min(), weights.max()))
        numpy.testing.assert_allclose(found[2]["norm"], numpy.linalg.norm(weights.astype(numpy.float64)), rtol=1e-12)

    def test_every_wrong_byte_of_a_partitioned_variable_is_found(self):
        def build():
            tf.get_variable("in/parts", [6, 2], partitioner=tf.fixed_size_partitioner(3))
            tf.get_variable("whole", [2])

        self.save(build)
        self.assertIn("no damage", self.tool("verify", "model"))
        path = self.directory / "model.data-00000-of-00001"
        data = path.read_bytes()
        for at in range(len(data)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 8]) + data[at + 1:])
            self.assertIn("damaged: in/parts: " if at < 48 else "damaged: whole: ", self.tool("verify", "model", status=1))


if __name__ == "__main__":
    unittest.main()
