# SPDX-License-Identifier: Apache-2.0
"""Reads event files."""
from __future__ import annotations

import ctypes
import os
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy
import numpy.typing

from hooksess import _messages

from hooksess._library import (
    DAMAGED,
    OUT_OF_RANGE,
    EventReaderOptions,
    ErrorStruct,
    EventStruct,
    EventValue,
    decode,
    encode,
    encode_path,
    error_of,
    library,
)
from hooksess._messages import Histogram
from hooksess._names import Named, unknown
from hooksess._types import Array, numpy_type

if TYPE_CHECKING:
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

T = TypeVar("T")
_LOGS = {1: "start", 2: "stop", 3: "checkpoint"}
_TENSOR = 8  # hs_event_value_kind


@dataclass(frozen=True)
class Value:
    """A value of a summary."""

    tag: str
    kind: str  # "scalar", "image", "histogram", "audio", "tensor" or "other"
    plugin: str  # TensorBoard's plugin that shows it; often only the first value of a tag names it
    scalar: float | None  # the number of a scalar, or of a tensor with one number
    dtype: numpy.dtype[Any] | None  # of a tensor, as tensor() returns it
    shape: tuple[int, ...] | None  # of a tensor
    data: bytes = field(repr=False)  # the serialized message, such as HistogramProto; of a scalar: empty

    def histogram(self) -> Histogram:
        """Decodes a histogram. Raises TypeError if the value is not one."""
        return self._decoded("histogram", _messages.histogram)

    def image(self) -> Array:
        """Decodes an image: bytes in an array of (height, width, channels). 1 channel is gray, 2 gray and alpha, 3 RGB, 4 RGBA.

        Raises TypeError if the value is not an image, and ValueError if it is not a PNG with 8 bits per channel.
        """
        return self._decoded("image", _messages.image)

    def tensor(self) -> Array:
        """Decodes a tensor. Raises TypeError if the value is not one."""
        return self._decoded("tensor", lambda data: _messages.tensor(data, self.shape or ()))

    def _decoded(self, kind: str, decoder: Callable[[bytes], T]) -> T:
        if self.kind != kind:
            raise TypeError(f"the value '{self.tag}' is of the kind '{self.kind}', not '{kind}'")
        try:
            return decoder(self.data)
        except (ValueError, IndexError, TypeError, struct.error, zlib.error) as error:
            raise ValueError(f"cannot decode the {kind} '{self.tag}': {error}") from error


@dataclass(frozen=True)
class Event:
    """An event of a file."""

    step: int
    wall_time: float  # seconds since 1970
    kind: str  # "summary", "session_log", "graph", "meta_graph", "file_version", "run_metadata", "log_message" or "other"
    values: tuple[Value, ...]  # of a summary
    log: str | None  # of a session log: "start", "stop" or "checkpoint"
    checkpoint_path: str  # of a session log
    message: str  # of a session log or a log message
    text: str  # the file version, or the tag of run metadata
    data: bytes = field(repr=False)  # the serialized graph, meta graph, summary or run metadata
    path: str  # the file
    offset: int  # of the record in the file, in bytes


@dataclass(frozen=True)
class Damage:
    """A damaged part of a file, which was skipped."""

    path: str
    offset: int  # of the first damaged byte
    bytes: int
    is_truncated: bool  # the file ends inside a record, as after a crash of the writer
    message: str


class Scalars(numpy.recarray[Any, Any]):
    """The points of one tag, in the order of the file: a record array of numpy, which pandas.DataFrame takes as it is."""

    step: numpy.typing.NDArray[numpy.int64]
    value: numpy.typing.NDArray[numpy.float64]
    wall_time: numpy.typing.NDArray[numpy.float64]  # seconds since 1970


_POINT = numpy.dtype([("step", numpy.int64), ("value", numpy.float64), ("wall_time", numpy.float64)])


def _warn(damage: Damage) -> None:
    warnings.warn(damage.message, RuntimeWarning, stacklevel=3)


def _value(value: EventValue) -> Value:
    lib, is_tensor = library(), value.kind == _TENSOR
    return Value(
        value.tag.text(),
        lib.hs_event_value_kind_name(value.kind).decode(),
        value.plugin.text(),
        value.scalar if value.has_scalar else None,
        numpy_type(value.dtype) if is_tensor else None,
        tuple(value.shape.dims[: value.shape.rank]) if is_tensor and value.shape.rank >= 0 else None,
        value.bytes.get(),
    )


