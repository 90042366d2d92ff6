# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's types of elements as types of numpy."""
from __future__ import annotations

from typing import Any

import numpy
import numpy.typing

Array = numpy.typing.NDArray[Any]

STRING = 7
BFLOAT16 = 14
# TensorFlow's numbers of types. Quantized numbers are read as integers.
_TYPES = {
    1: numpy.float32, 2: numpy.float64, 3: numpy.int32, 4: numpy.uint8, 5: numpy.int16, 6: numpy.int8, 8: numpy.complex64,
    9: numpy.int64, 10: numpy.bool_, 11: numpy.int8, 12: numpy.uint8, 13: numpy.int32, 15: numpy.int16, 16: numpy.uint16,
    17: numpy.uint16, 18: numpy.complex128, 19: numpy.float16, 22: numpy.uint32, 23: numpy.uint64,
}


def numpy_type(number: int) -> numpy.dtype[Any] | None:
    """The type of arrays with elements of this type. None: the type is unknown."""
    if number == STRING:
        return numpy.dtype(object)
    if number == BFLOAT16:
        return _bfloat16()
    found = _TYPES.get(number)
    return None if found is None else numpy.dtype(found)


def _bfloat16() -> numpy.dtype[Any]:
    try:
        import ml_dtypes  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return numpy.dtype(numpy.uint16)
    found: numpy.dtype[Any] = numpy.dtype(ml_dtypes.bfloat16)
    return found
