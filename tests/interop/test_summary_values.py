# SPDX-License-Identifier: Apache-2.0
"""Summary values of each kind, compared with those of TensorFlow and TensorBoard for the same input, and read by TensorBoard's
reader."""
import math
import unittest

import numpy as np
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import summary as custom_scalar_summary
from tensorboard.plugins.histogram import summary_v2 as histogram_summary
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import summary as hparams_summary
from tensorboard.plugins.pr_curve import summary as pr_curve_summary

from support import TestCase, run, tf

TYPES = {np.dtype("float32"): 1, np.dtype("float64"): 2, np.dtype("int32"): 3, np.dtype("uint8"): 4, np.dtype("int16"): 5,
         np.dtype("int8"): 6, np.dtype("int64"): 9, np.dtype("uint16"): 17, np.dtype("float16"): 19, np.dtype("uint32"): 22,
         np.dtype("uint64"): 23, np.dtype(tf.bfloat16.as_numpy_dtype): 14}
STRING = 7


def evaluate(make):
    """The result of a TensorFlow summary op."""
    with tf.Graph().as_default(), tf.Session() as session:
        return tf.Summary.FromString(session.run(make()))


def parsed(message):
    return tf.Summary.FromString(message.SerializeToString())


class Values(TestCase):
    def setUp(self):
        super().setUp()
        self.lines = []

    def ask(self, kind, tag="x", array=None, data=b"", dtype=0, dims="-"):
        path = self.path(f"input{len(self.lines)}")
        if array is not None:
            array = np.ascontiguousarray(array)
            data, dtype, dims = array.tobytes(), TYPES[array.dtype], ",".join(map(str, array.shape)) or "-"
        with open(path, "wb") as file:
            file.write(data)
        self.lines.append(f"{kind} {tag} {dtype} {dims} {path}\n")
        return path

    def written(self):
        """The requested Summaries, read by TensorFlow."""
        self.events = run("write_values", self.path("events"), given="".join(self.lines)).strip()
        return [event.summary for event in tf.train.summary_iterator(self.events) if event.HasField("summary")]

    def accumulated(self):
        reader = event_accumulator.EventAccumulator(self.path("events"), size_guidance={
            event_accumulator.HISTOGRAMS: 0, event_accumulator.TENSORS: 0, event_accumulator.IMAGES: 0,
            event_accumulator.AUDIO: 0})
        reader.Reload()
        return reader


