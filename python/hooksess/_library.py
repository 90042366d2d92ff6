# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the C library, and declares the structs and functions that this package uses."""
from __future__ import annotations

import ctypes
import errno
import os
import threading
from typing import Any

RELEASES = "0.1."  # within them the frozen structs below never change
SONAME = "libhooksess.so.0.1"
VARIABLE = "HOOKSESS_LIBRARY"
MAX_RANK = 8

INVALID_ARGUMENT = 3
NOT_FOUND = 5
OUT_OF_RANGE = 11
DATA_LOSS = 15


class ErrorStruct(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("os_error", ctypes.c_int), ("message", ctypes.c_char * 1016)]


class Bytes(ctypes.Structure):
    """hs_string, and with the same layout hs_bytes."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    def get(self) -> bytes:
        return ctypes.string_at(self.data, self.size) if self.data and self.size else b""

    def text(self) -> str:
        return decode(self.get())


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int32), ("reserved", ctypes.c_int32), ("dims", ctypes.c_int64 * MAX_RANK)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.c_int64 * MAX_RANK),
        ("memory", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p * 2),
    ]


class EventValue(ctypes.Structure):
    _fields_ = [
        ("tag", Bytes),
        ("node_name", Bytes),
        ("plugin", Bytes),
        ("plugin_content", Bytes),
        ("display_name", Bytes),
        ("description", Bytes),
        ("kind", ctypes.c_int),
        ("dtype", ctypes.c_int),
        ("shape", Shape),
        ("scalar", ctypes.c_double),
        ("has_scalar", ctypes.c_bool),
        ("reserved_has_scalar", ctypes.c_ubyte * 7),
        ("bytes", Bytes),
        ("reserved", ctypes.c_void_p * 4),
    ]


class EventStruct(ctypes.Structure):
    _fields_ = [
        ("wall_time", ctypes.c_double),
        ("step", ctypes.c_int64),
        ("kind", ctypes.c_int),
        ("status", ctypes.c_int),
        ("checkpoint_path", Bytes),
        ("message", Bytes),
        ("text", Bytes),
        ("bytes", Bytes),
        ("values", ctypes.POINTER(EventValue)),
        ("n_values", ctypes.c_size_t),
        ("record", Bytes),
        ("path", ctypes.c_char_p),
        ("offset", ctypes.c_uint64),
        ("reserved", ctypes.c_void_p * 4),
    ]


class EventDamage(ctypes.Structure):
    _fields_ = [
        ("path", ctypes.c_char_p),
        ("offset", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("is_truncated", ctypes.c_bool),
        ("reserved_is_truncated", ctypes.c_ubyte * 7),
        ("message", ctypes.c_char_p),
        ("reserved", ctypes.c_void_p * 4),
    ]


DAMAGED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(EventDamage))


class EventReaderOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("env", ctypes.c_void_p),
        ("follow", ctypes.c_bool),
        ("reserved", ctypes.c_ubyte * 7),
        ("max_record_bytes", ctypes.c_int64),
        ("damaged", DAMAGED),
        ("user", ctypes.c_void_p),
    ]


# The structs that begin with their size. The tests compare them with hs_struct_size().
SIZED: dict[bytes, type[ctypes.Structure]] = {b"hs_event_reader_options": EventReaderOptions}

_ERROR = ctypes.POINTER(ErrorStruct)
_DIMS = ctypes.POINTER(ctypes.c_int64)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "hs_version": (ctypes.c_char_p, []),
    "hs_struct_size": (ctypes.c_size_t, [ctypes.c_char_p]),
    "hs_code_name": (ctypes.c_char_p, [ctypes.c_int]),
    "hs_env_free": (None, [ctypes.c_void_p, ctypes.c_void_p]),
    "hs_checkpoint_latest": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, _ERROR]),
    "hs_checkpoint_dtype_name": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_char_p]),
    "hs_checkpoint_open": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, _ERROR]),
    "hs_checkpoint_close": (None, [ctypes.c_void_p]),
    "hs_checkpoint_tensor": (
        ctypes.c_bool,
        [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(Tensor)],
    ),
    "hs_checkpoint_read": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, _ERROR]),
    "hs_checkpoint_read_slice": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_char_p, _DIMS, _DIMS, ctypes.c_void_p, ctypes.c_size_t, _ERROR],
    ),
    "hs_checkpoint_verify": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, _ERROR]),
    "hs_event_kind_name": (ctypes.c_char_p, [ctypes.c_int]),
    "hs_event_value_kind_name": (ctypes.c_char_p, [ctypes.c_int]),
    "hs_event_reader_open": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.POINTER(EventReaderOptions), _ERROR]),
    "hs_event_reader_close": (None, [ctypes.c_void_p]),
    "hs_event_reader_next": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(EventStruct)), _ERROR]),
}

_loaded: ctypes.CDLL | None = None
_loading = threading.Lock()


class Error(Exception):
    """A failure that the C library reports.

    code      its number; NOT_FOUND is 5, DATA_LOSS is 15 (status.h)
    name      its name, such as "DATA_LOSS"
    os_error  errno of the failed system call, or 0
    message   one line
    """

    def __init__(self, code: int, name: str, os_error: int, message: str) -> None:
        Exception.__init__(self, code, name, os_error, message)  # also of NotFoundError: these are not OSError's arguments
        self.code = code
        self.name = name
        self.os_error = os_error
        self.message = message

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class NotFoundError(Error, FileNotFoundError):
    """The error NOT_FOUND: a path does not exist, or has no checkpoint or event file."""

    def __init__(self, code: int, name: str, os_error: int, message: str, filename: str | None = None) -> None:
        super().__init__(code, name, os_error, message)
        self.args = (code, name, os_error, message, filename)  # for pickle
        self.errno = os_error or errno.ENOENT
        self.strerror = message
        self.filename = filename  # the path that the caller gave


def not_found(path: str, message: str) -> NotFoundError:
    return NotFoundError(NOT_FOUND, "NOT_FOUND", errno.ENOENT, f"{path}: {message}", path)


def existing_directory(path: str | os.PathLike[str]) -> str:
    """Returns the path. Raises NotFoundError if nothing exists there, and Error if it is not a directory."""
    text = os.fsdecode(path)
    encode_path(path)
    if not os.path.exists(text):
        raise not_found(text, os.strerror(errno.ENOENT))
    if not os.path.isdir(text):
        raise Error(INVALID_ARGUMENT, "INVALID_ARGUMENT", errno.ENOTDIR, f"{text}: is not a directory")
    return text


def _open(path: str | os.PathLike[str] | None) -> ctypes.CDLL:
    given = os.fspath(path) if path is not None else os.environ.get(VARIABLE)
    try:
        found = ctypes.CDLL(given or SONAME)
    except OSError as error:
        raise ImportError(f"cannot load libhooksess: {error}; pass its path to hooksess.load(), or set {VARIABLE}") from None
    try:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise ImportError(f"'{given or SONAME}' is not a libhooksess {RELEASES}x: {error}") from None
    release = found.hs_version().decode()
    if not release.startswith(RELEASES):
        raise ImportError(f"'{given or SONAME}' is libhooksess {release}; this package needs {RELEASES}x")
    for struct_name, struct in SIZED.items():
        if found.hs_struct_size(struct_name) < ctypes.sizeof(struct):
            raise ImportError(f"'{given or SONAME}' is libhooksess {release}, which is older than this package")
    return found


def load(path: str | os.PathLike[str] | None = None) -> str:
    """Loads the C library and returns its version. The other functions do so when they first need it.

    path  of the library. None: the environment variable HOOKSESS_LIBRARY; if it is not set, the system's loader looks for it

    Raises ImportError if it cannot load the library, and RuntimeError if `path` is given and a library is already loaded.
    """
    global _loaded
    with _loading:
        if _loaded is None:
            _loaded = _open(path)
        elif path is not None:
            raise RuntimeError("hooksess.load() was called after the library was loaded; call it first")
        return str(_loaded.hs_version().decode())


def library() -> ctypes.CDLL:
    if _loaded is None:
        load()
    assert _loaded is not None
    return _loaded


def version() -> str:
    """Returns the version of the C library, such as "0.1.0"."""
    return load()


def decode(text: bytes) -> str:
    """Names and tags may hold any bytes; encode() returns the same bytes."""
    return text.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def encode_path(path: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("a path contains a null byte")
    return encoded


def error_of(error: ErrorStruct, path: str | os.PathLike[str] | None = None) -> Error:
    """The exception for an error. `path` is what the caller wanted to open."""
    name = library().hs_code_name(error.code).decode()
    message = error.message.decode("utf-8", "backslashreplace")
    if error.code == NOT_FOUND:
        return NotFoundError(error.code, name, error.os_error, message, None if path is None else os.fsdecode(path))
    return Error(error.code, name, error.os_error, message)
