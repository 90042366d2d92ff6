# SPDX-License-Identifier: Apache-2.0
"""Reads event files."""
from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import numpy.typing

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

_LOGS = {1: "start", 2: "stop", 3: "checkpoint"}
_TENSOR = 8  # hs_event_value_kind


@dataclass(frozen=True)
class Value:
    """A value of a summary."""

    tag: str
    kind: str  # "scalar", "image", "histogram", "audio", "tensor" or "other"
    plugin: str  # TensorBoard's plugin that shows it; often only the first value of a tag names it
    scalar: float | None  # the number of a scalar, or of a tensor with one number
    dtype: str | None  # of a tensor
    shape: tuple[int, ...] | None  # of a tensor
    data: bytes  # the serialized message, such as HistogramProto; of a scalar: empty


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
    data: bytes  # the serialized graph, meta graph, summary or run metadata
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


class Scalars(NamedTuple):
    """The points of one tag, in the order of the file."""

    steps: numpy.typing.NDArray[numpy.int64]
    values: numpy.typing.NDArray[numpy.float64]
    wall_times: numpy.typing.NDArray[numpy.float64]  # seconds since 1970


def _warn(damage: Damage) -> None:
    warnings.warn(damage.message, RuntimeWarning, stacklevel=3)


def _value(value: EventValue) -> Value:
    lib, is_tensor = library(), value.kind == _TENSOR
    return Value(
        value.tag.text(),
        lib.hs_event_value_kind_name(value.kind).decode(),
        value.plugin.text(),
        value.scalar if value.has_scalar else None,
        lib.hs_dtype_name(value.dtype).decode() if is_tensor else None,
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
        raise error_of(error)
    try:
        event = ctypes.POINTER(EventStruct)()
        while True:
            code = lib.hs_event_reader_next(reader, ctypes.byref(event), ctypes.byref(error))
            while found:
                damaged(found.pop(0))
            if code == OUT_OF_RANGE:
                return
            if code:
                raise error_of(error)
            yield event.contents
    finally:
        lib.hs_event_reader_close(reader)


def _collect(path: str | os.PathLike[str], tag: str | None, all_points: bool) -> dict[str, Scalars]:
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
    return {
        decode(key): Scalars(
            numpy.array([point[0] for point in known], numpy.int64),
            numpy.array([point[1] for point in known], numpy.float64),
            numpy.array([point[2] for point in known], numpy.float64),
        )
        for key, known in points.items()
    }


def scalars(path: str | os.PathLike[str], tag: str, all_points: bool = False) -> Scalars:
    """Returns steps, values and times of one tag as arrays.

    path        an event file, or a directory with event files
    all_points  also return points that a resumed run has made obsolete. TensorBoard does not show these: a run that was
                resumed at step 1000 begins with a START at 1001, and earlier points from 1001 on do not count

    Raises KeyError if no scalar has this tag, and Error.
    """
    found = _collect(path, tag, all_points).get(tag)
    if found is None:
        raise KeyError(f"no scalar '{tag}' in '{os.fsdecode(path)}'")
    return found


def all_scalars(path: str | os.PathLike[str], all_points: bool = False) -> dict[str, Scalars]:
    """Returns the same for all tags that have scalars."""
    return _collect(path, None, all_points)