class Histograms(Values):
    def assert_same(self, ours, theirs):
        self.assertEqual(len(ours.value), 1)
        ours, theirs = ours.value[0], theirs.value[0]
        for name in ("sum", "sum_squares"):  # added up in another order
            mine, wanted = getattr(ours.histo, name), getattr(theirs.histo, name)
            self.assertTrue(math.isclose(mine, wanted, rel_tol=1e-9, abs_tol=1e-9 * theirs.histo.num), (mine, wanted))
            setattr(ours.histo, name, wanted)
        self.assertEqual(ours.histo, theirs.histo)

    def check(self, arrays):
        for array in arrays:
            self.ask("histogram", array=array)
        for array, ours in zip(arrays, self.written(), strict=True):
            with self.subTest(dtype=array.dtype, shape=array.shape):
                self.assert_same(ours, evaluate(lambda: tf.summary.histogram("x", tf.constant(array))))

    def test_of_every_type(self):
        numbers = np.random.default_rng(1)
        self.check([(numbers.normal(size=(50, 20)) * 40).clip(0 if dtype.kind == "u" else -100, 100).astype(dtype)
                    for dtype in TYPES])

    def test_of_all_magnitudes(self):
        numbers = np.random.default_rng(2)
        wide = numbers.choice([-1, 1], 20000) * 10 ** numbers.uniform(-37, 38, 20000)  # TensorFlow treats smaller numbers as 0
        self.check([wide.astype(np.float32), wide, 10 ** numbers.uniform(-300, 150, 1000)])

    def test_of_edges(self):
        edges = [1e-12]
        while edges[-1] * 1.1 < 1e20:
            edges.append(edges[-1] * 1.1)
        edges = np.array(edges)
        near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)])
        self.check([near, -near, near.astype(np.float32), -near.astype(np.float32)])

    def test_of_little(self):
        self.check([np.zeros(0, np.float32), np.zeros((2, 0)), np.float32(3), np.array([0.0, -0.0]),
                    np.array([1e300, -1e300, 5e-324]), np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])])

    def test_of_a_million(self):
        self.check([np.random.default_rng(3).normal(size=1000000).astype(np.float32)])

    def test_tensorboard_shows_it(self):
        self.ask("histogram", "weights", np.float32([1, 2, 3]))
        self.written()
        reader = self.accumulated()
        shown = reader.Histograms("weights")[0].histogram_value
        self.assertEqual((shown.num, shown.sum, shown.min, shown.max), (3, 6, 1, 3))
        self.assertEqual(sum(shown.bucket), 3)

    def test_values_that_are_not_finite(self):
        self.ask("histogram", "w", np.float32([1, np.nan, np.inf, -np.inf, np.nan, np.nan]))
        values = self.written()[0].value
        self.assertEqual([(value.tag, value.simple_value) for value in values], [("w", 0), ("w/nan", 3), ("w/infinity", 2)])
        self.assertEqual(values[0].histo.num, 1)

    def test_in_uniform_buckets(self):
        numbers = np.random.default_rng(4)
        arrays = [numbers.normal(size=1000), np.arange(31.0), np.full(5, 2.5), np.zeros(0), np.float32([-1, 0, 4]),
                  np.array([3, -7, 9])]
        for array in arrays:
            self.ask("uniform", array=array)
        for array, ours in zip(arrays, self.written(), strict=True):
            theirs = parsed(histogram_summary.histogram_pb("x", array))
            rows = tf.make_ndarray(ours.value[0].tensor)
            np.testing.assert_allclose(rows, tf.make_ndarray(theirs.value[0].tensor), rtol=1e-12, atol=1e-12)
            self.assertEqual(ours.value[0].metadata, theirs.value[0].metadata)
            self.assertEqual(ours.value[0].tensor.dtype, theirs.value[0].tensor.dtype)


class Images(Values):
    def pixels(self, value):
        with tf.Graph().as_default(), tf.Session() as session:
            return session.run(tf.image.decode_png(value.image.encoded_image_string))

    def check(self, arrays):
        for array in arrays:
            self.ask("image", array=array)
        for array, ours in zip(arrays, self.written(), strict=True):
            with self.subTest(dtype=array.dtype, shape=array.shape):
                batch = array.reshape((1,) * (array.ndim < 4) + array.shape + (1,) * (array.ndim == 2))
                theirs = evaluate(lambda: tf.summary.image("x", tf.constant(batch), 3 if array.ndim == 4 else 1))
                self.assertEqual([value.tag for value in ours.value], [value.tag for value in theirs.value])
                for mine, wanted in zip(ours.value, theirs.value):
                    for name in ("height", "width", "colorspace"):
                        self.assertEqual(getattr(mine.image, name), getattr(wanted.image, name))
                    np.testing.assert_array_equal(self.pixels(mine), self.pixels(wanted))

    def test_of_bytes(self):
        numbers = np.random.default_rng(5)
        shapes = [(7, 5), (7, 5, 1), (6, 9, 3), (4, 4, 4), (1, 1), (5, 8, 6, 3), (2, 3, 3, 1), (1, 3, 3, 4), (0, 2, 2, 1)]
        self.check([numbers.integers(0, 256, shape).astype(np.uint8) for shape in shapes]
                   + [np.add.outer(np.arange(200), np.arange(300)).astype(np.uint8)])

    def test_of_floats(self):
        numbers = np.random.default_rng(6)
        for dtype in (np.float32, np.float64):
            self.lines.clear()
            self.check([array.astype(dtype) for array in (
                numbers.uniform(0, 1, (20, 30)), numbers.normal(size=(20, 30, 3)), numbers.uniform(0, 1, (3, 9, 9, 4)),
                np.zeros((2, 2)), np.full((3, 3, 3), -2.0), np.full((2, 2), 1e-9),
                numbers.normal(size=(2, 40, 40, 1)) * 1e6)])

    def test_of_halves(self):
        numbers = np.random.default_rng(11)
        self.check([array.astype(np.float16) for array in (
            numbers.uniform(0, 1, (20, 30)), numbers.normal(size=(20, 30, 3)), numbers.uniform(0, 60000, (3, 9, 9, 4)),
            numbers.uniform(0, 0.004, (9, 9)), np.zeros((2, 2)), np.full((2, 2), 6e-8),
            np.array([[np.nan, 1], [0.3, -np.inf]]))])

    def test_of_tiny_values(self):
        self.check([np.float32([[1e-6, 5e-7], [0, 9e-7]]), np.float32([[9.9e-7, 0], [0, 0]]),
                    np.array([[-1e-46, 0.5], [0.25, 1]]), np.array([[1e300, 1], [0, 2]]), np.array([[-1e300, 1], [0, 2]])])

    def test_of_values_that_are_not_finite(self):
        image = np.random.default_rng(7).normal(size=(10, 10, 3)).astype(np.float32)
        image[3, 4, 1], image[5, 6, 0] = np.nan, np.inf
        self.check([image, image[:, :, :1], np.full((2, 2), np.nan, np.float32)])

    def test_tensorboard_shows_it(self):
        self.ask("image", "digits", np.zeros((2, 4, 5, 1), np.uint8))
        self.written()
        reader = self.accumulated()
        self.assertEqual(reader.Tags()["images"], ["digits/image/0", "digits/image/1"])
        shown = reader.Images("digits/image/1")[0]
        self.assertEqual((shown.width, shown.height), (5, 4))


