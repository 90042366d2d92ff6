# SPDX-License-Identifier: Apache-2.0
"""Event files that the C library writes are iterators and numpy arrays."""
import contextlib
import dataclasses
import gc
import os
import pathlib
import unittest

import hooksess
import numpy
from numpy.testing import assert_array_equal
from support import TestCase, run

try:
    import pandas
except ImportError:
    pandas = None


class Training(TestCase):
    """A training that fails after step 5, continues at step 4, and ends at step 7."""

    def setUp(self):
        super().setUp()
        run("python/write_run", self.directory, 5, "fail", status=1)
        run("python/write_run", self.directory, 7)

    def test_the_points_of_a_tag_are_arrays(self):
        loss = hooksess.scalars(self.directory, "loss")
        assert_array_equal(loss.step, numpy.arange(1, 8), strict=True)
        assert_array_equal(loss.value, numpy.float32([1, 1 / 2, 1 / 3, 1 / 4, -1 / 5, -1 / 6, -1 / 7]).astype(float), strict=True)
        self.assertTrue((numpy.diff(loss.wall_time) >= 0).all() and loss.wall_time[0] > 1e9)
        self.assertEqual((loss[-1].step, loss[loss.step > 5].value.tolist()), (7, loss.value[5:].tolist()))

    def test_obsolete_points_are_there_on_request(self):
        loss = hooksess.scalars(self.directory, "loss", all_points=True)
        self.assertEqual(loss.step.tolist(), [1, 2, 3, 4, 5, 5, 6, 7])
        self.assertEqual(numpy.sign(loss.value).tolist(), [1] * 5 + [-1] * 3)

    def test_an_unknown_tag_is_a_key_error(self):
        for use in (lambda: hooksess.scalars(self.directory, "los"), lambda: hooksess.all_scalars(self.directory)["los"]):
            with self.assertRaisesRegex(KeyError, f"no scalar 'los' in '{self.directory}'; near names: 'loss'"):
                use()
        with self.assertRaisesRegex(KeyError, "no scalar 'accuracy' in '[^;]*'\"$"):
            hooksess.scalars(self.directory, "accuracy")

    def test_a_tag_whose_last_component_is_near_is_named(self):
        path = self.directory / "number"
        path.write_bytes(numpy.float32(1).tobytes())
        run("interop/write_values", self.directory / "values", given="".join(f"scalar {tag} 1 - {path}\n" for tag in ("curves/loss", "rate")).encode())
        with self.assertRaisesRegex(KeyError, "no scalar 'los' in '[^;]*'; near names: 'curves/loss'\"$"):
            hooksess.scalars(self.directory / "values", "los")

    def test_a_tag_of_another_type_than_str_is_a_type_error(self):
        for tag in (3, None, b"loss"):
            with self.assertRaisesRegex(TypeError, f"a tag is a str, not {type(tag).__name__}"):
                hooksess.scalars(self.directory, tag)

    def test_all_tags_are_found(self):
        self.assertEqual(list(hooksess.all_scalars(self.directory)), ["loss"])
        loss = hooksess.all_scalars(self.directory, all_points=True)["loss"]
        self.assertEqual(loss.step.tolist(), [1, 2, 3, 4, 5, 5, 6, 7])

    def test_session_logs_say_where_a_run_began(self):
        logs = [(event.log, event.step) for event in hooksess.events(self.directory) if event.kind == "session_log"]
        self.assertEqual([log for log in logs if log[0] == "start"], [("start", 1), ("start", 5)])
        saves = [event for event in hooksess.events(self.directory) if event.log == "checkpoint"]
        self.assertEqual(saves[-1].checkpoint_path, str(self.directory / "model.ckpt-7"))

    def test_events_have_file_and_offset(self):
        files = sorted(str(path) for path in self.directory.glob("*tfevents*"))
        self.assertEqual(len(files), 2)
        seen = list(hooksess.events(self.directory))
        self.assertEqual(sorted({event.path for event in seen}), files)
        for file in files:
            offsets = [event.offset for event in seen if event.path == file]
            self.assertEqual(offsets, sorted(set(offsets)))
            self.assertEqual([event.text for event in hooksess.events(file) if event.kind == "file_version"], ["brain.Event:2"])

    def test_damage_is_a_warning_or_a_call(self):
        file = max(self.directory.glob("*tfevents*"))
        last = [event for event in hooksess.events(file) if event.values][-1]
        content = bytearray(file.read_bytes())
        content[last.offset + 14] ^= 1
        file.write_bytes(content + b"abc")
        damages = []
        intact = list(hooksess.events(file, damages.append))
        self.assertEqual([(part.path, part.is_truncated) for part in damages], [(str(file), False), (str(file), True)])
        self.assertEqual((damages[0].offset, damages[1].bytes), (last.offset, 3))
        self.assertNotIn(last.offset, [event.offset for event in intact])
        with self.assertWarnsRegex(RuntimeWarning, file.name):
            self.assertEqual(hooksess.scalars(file, "loss").step.tolist(), [5, 6])

    def test_an_error_of_the_callers_function_ends_the_iteration(self):
        def refuse(damage):
            raise RuntimeError(damage.message)

        file = max(self.directory.glob("*tfevents*"))
        file.write_bytes(file.read_bytes() + b"abc")
        with self.assertRaisesRegex(RuntimeError, file.name):
            list(hooksess.events(file, refuse))

    def test_a_missing_path_is_an_error(self):
        with self.assertRaises(hooksess.Error) as raised:
            next(hooksess.events(self.directory / "none"))
        self.assertEqual(raised.exception.name, "NOT_FOUND")

    @unittest.skipUnless(pathlib.Path("/proc/self/fd").is_dir(), "needs /proc")
    def test_an_iteration_closes_its_files_also_unfinished(self):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            next(hooksess.events(self.directory))
            list(hooksess.events(self.directory))
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_a_file_that_cannot_be_read_is_an_error(self):
        os.mkfifo(self.directory / "events.out.tfevents.9999999999.fifo")
        with self.assertRaises(hooksess.Error) as raised:
            list(hooksess.events(self.directory))
        self.assertIn("9999999999.fifo", raised.exception.message)
        with self.assertRaises(hooksess.Error):
            hooksess.scalars(self.directory, "loss")


