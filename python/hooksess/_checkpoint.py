# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints."""
from __future__ import annotations

import ctypes
import errno
import itertools
import math
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import EllipsisType, TracebackType
from typing import Any

import numpy

from hooksess._library import (
    DATA_LOSS,
    INVALID_ARGUMENT,
    NOT_FOUND,
    Bytes,
    Error,
    ErrorStruct,
    Tensor,
    decode,
    encode,
    encode_path,
    error_of,
    existing_directory,
    library,
    not_found,
)
from hooksess._names import Named, unknown
from hooksess._types import STRING, Array, numpy_type

Index = int | slice | EllipsisType

_OWN = "hooksess/"
_STATES = ("hooksess/state/", "hooksess/hook/", "hooksess/schedule/")


@dataclass(frozen=True)
class TensorInfo:
    """Type and shape of a tensor in a checkpoint."""

    name: str
    dtype: numpy.dtype[Any]  # of the array that is read
    stored_as: str  # the name of the type in the file, such as "float", "bfloat16" or "F8_E4M3"
    shape: tuple[int, ...] | None  # None: the rank is unknown, or above 8
    bytes: int  # of its elements; strings: also of their text


@dataclass(frozen=True)
class State:
    """What a checkpoint holds besides variables, such as the position in the data. The program knows its format."""

    name: str  # "state/NAME": of the graph or the session; "hook/NAME": of a hook
    data: bytes
    version: int
    identity: str | None  # None: it has no identity


def latest(directory: str | os.PathLike[str]) -> str | None:
    """Returns the prefix of the newest checkpoint in a directory, such as "run/model.ckpt-1000". None: it has no checkpoint.

    Raises FileNotFoundError if there is no directory.
    """
    lib, error = library(), ErrorStruct()
    found = lib.hs_checkpoint_latest(None, encode_path(existing_directory(directory)), None, ctypes.byref(error))
    if not found:
        if error.code:
            raise error_of(error, directory)
        return None
    try:
        return os.fsdecode(ctypes.string_at(found))
    finally:
        lib.hs_env_free(None, found)


def _prefix_of(path: str | os.PathLike[str]) -> str:
    text = os.fsdecode(path)
    if os.path.isdir(text):
        found = latest(text)
        if found is None:
            raise not_found(text, "contains no checkpoint")
        return found
    return text.removesuffix(".index")


def _not_opened(path: str, prefix: str, error: ErrorStruct) -> Error:
    """The exception for a checkpoint that the library has not opened. The library names the index file, not `path`."""
    index = f"{prefix}.index"
    if error.code != NOT_FOUND or prefix.endswith(".safetensors") or os.path.exists(index):
        return error_of(error, path)
    if os.path.exists(path):
        what = "is not a checkpoint: name a prefix, an index file, a safetensors file or a directory"
        return Error(INVALID_ARGUMENT, "INVALID_ARGUMENT", 0, f"{path}: {what}")
    return not_found(path, f"{os.strerror(errno.ENOENT)}, and no checkpoint ({index} does not exist)")