class Sound(Values):
    def test_as_tensorflow_has_it(self):
        clips = [np.float32([0, 0.5, -0.5, 1, -1, 2, -2, 1e-5, 1.5 / 32768, -1.5 / 32768, np.nan, np.inf, -np.inf]),
                 np.random.default_rng(8).uniform(-1.1, 1.1, (50, 2)).astype(np.float32),
                 np.random.default_rng(9).uniform(-1, 1, (5, 20, 1)).astype(np.float32)]
        clips.append(np.zeros(0, np.float32))
        for clip in clips:
            self.ask("audio", array=clip)
        for clip, ours in zip(clips, self.written(), strict=True):
            batch = clip.reshape((1,) * (clip.ndim < 3) + clip.shape + (1,) * (clip.ndim == 1))
            theirs = evaluate(lambda: tf.summary.audio("x", tf.constant(batch), 8000.7, 3 if clip.ndim == 3 else 1))
            self.assertEqual(ours, theirs)
        self.assertEqual(self.accumulated().Tags()["audio"], ["x/audio", "x/audio/0", "x/audio/1", "x/audio/2"])


class Text(Values):
    def test_as_tensorflow_has_it(self):
        self.ask("text", data="# größer\n\n| a | b |".encode())
        self.ask("strings", data=b"one\ntwo\nthree", dtype=STRING, dims="3")
        self.ask("strings", data=b"a\nb\nc\nd", dtype=STRING, dims="2,2")
        wanted = ["# größer\n\n| a | b |", ["one", "two", "three"], [["a", "b"], ["c", "d"]]]
        for ours, text in zip(self.written(), wanted, strict=True):
            self.assertEqual(ours, evaluate(lambda: tf.summary.text("x", tf.constant(text))))
        reader = self.accumulated()
        self.assertEqual(reader.PluginTagToContent("text"), {"x": b""})
        self.assertEqual(tf.make_ndarray(tf.make_tensor_proto(reader.Tensors("x")[0].tensor_proto.string_val[0])),
                         wanted[0].encode())


class Tensors(Values):
    def test_of_every_type(self):
        arrays = [np.arange(6).reshape(2, 3).astype(dtype) for dtype in TYPES]
        for array in arrays:
            self.ask("tensor", array=array)
        for array, ours in zip(arrays, self.written(), strict=True):
            np.testing.assert_array_equal(tf.make_ndarray(ours.value[0].tensor), array)
            data = ours.value[0].metadata.plugin_data
            self.assertEqual((data.plugin_name, data.content), ("mine", b"c"))

    def test_summaries_from_elsewhere_are_unchanged(self):
        theirs = evaluate(lambda: tf.summary.merge([tf.summary.scalar("loss", 1.0),
                                                    tf.summary.histogram("w", tf.constant([1.0, 2.0])),
                                                    tf.summary.text("t", tf.constant("x"))]))
        self.ask("merge", data=theirs.SerializeToString())
        self.assertEqual(self.written(), [theirs])


