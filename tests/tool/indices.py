# SPDX-License-Identifier: Apache-2.0
"""Indices of checkpoints made by hand, with right checksums and possibly invalid entries."""


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def varint(value):
    out = b""
    while value > 0x7f:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A field of a protobuf message: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(dtype, dims, size, crc=0, offset=0, shard=0, n_slices=0, unknown_rank=False):
    shape = b"".join(field(2, field(1, dim)) for dim in dims) + (field(3, 1) if unknown_rank else b"")
    return field(1, dtype) + field(2, shape) + field(3, shard) + field(4, offset) + field(5, size) + \
        varint(6 << 3 | 5) + masked(crc).to_bytes(4, "little") + field(7, b"") * n_slices


def block(pairs):
    data, starts = b"", []
    for key, value in pairs:
        starts.append(len(data))
        data += varint(0) + varint(len(key)) + varint(len(value)) + key + value
    starts = starts or [0]
    return data + b"".join(start.to_bytes(4, "little") for start in starts + [len(starts)])


def index(entries, shards=1, big_endian=False, producer=1, compress=None):
    """The file with these entries, by name. `compress` makes Snappy of a block."""
    out, handles = b"", []
    header = field(1, shards) + (field(2, 1) if big_endian else b"") + field(3, field(1, producer))
    pairs = [(b"", header)] + sorted(entries.items())
    for make in (lambda: block(pairs), lambda: block([]), lambda: block([(pairs[-1][0], handles[0])])):
        data = compress(make()) if compress else make()
        handles.append(varint(len(out)) + varint(len(data)))
        data += b"\1" if compress else b"\0"
        out += data + masked(crc32c(data)).to_bytes(4, "little")
    return out + (handles[1] + handles[2]).ljust(40, b"\0") + 0xdb4775248b80fb57.to_bytes(8, "little")