def _event(event: EventStruct) -> Event:
    return Event(
        event.step,
        event.wall_time,
        library().hs_event_kind_name(event.kind).decode(),
        tuple(_value(event.values[i]) for i in range(event.n_values)),
        _LOGS.get(event.status),
        event.checkpoint_path.text(),
        event.message.text(),
        event.text.text(),
        event.bytes.get(),
        os.fsdecode(event.path),
        event.offset,
    )


def events(path: str | os.PathLike[str], damaged: Callable[[Damage], None] | None = None) -> Iterator[Event]:
    """Returns an iterator over the events of a file, or of all event files in a directory in the order of their names.

    damaged  called for each damaged part, which is skipped. None: a RuntimeWarning

    A file that grows meanwhile is read up to its present end. Use the iterator in one thread. It raises Error if `path` does
    not exist or cannot be read.
    """
    return map(_event, _structs(path, damaged or _warn))


def _structs(path: str | os.PathLike[str], damaged: Callable[[Damage], None]) -> Iterator[EventStruct]:
    found: list[Damage] = []

    def note(user: int | None, struct: Any) -> None:
        part = struct.contents
        found.append(Damage(os.fsdecode(part.path), part.offset, part.bytes, part.is_truncated, decode(part.message)))

    lib, error, callback = library(), ErrorStruct(), DAMAGED(note)
    options = EventReaderOptions(size=ctypes.sizeof(EventReaderOptions), damaged=callback)
    reader = lib.hs_event_reader_open(encode_path(path), ctypes.byref(options), ctypes.byref(error))
    if not reader:
        raise error_of(error, path)
    try:
        event = ctypes.POINTER(EventStruct)()
        while True:
            code = lib.hs_event_reader_next(reader, ctypes.byref(event), ctypes.byref(error))
            while found:
                damaged(found.pop(0))
            if code == OUT_OF_RANGE:
                return
            if code:
                raise error_of(error, path)
            yield event.contents
    finally:
        lib.hs_event_reader_close(reader)


def _collect(path: str | os.PathLike[str], tag: str | None, all_points: bool) -> Named[Scalars]:
    wanted = None if tag is None else encode(tag)
    points: dict[bytes, list[tuple[int, float, float]]] = {}
    for event in _structs(path, _warn):
        if _LOGS.get(event.status) == "start" and not all_points:
            for key, known in points.items():
                points[key] = [point for point in known if point[0] < event.step]
        for i in range(event.n_values):
            value = event.values[i]
            key = value.tag.get()
            if value.has_scalar and (wanted is None or key == wanted):
                points.setdefault(key, []).append((event.step, value.scalar, event.wall_time))
    arrays = ((decode(key), numpy.array(known, _POINT).view(Scalars)) for key, known in points.items())
    return Named("scalar", os.fsdecode(path), arrays)


def scalars(path: str | os.PathLike[str], tag: str, all_points: bool = False) -> Scalars:
    """Returns the points of one tag: `step`, `value` and `wall_time` are arrays.

    path        an event file, or a directory with event files
    all_points  also return points that a resumed run has made obsolete. TensorBoard does not show these: a run that was
                resumed at step 1000 begins with a START at 1001, and earlier points from 1001 on do not count

    Raises KeyError if no scalar has this tag, FileNotFoundError if the path does not exist, and Error.
    """
    if not isinstance(tag, str):
        raise TypeError(f"a tag is a str, not {type(tag).__name__}")
    found = _collect(path, tag, all_points)
    if tag not in found:
        raise unknown("scalar", tag, os.fsdecode(path), _collect(path, None, True))
    return found[tag]


def all_scalars(path: str | os.PathLike[str], all_points: bool = False) -> dict[str, Scalars]:
    """Returns the same for all tags that have scalars."""
    return _collect(path, None, all_points)


def frame(path: str | os.PathLike[str]) -> pandas.DataFrame:
    """Returns all scalars as a table of pandas: a row for each step, and a column for each tag.

    A tag that has no value at a step has NaN there. If it has several, the last one counts. Needs the package pandas.
    """
    import pandas

    columns = {tag: pandas.Series(points.value, points.step) for tag, points in all_scalars(path).items()}
    single = {tag: column[~column.index.duplicated(keep="last")] for tag, column in columns.items()}
    return pandas.DataFrame(single).sort_index().rename_axis("step")
