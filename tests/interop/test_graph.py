# SPDX-License-Identifier: Apache-2.0
"""The graph of a run, its traces and its summary ops, as TensorBoard's graph plugin serves them and TensorFlow imports them."""
import re
import unittest

from google.protobuf import text_format
from tensorboard import context
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.graph.graphs_plugin import GraphsPlugin

from support import TestCase, run, tensorflow, tf

LAST = 6
# The op types that TensorBoard draws next to a node, and in the pane of auxiliary nodes.
AT_THE_SIDE = re.compile("^[a-zA-Z]+Summary$")
AUXILIARY = "NoOp"
SHAPES = "_output_shapes"


def shape_of(proto):
    return None if proto.unknown_rank else [dim.size for dim in proto.dim]


def to_tensorflow(graph):
    """The same graph with ops that TensorFlow knows: functions of the program are functions of Python."""
    known = tf.GraphDef()
    known.CopyFrom(graph)
    for node in known.node:
        if "Tin" in node.attr:
            node.op = "PyFunc"
            node.attr["token"].s = node.name.encode()
        elif node.op == "Value":
            node.op = "VariableV2"
    return known


class GraphCase(TestCase):
    def setUp(self):
        super().setUp()
        run("train_graph", LAST, self.directory / "run")
        multiplexer = EventMultiplexer()
        multiplexer.AddRunsFromDirectory(str(self.directory))
        multiplexer.Reload()
        self.plugin = GraphsPlugin(base_plugin.TBContext(logdir=str(self.directory), multiplexer=multiplexer,
                                                         data_provider=MultiplexerDataProvider(multiplexer, str(self.directory))))
        self.asking = context.RequestContext()
        text, self.mime = self.plugin.graph_impl(self.asking, "run", None, False, experiment="")
        self.graph = text_format.Parse(text, tf.GraphDef())
        self.nodes = {node.name: node for node in self.graph.node}

    def stats(self, tag):
        text, _ = self.plugin.run_metadata_impl(self.asking, "", "run", tag)
        metadata = text_format.Parse(text, tf.RunMetadata())
        return {stats.node_name: stats for device in metadata.step_stats.dev_stats for stats in device.node_stats}


class Plugin(GraphCase):
    def test_the_run_has_a_graph_and_a_profile_for_each_traced_run(self):
        info = self.plugin.info_impl(self.asking, experiment="")["run"]
        self.assertTrue(info["run_graph"])
        self.assertEqual(set(info["tags"]), {"step_2", "step_4", "step_6"})
        self.assertTrue(all(tag["profile"] and not tag["op_graph"] for tag in info["tags"].values()))

    def test_names_are_there_once_and_edges_lead_to_nodes(self):
        self.assertEqual(len(self.nodes), len(self.graph.node))
        for node in self.graph.node:
            for edge in node.input:
                self.assertIn(edge.lstrip("^").split(":")[0], self.nodes)

    def test_training_ops_are_connected_with_their_variables(self):
        self.assertEqual(list(self.nodes["train/update"].input),
                         ["model/dense/weights", "model/split", "input/dequeue:1", "rate", "model/dense/bias", "loss",
                          "global_step", "^check"])

    def test_types(self):
        types = {"model/dense/weights": "VariableV2", "global_step": "VariableV2", "rate": "Value", "extra": "Placeholder",
                 "input/fifo_queue": "FIFOQueueV2", "input/enqueue": "QueueEnqueueV2", "input/dequeue": "QueueDequeueV2",
                 "model/split": "Split", "train/update": "ApplyGradientDescent", "check": "Op", "train/group": AUXILIARY,
                 "init": AUXILIARY, "local_init": AUXILIARY}
        self.assertEqual({name: self.nodes[name].op for name in types}, types)

    def test_the_queue_lies_between_producer_and_consumer(self):
        self.assertEqual(list(self.nodes["input/enqueue"].input), ["input/fifo_queue", "input/produce", "input/produce:1"])
        self.assertEqual(list(self.nodes["input/dequeue"].input), ["input/fifo_queue"])
        self.assertEqual(list(self.nodes["model/split"].input), ["input/dequeue"])

    def test_summaries_are_drawn_at_the_side(self):
        merged = self.nodes["Merge/MergeSummary"]
        self.assertTrue(AT_THE_SIDE.match(merged.op))
        self.assertTrue({"summary/loss", "summary/scale", "summary/rate"} <= set(merged.input))
        for name in merged.input:
            self.assertTrue(AT_THE_SIDE.match(self.nodes[name].op))

    def test_output_shapes(self):
        shapes = {name: [shape_of(shape) for shape in node.attr[SHAPES].list.shape]
                  for name, node in self.nodes.items() if SHAPES in node.attr}
        wanted = {"model/dense/weights": [[3]], "loss": [[]], "extra": [[-1, 2]], "model/split": [[-1, 3], []],
                  "input/dequeue": [[4, 3], [4]], "shuffle": [None, []], "Merge/MergeSummary": [[]]}
        self.assertEqual({name: shapes[name] for name in wanted}, wanted)

    def test_each_executed_op_has_a_time_that_can_be_shown(self):
        stats = self.stats("step_2")
        executed = {"model/split", "check", "train/update", "input/dequeue", "summary/loss", "Merge/MergeSummary"}
        for name in executed:
            self.assertGreaterEqual(stats[name].all_end_rel_micros, 1, name)
            self.assertGreater(stats[name].all_start_micros, 10**15, name)
        self.assertTrue(set(stats) <= set(self.nodes))
        self.assertFalse({"shuffle", "extra", "init", "input/enqueue"} & set(stats))

    def test_memory_and_shapes_of_a_traced_run(self):
        stats = self.stats("step_6")
        self.assertEqual(stats["input/dequeue"].memory[0].total_bytes, 4 * 3 * 4 + 4 * 8)
        self.assertEqual(stats["model/dense/weights"].memory[0].total_bytes, 3 * 4)
        shapes = [shape_of(output.tensor_description.shape) for output in stats["model/split"].output]
        self.assertEqual(shapes, [[4, 3], []])  # where the graph says [-1, 3]


