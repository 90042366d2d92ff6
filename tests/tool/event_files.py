# SPDX-License-Identifier: Apache-2.0
"""Event files for the tests of the tool, made byte by byte."""
import struct

TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    """A field with bytes, text, an int or a float (32 bits)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def event(step, what=b"", time=1000.5):
    return record(b"\x09" + struct.pack("<d", time) + field(2, step) + what)


def version():
    return event(0, field(3, "brain.Event:2"))


def scalars(step, **values):
    return event(step, field(5, b"".join(field(1, field(1, tag) + field(2, float(value))) for tag, value in values.items())))


def tensor_scalar(step, tag, value, plugin="scalars"):
    tensor = field(1, 1) + field(2, b"") + field(5, struct.pack("<f", value))
    metadata = field(9, field(1, field(1, plugin)))
    return event(step, field(5, field(1, field(1, tag) + metadata + field(8, tensor))))


def start(step):
    return event(step, field(7, field(1, 1)))


def run_metadata(step, tag):
    return event(step, field(8, field(1, tag) + field(2, b"metadata")))
