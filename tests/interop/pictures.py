# SPDX-License-Identifier: Apache-2.0
"""A small set of labeled pictures in the format that the examples read, and the order in which the examples use it."""
import gzip
import struct

import numpy

SIDE, CLASSES = 28, 10
WORD = (1 << 64) - 1


def write(directory, part, n):
    """Different pictures that are easy to classify. Returns them, as bytes, and their labels."""
    random = numpy.random.RandomState(len(part))
    patterns = numpy.random.RandomState(1).randint(0, 2, (CLASSES, SIDE * SIDE)) * 150
    labels = random.randint(0, CLASSES, n).astype(numpy.uint8)
    images = (patterns[labels] + random.randint(0, 100, (n, SIDE * SIDE))).astype(numpy.uint8)
    with gzip.open(directory / f"{part}-images-idx3-ubyte.gz", "wb") as file:
        file.write(struct.pack(">4I", 0x803, n, SIDE, SIDE) + images.tobytes())
    with gzip.open(directory / f"{part}-labels-idx1-ubyte.gz", "wb") as file:
        file.write(struct.pack(">2I", 0x801, n) + labels.tobytes())
    return images, labels


class Random:
    """The generator of the examples (rng.c)."""

    def __init__(self, seed, stream):
        self.seed = seed
        first = self.mix()
        self.seed = first ^ stream
        self.state = [self.mix() for _ in range(4)]

    def mix(self):
        self.seed = z = self.seed + 0x9E3779B97F4A7C15 & WORD
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
        return z ^ z >> 31

    def next(self):
        s = self.state
        result, t = rotate(s[1] * 5 & WORD, 7) * 9 & WORD, s[1] << 17 & WORD
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return result

    def below(self, n):
        return (self.next() >> 32) * n >> 32


def rotate(x, by):
    return (x << by | x >> 64 - by) & WORD


def batches(images, labels, batch_size, seed):
    """The feeds of a run from the beginning (input.c), without end: pixels from 0 to 1, and labels."""
    random = Random(seed, 1)
    while True:
        order = list(range(len(images)))
        for left in range(len(images), 1, -1):
            at = random.below(left)
            order[at], order[left - 1] = order[left - 1], order[at]
        for start in range(0, len(order), batch_size):
            batch = order[start:start + batch_size]
            yield images[batch].astype(numpy.float32) * numpy.float32(1 / 255), labels[batch].astype(numpy.int64)
