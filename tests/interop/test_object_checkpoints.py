# SPDX-License-Identifier: Apache-2.0
"""The checkpoints of TensorFlow 2's tf.train.Checkpoint: objects, optimizer slots, strings and tables."""
import json
import subprocess
import unittest

import numpy

from dump import DumpCase, strings_of
from support import BUILD, TIMEOUT, run, run_failing, tensorflow, tf

TOOL = BUILD / "src/tool/hooksess"
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
SLOT = "/.OPTIMIZER_SLOT/optimizer/"


def make_objects():
    """A model with an optimizer that has made a step, a table and a step."""
    model = tensorflow.Module()
    model.layers = [tensorflow.Variable(numpy.float32([[1, 2, 3], [4, 5, 6]])), tensorflow.Variable(numpy.float32([7, 8]))]
    model.words = tensorflow.Variable([b"one", b"", b"th\0ree"])
    optimizer = tf.train.AdamOptimizer(0.125)
    with tensorflow.GradientTape() as tape:
        loss = tensorflow.add_n([tensorflow.reduce_sum(layer * layer) for layer in model.layers])
    optimizer.apply_gradients(zip(tape.gradient(loss, model.layers), model.layers))
    table = tensorflow.lookup.experimental.MutableHashTable(tensorflow.string, tensorflow.int64, -1)
    table.insert(tensorflow.constant([b"a", b"bb"]), tensorflow.constant([1, 2], tensorflow.int64))
    step = tensorflow.Variable(11, dtype=tensorflow.int64)
    return tensorflow.train.Checkpoint(model=model, optimizer=optimizer, table=table, step=step)


def make_keras():
    keras = tensorflow.keras
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2)])
    model.compile(optimizer="adam", loss="mse")
    model.fit(numpy.ones((8, 3), numpy.float32), numpy.ones((8, 2), numpy.float32), verbose=0)
    return tensorflow.train.Checkpoint(model=model, optimizer=model.optimizer)


class Objects(DumpCase):
    def assert_all_is_read(self, prefix, least):
        """Each tensor as TensorFlow itself reads it."""
        reader = tf.train.load_checkpoint(prefix)
        dtypes, found = reader.get_variable_to_dtype_map(), self.dump(prefix)
        self.assertEqual(list(found), sorted(dtypes, key=str.encode))
        self.assertGreaterEqual(len(found), least)
        for name, (number, shape, code, contents) in found.items():
            with self.subTest(tensor=name):
                theirs = numpy.asarray(reader.get_tensor(name))
                self.assertEqual((number, shape, code), (dtypes[name].as_datatype_enum, list(theirs.shape), "OK"))
                if dtypes[name] == tensorflow.string:
                    self.assertEqual(strings_of(contents), theirs.flatten().tolist())
                else:
                    self.assertEqual(contents, theirs.tobytes())

    def test_slots_strings_and_a_table(self):
        prefix = make_objects().save(self.path("objects"))
        self.assert_all_is_read(prefix, 14)
        found = self.dump(prefix)
        self.assertEqual(strings_of(found["model/words" + VALUE][3]), [b"one", b"", b"th\0ree"])
        keys = strings_of(found["table/.ATTRIBUTES/table-keys"][3])
        counts = numpy.frombuffer(found["table/.ATTRIBUTES/table-values"][3], numpy.int64)
        self.assertEqual(dict(zip(keys, counts.tolist())), {b"a": 1, b"bb": 2})

    def test_a_keras_model_and_its_optimizer(self):
        self.assert_all_is_read(make_keras().write(self.path("keras")), 14)

    def test_restored_into_variables_of_other_names(self):
        prefix = make_objects().write(self.path("objects"))
        reader = tf.train.load_checkpoint(prefix)
        layer = "model/layers/0"
        stored = {"dense/kernel": layer + VALUE, "dense/kernel/Adam": layer + SLOT + "m" + VALUE,
                  "dense/kernel/Adam_1": layer + SLOT + "v" + VALUE, "dense/bias": "model/layers/1" + VALUE,
                  "beta1_power": "optimizer/beta1_power" + VALUE, "global_step": "step" + VALUE}
        values = {name: numpy.asarray(reader.get_tensor(key)) for name, key in stored.items()}
        lines = [f"{name} {tensorflow.as_dtype(value.dtype).as_datatype_enum} {''.join(f'{n},' for n in value.shape) or '-'} "
                 f"{stored[name]}\n" for name, value in values.items()]
        run("restore_variables", prefix, self.directory, given="".join(lines))
        for number, (name, value) in enumerate(values.items()):
            with self.subTest(variable=name):
                self.assertTrue(value.any())
                self.assertEqual((self.directory / str(number)).read_bytes(), value.tobytes())

    def test_a_name_that_is_not_there(self):
        prefix = make_objects().write(self.path("objects"))
        said = run_failing("restore_variables", prefix, self.directory, given="w 1 2,3, model/layers/9" + VALUE + "\n")
        self.assertIn("NOT_FOUND", said)
        self.assertIn("'model/layers/9" + VALUE + "' is missing", said)

    @unittest.skipUnless(TOOL.exists(), "the tool is not built")
    def test_the_tool(self):
        def tool(*arguments):
            done = subprocess.run([str(TOOL), "checkpoint", *arguments], capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

        prefix = make_objects().write(self.path("objects"))
        listed = {tensor["name"]: tensor for tensor in json.loads(tool("ls", "--json", prefix))}
        self.assertEqual(listed["model/layers/0" + SLOT + "m" + VALUE]["shape"], [2, 3])
        self.assertEqual(listed["_CHECKPOINTABLE_OBJECT_GRAPH"]["dtype"], "string")
        found = {tensor["name"]: tensor for tensor in json.loads(tool("stat", "--json", prefix))["tensors"]}
        self.assertEqual((found["step" + VALUE]["min"], found["step" + VALUE]["max"]), (11, 11))
        self.assertEqual(found["model/words" + VALUE]["bytes"], 9)
        self.assertIn("no damage", tool("verify", prefix))
        skipped = json.loads(tool("convert", "--json", prefix, self.path("objects.safetensors")))["skipped"]
        self.assertEqual(skipped, [name for name, tensor in listed.items() if tensor["dtype"] == "string"])
        self.assertIn("_CHECKPOINTABLE_OBJECT_GRAPH", skipped)
        converted = json.loads(tool("ls", "--json", self.path("objects.safetensors")))
        self.assertEqual([tensor["name"] for tensor in converted], [name for name in listed if name not in skipped])


if __name__ == "__main__":
    unittest.main()