class Import(GraphCase):
    def setUp(self):
        super().setUp()
        self.imported = tf.Graph()
        with self.imported.as_default():
            tf.import_graph_def(to_tensorflow(self.graph), name="")

    def test_tensorflow_takes_every_node_edge_type_and_shape(self):
        self.assertEqual({op.name for op in self.imported.get_operations()}, set(self.nodes))

    def test_tensors_have_the_types_and_shapes_that_they_were_given(self):
        weights = self.imported.get_tensor_by_name("model/dense/weights:0")
        self.assertEqual((weights.dtype.base_dtype, weights.shape.as_list()), (tensorflow.float32, [3]))
        dequeued = self.imported.get_tensor_by_name("input/dequeue:1")
        self.assertEqual((dequeued.dtype, dequeued.shape.as_list()), (tensorflow.int64, [4]))
        split = self.imported.get_tensor_by_name("model/split:0")
        self.assertEqual(split.shape.as_list(), [None, 3])

    def test_control_edges(self):
        update = self.imported.get_operation_by_name("train/update")
        self.assertEqual([op.name for op in update.control_inputs], ["check"])
        group = self.imported.get_operation_by_name("train/group")
        self.assertEqual({op.name for op in group.control_inputs}, {"model/split", "train/update"})

    def test_tensorflow_runs_the_queue_of_the_graph(self):
        with tf.Session(graph=self.imported) as session:
            self.assertEqual(session.run("input/size:0"), 0)
            session.run("input/close")

    def test_a_false_shape_would_be_refused(self):
        false = to_tensorflow(self.graph)
        weights = next(node for node in false.node if node.name == "model/dense/weights")
        weights.attr[SHAPES].list.shape[0].dim[0].size = 4
        with tf.Graph().as_default(), self.assertRaises(ValueError):
            tf.import_graph_def(false, name="")


class Summaries(GraphCase):
    def setUp(self):
        super().setUp()
        self.reader = EventAccumulator(str(self.directory / "run"), size_guidance={"scalars": 0, "histograms": 0})
        self.reader.Reload()

    def points(self, tag):
        return [(event.step, event.value) for event in self.reader.Scalars(tag)]

    def test_they_are_found_without_a_name(self):
        losses = self.points("loss")
        self.assertEqual([step for step, _ in losses], list(range(1, LAST + 1)))
        for step, value in losses:
            self.assertAlmostEqual(value, 1 / step)  # after the op that trains

    def test_tags_that_differ_from_names(self):
        self.assertEqual(self.points("scale/größe"), [(step, 0.25) for step in range(1, LAST + 1)])
        self.assertNotIn("scale", self.reader.Tags()["scalars"])

    def test_a_histogram_of_a_variable(self):
        events = self.reader.Histograms("weights")
        self.assertEqual([event.step for event in events], list(range(1, LAST + 1)))
        self.assertEqual(events[0].histogram_value.max, 4)  # check and train/update have both added 2
        self.assertEqual(events[0].histogram_value.num, 3)


if __name__ == "__main__":
    unittest.main()