@unittest.skipUnless(pandas, "needs pandas")
class Pandas(TestCase):
    def setUp(self):
        super().setUp()
        run("python/write_run", self.directory, 5, "fail", status=1)
        run("python/write_run", self.directory, 7)

    def test_the_points_of_a_tag_are_a_data_frame(self):
        loss = hooksess.scalars(self.directory, "loss")
        table = pandas.DataFrame(loss)
        self.assertEqual(list(table.columns), ["step", "value", "wall_time"])
        self.assertEqual([str(dtype) for dtype in table.dtypes], ["int64", "float64", "float64"])
        for name in table.columns:
            assert_array_equal(table[name], loss[name])

    def test_the_points_of_a_tag_are_a_series(self):
        loss = hooksess.scalars(self.directory, "loss")
        series = pandas.Series(loss.value, loss.step)
        self.assertEqual((len(series), series[4]), (7, 0.25))

    def test_all_tags_are_one_table_by_step(self):
        directory = self.directory / "several"
        run("interop/write_events", directory, given=b"\n\n")
        table = hooksess.frame(directory)
        self.assertEqual(table.index.name, "step")
        self.assertTrue(table.index.is_monotonic_increasing and table.index.is_unique)
        for tag, points in hooksess.all_scalars(directory).items():
            column = table[tag].dropna()
            assert_array_equal(column.index, points.step)
            assert_array_equal(column, points.value)

    def test_of_several_values_at_a_step_the_last_one_counts(self):
        file = min(self.directory.glob("*tfevents*"))
        copy = self.directory / "copy"
        copy.mkdir()
        for name in ("events.out.tfevents.1", "events.out.tfevents.2"):
            (copy / name).write_bytes(file.read_bytes())
        self.assertEqual(hooksess.frame(copy)["loss"].tolist(), hooksess.scalars(file, "loss").value.tolist())


