#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""binding.py LIBRARY: a binding to another language fills structs without the macros of the headers, as docs/abi.md describes, with the code of
that page."""
import ctypes
import os
import pathlib
import re
import struct
import sys
import tempfile

HS_OK, HS_INVALID_ARGUMENT = 0, 3


library = ctypes.CDLL(sys.argv[1])
page = (pathlib.Path(__file__).resolve().parents[2] / "docs/abi.md").read_text()
shown = {"ctypes": ctypes, "library": library}
with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], shown)
    library.hs_record_writer_free(ctypes.c_void_p(shown["writer"]))
    assert shown["writer"] and pathlib.Path("records").exists()
    os.chdir("/")
Error, RecordWriterOptions = shown["Error"], shown["RecordWriterOptions"]


class LaterOptions(ctypes.Structure):
    """As a later release might declare them."""

    _fields_ = RecordWriterOptions._fields_ + [("added", ctypes.c_int64)]


library.hs_record_writer_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
library.hs_record_writer_close.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
library.hs_record_writer_free.argtypes = [ctypes.c_void_p]

assert library.hs_struct_size(b"hs_record_writer_options") == ctypes.sizeof(RecordWriterOptions)
assert library.hs_struct_size(b"hs_no_such_options") == 0 and library.hs_struct_size(None) == 0


def write(path, options):
    err = Error()
    writer = library.hs_record_writer_open(str(path).encode(), ctypes.byref(options), ctypes.byref(err))
    if not writer:
        return err
    assert library.hs_record_writer_write(writer, b"record", 6, ctypes.byref(err)) == HS_OK, err.message
    assert library.hs_record_writer_close(writer, ctypes.byref(err)) == HS_OK, err.message
    library.hs_record_writer_free(writer)
    return err


with tempfile.TemporaryDirectory() as directory:
    path = pathlib.Path(directory) / "records"
    for declared in (RecordWriterOptions, LaterOptions):
        options = declared(size=ctypes.sizeof(declared))  # all else is 0
        assert write(path, options).code == HS_OK
        content = path.read_bytes()
        assert len(content) == 22 and struct.unpack("<Q", content[:8]) == (6,) and content[12:18] == b"record"
    err = write(path, RecordWriterOptions())
    assert err.code == HS_INVALID_ARGUMENT and b"hs_record_writer_options.size" in err.message, err.message
    err = write(path, RecordWriterOptions(size=ctypes.sizeof(RecordWriterOptions) - 8))
    assert err.code == HS_INVALID_ARGUMENT and b"hs_record_writer_options" in err.message, err.message
    err = write(path, LaterOptions(size=ctypes.sizeof(LaterOptions), added=1))
    assert err.code == HS_INVALID_ARGUMENT and b"does not have" in err.message, err.message
