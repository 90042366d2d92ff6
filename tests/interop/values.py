# SPDX-License-Identifier: Apache-2.0
"""The values of save_checkpoint's variables: the formula of values.c, with numpy."""
import numpy

from support import tensorflow

# What one step of the whole numbers is worth, by the bytes of an integer.
SCALE = {1: 2, 2: 600, 4: 40000000, 8: 100000000000000000}


def whole_numbers(name, generation, count):
    """From 0 to 100."""
    seed = generation
    for byte in name.encode():
        seed = (seed * 31 + byte) % 2**32
    return (seed % 101 + numpy.arange(count, dtype=numpy.int64) % 101 * 37) % 101


def integers(dtype, whole):
    plain = numpy.dtype(dtype.as_numpy_dtype)
    if plain.names:  # of a quantized type: a record of one integer. TensorFlow gives the integers themselves
        plain = plain[0]
    small = whole if plain.kind == "u" else whole - 50
    return small.astype(plain) * plain.type(SCALE[plain.itemsize])


def values(name, dtype, shape, generation=0):
    """The variable `name` as a numpy array."""
    whole = whole_numbers(name, generation, int(numpy.prod(shape, dtype=numpy.int64)))
    if dtype == tensorflow.bool:
        flat = whole % 2 == 1
    elif dtype in (tensorflow.float32, tensorflow.float16, tensorflow.bfloat16):
        flat = ((whole - 50) / 4).astype(dtype.as_numpy_dtype)
    elif dtype == tensorflow.complex64:
        flat = ((whole - 50) / 4 + 1j * whole).astype(dtype.as_numpy_dtype)
    elif dtype == tensorflow.float64:
        flat = whole - 50 + 2.0**-40
    elif dtype == tensorflow.complex128:
        flat = whole - 50 + 2.0**-40 + 1j * whole
    else:
        flat = integers(dtype, whole)
    return flat.reshape(shape)