class Decoded(TestCase):
    def values(self, *lines):
        """The values that write_values writes, each a line KIND TAG DTYPE DIMS and an array."""
        text = ""
        for i, (line, array) in enumerate(lines):
            path = self.directory / f"array-{i}"
            path.write_bytes(array.tobytes())
            text += f"{line} {path}\n"
        run("interop/write_values", self.directory / "values", given=text.encode())
        return {value.tag: value for event in hooksess.events(self.directory / "values") for value in event.values}

    def test_an_image_has_its_pixels(self):
        random = numpy.random.default_rng(1)
        # Smooth and noisy rows, so that the writer chooses different filters.
        smooth = numpy.add.outer(numpy.arange(40) * 3, numpy.arange(50) * 2).astype(numpy.uint8)
        lines, expected = [], {}
        for channels in (1, 3, 4):
            pixels = numpy.stack([smooth + 7 * c for c in range(channels)], axis=-1)
            pixels[10:20] = random.integers(0, 256, pixels[10:20].shape)
            lines.append((f"image c{channels} 4 1,40,50,{channels}", pixels))
            expected[f"c{channels}/image/0"] = pixels
        found = self.values(*lines)
        self.assertEqual(set(found), set(expected))
        for tag, pixels in expected.items():
            assert_array_equal(found[tag].image(), pixels, strict=True)

    def test_a_histogram_counts_the_numbers(self):
        numbers = numpy.random.default_rng(2).normal(size=1000).astype(numpy.float32)
        histogram = self.values(("histogram h 1 1000", numbers))["h"].histogram()
        self.assertEqual((histogram.min, histogram.max), (numbers.min(), numbers.max()))
        self.assertEqual((histogram.edges[0], histogram.edges[-1]), (histogram.min, histogram.max))
        self.assertAlmostEqual(histogram.sum, float(numbers.sum(dtype=float)), places=3)
        self.assertAlmostEqual(histogram.sum_squares, float((numbers.astype(float) ** 2).sum()), places=2)
        self.assertEqual((histogram.counts.sum(), histogram.edges.size), (1000, histogram.counts.size + 1))
        expected, _ = numpy.histogram(numbers, histogram.edges)
        self.assertLess(abs(histogram.counts - expected).sum(), 10)  # a number on an edge may count in either bucket

    def test_a_tensor_is_an_array(self):
        numbers = numpy.arange(12, dtype=numpy.float32)
        value = self.values(("tensor t 1 3,4", numbers))["t"]
        assert_array_equal(value.tensor(), numbers.reshape(3, 4), strict=True)

    def test_a_tensor_without_elements_is_an_empty_array(self):
        """The library stores an element in those of hyperparameters, as TensorBoard does."""
        found = self.values(("hparams config 1 0", numpy.ones(1, numpy.float32)), ("tensor t 1 0,3", numpy.zeros(0, numpy.float32)))
        for value, shape in (found["_hparams_/experiment"], (0,)), (found["t"], (0, 3)):
            assert_array_equal(value.tensor(), numpy.empty(shape, numpy.float32), strict=True)

    def test_another_kind_is_a_type_error(self):
        value = self.values(("histogram h 1 3", numpy.ones(3, numpy.float32)))["h"]
        for use in (value.image, value.tensor):
            with self.assertRaisesRegex(TypeError, "the value 'h' is of the kind 'histogram'"):
                use()

    def test_damaged_data_is_a_value_error(self):
        value = self.values(("image i 4 1,40,50,3", numpy.zeros((40, 50, 3), numpy.uint8)))["i/image/0"]
        for n in range(0, len(value.data), 3):
            with self.assertRaisesRegex(ValueError, "cannot decode the image 'i/image/0'"):
                dataclasses.replace(value, data=value.data[:n]).image()
        for i in range(len(value.data)):
            with self.subTest(byte=i), contextlib.suppress(ValueError):
                dataclasses.replace(value, data=value.data[:i] + b"\xff" + value.data[i + 1 :]).image()


class AllKinds(TestCase):
    def setUp(self):
        super().setUp()
        run("interop/write_events", self.directory, given=b"\n\n")

    def test_every_kind_is_named(self):
        kinds = {event.kind for event in hooksess.events(self.directory)}
        self.assertEqual(kinds, {"file_version", "session_log", "graph", "meta_graph", "summary"})
        self.assertEqual([event.log for event in hooksess.events(self.directory) if event.kind == "session_log"],
                         ["start", "checkpoint", "checkpoint", "stop"])
        (graph,) = (event for event in hooksess.events(self.directory) if event.kind == "graph")
        self.assertIn(b"weights", graph.data)
        self.assertNotIn("weights", repr(graph))

    def test_values_have_tag_kind_and_number(self):
        summary = [event for event in hooksess.events(self.directory) if len(event.values) == 2][2]
        self.assertEqual([(value.tag, value.kind, value.scalar) for value in summary.values],
                         [("metrics/accuracy", "scalar", 0.75), ("metrics/größe", "scalar", float(numpy.float32(-3e30)))])
        self.assertEqual(summary.step, 3)

    def test_a_tag_may_have_any_letters(self):
        self.assertEqual(hooksess.scalars(self.directory, "metrics/größe").step.tolist(), list(range(1, 21)))

    def test_other_values_have_their_message(self):
        sound = self.directory / "sound"
        sound.write_bytes(numpy.linspace(-1, 1, 12, dtype=numpy.float32).tobytes())
        lines = [f"histogram h 1 12 {sound}", f"image i 1 1,2,2,3 {sound}", f"audio a 1 1,12,1 {sound}", f"tensor t 1 3,4 {sound}"]
        run("interop/write_values", self.directory / "values", given="\n".join(lines).encode() + b"\n")
        found = {value.tag: value for event in hooksess.events(self.directory / "values") for value in event.values}
        self.assertEqual({value.kind for value in found.values()}, {"histogram", "image", "audio", "tensor"})
        self.assertTrue(all(value.data and value.scalar is None for value in found.values()))
        (tensor,) = (value for value in found.values() if value.kind == "tensor")
        self.assertEqual((tensor.tag, tensor.plugin, tensor.dtype, tensor.shape), ("t", "mine", numpy.dtype("float32"), (3, 4)))


if __name__ == "__main__":
    unittest.main()
