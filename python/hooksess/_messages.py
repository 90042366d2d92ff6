# SPDX-License-Identifier: Apache-2.0
"""Decodes images, histograms and tensors of summaries: protocol buffers and PNG."""
from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from hooksess._types import BFLOAT16, STRING, Array, numpy_type

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Fields of TensorProto with elements: their wire type, and the type in which they are stored there.
_ELEMENTS: dict[int, tuple[int, Any]] = {
    5: (_FIXED32, "<f4"), 6: (_FIXED64, "<f8"), 7: (_VARINT, numpy.int64), 9: (_FIXED32, "<f4"), 10: (_VARINT, numpy.int64),
    11: (_VARINT, numpy.int64), 12: (_FIXED64, "<f8"), 13: (_VARINT, numpy.int64), 16: (_VARINT, numpy.int64),
    17: (_VARINT, numpy.int64),
}
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # of a PNG, by its color type


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many numbers lie in which bucket."""

    edges: numpy.typing.NDArray[numpy.float64]  # of the buckets, one more than there are counts, as numpy.histogram returns them
    counts: numpy.typing.NDArray[numpy.float64]
    min: float
    max: float
    sum: float
    sum_squares: float


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & (2**64 - 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number has too many bytes")


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """The fields of a message: number, wire type, and an int or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, value = key & 7, b""
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield key >> 3, kind, number
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"unknown wire type {kind}")
        if size > len(data) - at:
            raise ValueError("a field is longer than its message")
        value, at = data[at : at + size], at + size
        yield key >> 3, kind, value


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = _varint(data, at)
        yield number


def _numbers(parts: list[tuple[int, Any]], wire_type: int, dtype: Any) -> Array:
    """The numbers of a repeated field, packed or not."""
    if wire_type == _VARINT:
        found = [n for kind, value in parts for n in (_varints(value) if kind == _BYTES else (value,))]
        return numpy.array(found, numpy.uint64).view(dtype)
    return numpy.frombuffer(b"".join(value for _, value in parts), dtype)


def histogram(data: bytes) -> Histogram:
    """Decodes a HistogramProto."""
    single = {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.0, 5: 0.0}
    repeated: dict[int, list[tuple[int, Any]]] = {6: [], 7: []}
    for number, kind, value in _fields(data):
        if number in single:
            (single[number],) = struct.unpack("<d", value)
        elif number in repeated:
            repeated[number].append((kind, value))
    limits, counts = (_numbers(repeated[number], _FIXED64, "<f8") for number in (6, 7))
    if limits.size != counts.size:
        raise ValueError(f"the histogram has {limits.size} limits and {counts.size} counts")
    least, most = single[1], single[2]
    # The message has the upper limits alone. The first and the last bucket end where the numbers end.
    edges = numpy.concatenate([[least], limits]) if limits.size else numpy.zeros(0)
    return Histogram(numpy.clip(edges, least, most), counts, least, most, single[4], single[5])


def _without_filter(kind: int, row: Array, above: Array, step: int) -> Array:
    """Undoes the filter of a row of a PNG. `step` is the number of bytes of a pixel."""
    if kind == 0:
        return row
    if kind == 1:
        return numpy.cumsum(row.reshape(-1, step), axis=0, dtype=numpy.uint8).reshape(-1)
    if kind == 2:
        return row + above
    if kind not in (3, 4):
        raise ValueError(f"a PNG has the unknown filter {kind}")
    found, up = row.tolist(), above.tolist()
    for i, value in enumerate(found):
        left, corner = (found[i - step], up[i - step]) if i >= step else (0, 0)
        if kind == 3:
            predicted = (left + up[i]) // 2
        else:
            distances = (abs(up[i] - corner), abs(left - corner), abs(left + up[i] - 2 * corner))
            predicted = (left, up[i], corner)[distances.index(min(distances))]
        found[i] = (value + predicted) & 0xFF
    return numpy.array(found, numpy.uint8)


def png(data: bytes) -> Array:
    """Decodes a PNG with 8 bits per channel. Returns an array of (height, width, channels)."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR":
        raise ValueError("it is not a PNG")
    width, height, bits, color, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if bits != 8 or color not in _CHANNELS or interlaced:
        raise ValueError(f"a PNG of color type {color} with {bits} bits per channel{' and interlacing' * bool(interlaced)}")
    at, packed = 8, []
    while at + 8 <= len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        if name == b"IDAT":
            packed.append(data[at + 8 : at + 8 + size])
        at += size + 12
    channels = _CHANNELS[color]
    row_bytes = 1 + width * channels
    raw = zlib.decompressobj().decompress(b"".join(packed), height * row_bytes + 1)
    if len(raw) != height * row_bytes or not width:
        raise ValueError("a PNG has another size than its header says")
    rows = numpy.frombuffer(raw, numpy.uint8).reshape(height, row_bytes)
    pixels: Array = numpy.zeros((height + 1, width * channels), numpy.uint8)  # with a row of zeros above
    for y, row in enumerate(rows):
        pixels[y + 1] = _without_filter(int(row[0]), row[1:], pixels[y], channels)
    return pixels[1:].reshape(height, width, channels)


def image(data: bytes) -> Array:
    """Decodes a Summary.Image."""
    return png(next((value for number, _, value in _fields(data) if number == 4), b""))


def tensor(data: bytes, shape: tuple[int, ...]) -> Array:
    """Decodes a TensorProto whose shape is known."""
    number, content, strings = 0, None, []
    elements: dict[int, list[tuple[int, Any]]] = {}
    for field, kind, value in _fields(data):
        if field == 1:
            number = value
        elif field == 4:
            content = value
        elif field == 8:
            strings.append(value)
        elif field in _ELEMENTS:
            elements.setdefault(field, []).append((kind, value))
    dtype, n = numpy_type(number), math.prod(shape)
    if dtype is None:
        raise ValueError(f"a tensor has the unknown type {number}")
    found: Array
    if n == 0:  # whatever the message stores
        found = numpy.empty(0, dtype)
    elif number == STRING:
        found = numpy.empty(len(strings), object)
        found[:] = strings
    elif content is not None:
        found = numpy.frombuffer(content, dtype)
    elif not elements:
        found = numpy.zeros(1, dtype)
    else:
        (field, parts), = elements.items()
        stored = _numbers(parts, *_ELEMENTS[field])
        if field in (9, 12):  # pairs of real and imaginary parts
            found = stored.view(stored.dtype.str.replace("f8", "c16").replace("f4", "c8"))
        elif field == 13 and number in (BFLOAT16, 19):  # the bits of 16-bit floats
            found = stored.astype(numpy.uint16).view(dtype)
        else:
            found = stored.astype(dtype)
    # The last element stands for all that follow.
    if 0 < found.size < n:
        found = numpy.concatenate([found, numpy.repeat(found[-1:], n - found.size)])
    if found.size != n:
        raise ValueError(f"a tensor has {found.size} elements instead of {n}")
    return found.reshape(shape)