class Plugins(Values):
    def test_precision_and_recall(self):
        numbers = np.random.default_rng(10)
        cases = []
        for dtype in (np.float32, np.float64):
            labels = numbers.integers(0, 2, 700).astype(bool)
            predictions = np.concatenate([numbers.uniform(0, 1, 690), np.arange(10) / 10]).astype(dtype)
            weights = numbers.integers(0, 4, 700).astype(np.float32)
            path = self.ask("pr_curve", array=predictions)
            for name, array in ("labels", labels), ("predictions", predictions), ("weights", weights):
                array.tofile(f"{path}.{name}")
            cases.append((labels, predictions, weights))
        for ours, (labels, predictions, weights) in zip(self.written(), cases, strict=True):
            theirs = parsed(pr_curve_summary.pb("x", labels, predictions, 11, weights))
            ours, theirs = ours.value[0], theirs.value[0]
            self.assertEqual((ours.tag, ours.metadata.plugin_data, ours.metadata.display_name),
                             (theirs.tag, theirs.metadata.plugin_data, theirs.metadata.display_name))
            np.testing.assert_allclose(tf.make_ndarray(ours.tensor), tf.make_ndarray(theirs.tensor), rtol=1e-6)
        self.assertIn("x/pr_curves", self.accumulated().PluginTagToContent("pr_curves"))

    def test_layout_of_charts(self):
        chart, multiline, margin = layout_pb2.Chart, layout_pb2.MultilineChartContent, layout_pb2.MarginChartContent
        layout = layout_pb2.Layout(category=[
            layout_pb2.Category(title="training", closed=True, chart=[
                chart(title="losses", multiline=multiline(tag=["loss", "validation/.*"])),
                chart(title="with a band", margin=margin(series=[
                    margin.Series(value="loss/mean", lower="loss/low", upper="loss/high")]))]),
            layout_pb2.Category(title="empty")])
        self.ask("layout")
        self.assertEqual(self.written(), [parsed(custom_scalar_summary.pb(layout))])

    def test_hyperparameters(self):
        infos = [api_pb2.HParamInfo(name="optimizer", type=api_pb2.DATA_TYPE_STRING),
                 api_pb2.HParamInfo(name="rate", display_name="learning rate", type=api_pb2.DATA_TYPE_FLOAT64,
                                    domain_interval=api_pb2.Interval(min_value=0.01, max_value=1)),
                 api_pb2.HParamInfo(name="nesterov", description="look *ahead*", type=api_pb2.DATA_TYPE_BOOL)]
        infos[0].domain_discrete.extend(["sgd", "adam"])
        metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag="loss"), display_name="the loss"),
                   api_pb2.MetricInfo(name=api_pb2.MetricName(group="validation", tag="accuracy"),
                                      dataset_type=api_pb2.DATASET_VALIDATION)]
        wanted = [hparams_summary.experiment_pb(infos, metrics, time_created_secs=1.5),
                  hparams_summary.session_start_pb({"optimizer": "adam", "rate": 0.0, "nesterov": False},
                                                   group_name="group", start_time_secs=2.5),
                  hparams_summary.session_end_pb(api_pb2.STATUS_SUCCESS, 3.5)]
        for what in ("config", "start", "end"):
            self.ask("hparams", what)
        for ours, theirs in zip(self.written(), wanted, strict=True):
            ours, theirs = ours.value[0], theirs.value[0]
            self.assertEqual((ours.tag, ours.tensor, ours.metadata.plugin_data.plugin_name),
                             (theirs.tag, theirs.tensor, theirs.metadata.plugin_data.plugin_name))
            self.assertEqual(*(plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
                               for value in (ours, theirs)))


if __name__ == "__main__":
    unittest.main()
