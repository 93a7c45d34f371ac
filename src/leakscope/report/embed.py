"""Numbers inside an HTML file: compressed typed arrays instead of JSON rows.

An array is stored as little-endian bytes of the smallest type that fits, deflated, in base64. The page's
script (`leakscope.array(name)` in assets/page.js) turns it back into a typed array on demand, so a page with
millions of numbers opens as fast as one with none. Base64 has no `<`, so an array cannot close its element.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from leakscope.array_types import AnyArray

_LEVEL = 5  # 9 takes twice as long for a page that is 1% smaller
_INTEGERS = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)


@dataclass(frozen=True, eq=False)
class Quantised:
    """Quantized numbers, for arrays so large that 4 bytes per number are too many.

    Attributes:
        codes: uint8 or uint16, any shape; the highest code means NaN.
        low: the value of code 0.
        step: difference between consecutive codes.
    """

    codes: AnyArray
    low: float
    step: float


class Embedded(NamedTuple):
    """One array as text, with what the script needs to read it."""

    name: str
    kind: str
    shape: str
    low: float
    step: float
    content: str


Embeddable = AnyArray | Quantised


def quantised(values: AnyArray, low: float, high: float, bits: int = 8) -> Quantised:
    """Quantizes numbers to 2^bits - 1 equal steps from `low` to `high`; others are clipped, NaN stays NaN.

    The error is at most `(high - low) / (2^bits - 2) / 2`; `bits` is 8 or 16.
    """
    dtype = np.dtype(f"<u{bits // 8}")
    missing = 2**bits - 1
    step = (high - low) / (missing - 1) or 1.0
    numbers = np.asarray(values, dtype=np.float64)
    steps = np.rint((np.clip(numbers, low, high) - low) / step)
    return Quantised(np.where(np.isnan(numbers), missing, steps).astype(dtype), low, step)


def embedded(arrays: Mapping[str, Embeddable]) -> list[Embedded]:
    """Encodes bool, integer, float and str arrays of any shape."""
    return [_embedded(name, array) for name, array in arrays.items()]


def packed(content: bytes) -> str:
    """Deflates bytes (RFC 1950) and encodes them as base64."""
    return base64.b64encode(zlib.compress(content, _LEVEL)).decode("ascii")


def _embedded(name: str, array: Embeddable) -> Embedded:
    low, step, values = 0.0, 0.0, array
    if isinstance(array, Quantised):
        low, step, values = array.low, array.step, array.codes
    assert isinstance(values, np.ndarray), "the codes of a Quantised are an array"
    shape = ",".join(str(length) for length in values.shape)
    if values.dtype.kind in "UO":
        text = json.dumps(values.ravel().tolist(), ensure_ascii=False)
        return Embedded(name, "text", shape, low, step, packed(text.encode("utf-8", "replace")))
    small = _smallest(values)
    return Embedded(name, small.dtype.name, shape, low, step, packed(np.ascontiguousarray(small).tobytes()))


def _smallest(values: AnyArray) -> AnyArray:
    """The same numbers in the smallest little-endian type; floats are stored with seven digits."""
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    if values.dtype.kind == "f":
        return values.astype("<f4")
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for dtype in _INTEGERS:
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return values.astype(np.dtype(dtype).newbyteorder("<"))
    return values.astype("<f8")