class Checkpoint(Mapping[str, Array]):
    """A checkpoint, as a mapping of variables' names to numpy arrays.

    path  the prefix of a checkpoint ("run/model.ckpt-1000"), its index file, a safetensors file, or a directory, whose
          newest checkpoint is opened

    Opening reads only the index. Each access reads a variable from the file and verifies it; a variable that was saved in
    slices is one array. Any thread may use the object. Close it, or use it in a `with` statement.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader: int | None = None
        self._library = library()
        self._lock = threading.Lock()
        self.prefix = _prefix_of(path)
        error = ErrorStruct()
        self._reader = self._library.hs_checkpoint_open(None, encode_path(self.prefix), ctypes.byref(error))
        if not self._reader:
            raise _not_opened(os.fsdecode(path), self.prefix, error)
        self._tensors: dict[str, Tensor] = {}
        name = ctypes.c_char_p()
        for i in itertools.count():
            tensor = Tensor()
            if not self._library.hs_checkpoint_tensor(self._reader, i, ctypes.byref(name), ctypes.byref(tensor)):
                break
            self._tensors[decode(name.value or b"")] = tensor

    def close(self) -> None:
        with self._lock:
            self._library.hs_checkpoint_close(self._reader)
            self._reader = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if self._reader:
            self.close()

    def __repr__(self) -> str:
        return f"<hooksess.Checkpoint {self.prefix!r}>"

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._tensors if not name.startswith(_OWN))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors and not str(name).startswith(_OWN)

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise self._unknown(name)
        return self.read(name)

    def info(self, name: str) -> TensorInfo:
        """Describes a variable without reading it. Raises KeyError for an unknown name."""
        tensor = self._tensor(name)
        stored_as = decode(self._library.hs_checkpoint_dtype_name(self._open(), encode(name)))
        dtype = (numpy_type(tensor.dtype) if tensor.rank >= 0 else None) or numpy.dtype(numpy.uint8)
        return TensorInfo(name, dtype, stored_as, tuple(tensor.dims[: tensor.rank]) if tensor.rank >= 0 else None, tensor.bytes)

    def read(self, name: str, part: Index | tuple[Index, ...] = ...) -> Array:
        """Reads a variable, or a rectangular part of it.

        part  as numpy's index: integers, slices with step 1 and `...`, such as numpy.s_[100:200, :, 0]

        A part is read from its place in the file; the first call verifies the whole variable. bfloat16 needs the package
        ml_dtypes; without it the array has the type uint16, with the same bits. Strings are objects of type bytes. A tensor of
        a safetensors file whose dtype or shape is unknown is read as a whole, as an array of its bytes.

        Raises KeyError for an unknown name, IndexError for a part outside of the variable, and Error.
        """
        tensor = self._tensor(name)
        if part is ...:
            return self._read_all(name, tensor)
        starts, lengths, kept = _box(part, tuple(tensor.dims[: max(tensor.rank, 0)]))
        dtype = self._dtype_of_part(name, tensor)
        array = numpy.empty(math.prod(lengths), dtype)
        dims = ctypes.c_int64 * max(len(starts), 1)
        error = ErrorStruct()
        with self._lock:
            code = self._library.hs_checkpoint_read_slice(self._open(), encode(name), dims(*starts), dims(*lengths),
                                                          array.ctypes.data, array.nbytes, ctypes.byref(error))
        if code:
            raise error_of(error)
        return array.reshape([n for n, keep in zip(lengths, kept) if keep])

    def states(self) -> dict[str, State]:
        """Reads what the checkpoint holds besides variables, by name ("state/NAME", "hook/NAME", "schedule/NAME")."""
        keys = [key for key in self._tensors if key.startswith(_STATES) and ":" not in key]
        found = map(self._state, keys)
        return Named("state", self.prefix, ((state.name, state) for state in found))

    def verify(self) -> None:
        """Reads and verifies the index and every tensor. Raises Error if one is damaged."""
        error = ErrorStruct()
        for name in (None, *map(encode, self._tensors)):
            with self._lock:
                code = self._library.hs_checkpoint_verify(self._open(), name, ctypes.byref(error))
            if code:
                raise error_of(error)

    def _state(self, key: str) -> State:
        version, identity = f"{key}:version", f"{key}:identity"
        try:
            return State(
                key.removeprefix(_OWN),
                self.read(key).tobytes(),
                int(self.read(version)) if version in self._tensors else 0,
                decode(self.read(identity).item()) if identity in self._tensors else None,
            )
        except (AttributeError, TypeError):
            raise Error(DATA_LOSS, "DATA_LOSS", 0, f"state '{key}' in '{self.prefix}' has no valid version or identity") from None

    def _open(self) -> int:
        if self._reader is None:
            raise ValueError("the checkpoint is closed")
        return self._reader

    def _unknown(self, name: object) -> KeyError:
        return unknown("variable", name, self.prefix, self)

    def _tensor(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise self._unknown(name) from None

    def _dtype_of_part(self, name: str, tensor: Tensor) -> numpy.dtype[Any]:
        if tensor.dtype == STRING:
            raise TypeError(f"a part of '{name}' cannot be read: strings have no fixed size; read all of them")
        dtype = numpy_type(tensor.dtype)
        if dtype is None:
            raise TypeError(f"'{name}' has the unknown type {tensor.dtype}")
        return dtype

    def _read_all(self, name: str, tensor: Tensor) -> Array:
        dtype = numpy_type(tensor.dtype)
        array: Array = numpy.empty(tensor.bytes, numpy.uint8)
        error = ErrorStruct()
        with self._lock:
            code = self._library.hs_checkpoint_read(self._open(), encode(name), array.ctypes.data, array.nbytes,
                                                    ctypes.byref(error))
        if code:
            raise error_of(error)
        if dtype is None or tensor.rank < 0:
            return array
        shape = tuple(tensor.dims[: tensor.rank])
        return _strings(array, shape) if tensor.dtype == STRING else array.view(dtype).reshape(shape)


def _strings(buffer: Array, shape: tuple[int, ...]) -> Array:
    n = math.prod(shape)
    found: Array = numpy.empty(n, object)
    for i, element in enumerate((Bytes * n).from_address(buffer.ctypes.data)):
        found[i] = element.get()
    return found.reshape(shape)


def _box(part: Index | tuple[Index, ...], shape: tuple[int, ...]) -> tuple[list[int], list[int], list[bool]]:
    """Returns first indexes and lengths of a part, and which dimensions the result has."""
    items = part if isinstance(part, tuple) else (part,)
    if items.count(...) > 1 or sum(item is not ... for item in items) > len(shape):
        raise IndexError(f"too many indexes for the shape {shape}")
    at = items.index(...) if ... in items else len(items)
    everything = [slice(None)] * (len(shape) - sum(item is not ... for item in items))
    full = [*items[:at], *everything, *items[at + 1 :]]
    starts, lengths, kept = [], [], []
    for item, size in zip(full, shape):
        if isinstance(item, slice):
            begin, end, step = item.indices(size)
            if step != 1:
                raise IndexError("slices of a checkpoint have the step 1")
            starts.append(begin)
            lengths.append(max(end - begin, 0))
        elif isinstance(item, (int, numpy.integer)) and -size <= item < size:
            starts.append(int(item) % size)
            lengths.append(1)
        else:
            raise IndexError(f"index {item} is not valid for a dimension of size {size}")
        kept.append(isinstance(item, slice))
    return starts, lengths, kept
