"""Plain data as bytes: None, booleans, numbers, text, bytes, lists, dicts by text, numpy arrays. Never code.

Four bytes with the header's length, the header as JSON, then the bytes of all arrays. Whoever reads it trusts none of
it: a length that does not fit, an unknown dtype or anything else out of place raises WireError. Every array has bytes
of its own, one after another, so that what is read is never much larger than the message.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
ARRAY, RAW, DICT = "$array", "$bytes", "$dict"
MOST_DEPTH = 40
MOST_EMPTY = 1 << 16
"""Of an array without elements, the product of its other sizes."""
MOST_HEADER = 8 << 20
"""Bytes: each item of a list takes some ten times as many as its text."""


class WireError(ValueError):
    """The bytes are no message, or the value cannot be sent."""


def encode(value: Any) -> bytes:
    """The message.

    Raises:
        WireError: the value is more than plain data.
    """
    blobs: list[bytes] = []
    header = json.dumps(_plain(value, blobs, 0), separators=(",", ":")).encode()
    return struct.pack("<I", len(header)) + header + b"".join(blobs)


def decode(message: bytes) -> Any:
    """The value that a message holds.

    Raises:
        WireError: it is no message.
    """
    if len(message) < 4:
        raise WireError(f"expected a message, got {len(message)} bytes")
    (size,) = struct.unpack_from("<I", message)
    if size > MOST_HEADER:
        raise WireError(f"numbers and texts of {size} bytes; at most {MOST_HEADER}: give large lists as numpy arrays")
    if size > len(message) - 4:
        raise WireError(f"the header says {size} bytes, and {len(message) - 4} came")
    try:
        header = json.loads(message[4 : 4 + size])
    except (ValueError, RecursionError) as error:
        raise WireError(f"the header is no JSON: {error}") from None
    return _value(header, _Blobs(memoryview(message)[4 + size :]), 0)


def _plain(value: Any, blobs: list[bytes], depth: int) -> Any:
    if depth > MOST_DEPTH:
        raise WireError(f"lists within lists, more than {MOST_DEPTH} deep")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 1 << 128 else _refuse("an integer of more than 128 bits")
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return {RAW: _put(bytes(value), blobs)}
    if isinstance(value, (list, tuple)):
        return [_plain(item, blobs, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return [_plain(item, blobs, depth + 1) for item in sorted(value, key=repr)]
    if isinstance(value, dict):
        return {DICT: [[_plain(k, blobs, depth + 1), _plain(v, blobs, depth + 1)] for k, v in value.items()]}
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        if str(value.dtype) not in DTYPES:
            return _refuse(f"an array of {value.dtype}")
        return {ARRAY: [str(value.dtype), list(value.shape), _put(value.tobytes(), blobs)]}
    return _refuse(f"a {type(value).__name__}")


def _refuse(what: str) -> Any:
    raise WireError(f"{what} is no plain data: return numbers, text, lists, dicts or numpy arrays")


def _put(data: bytes, blobs: list[bytes]) -> list[int]:
    place = [sum(map(len, blobs)), len(data)]
    blobs.append(data)
    return place


class _Blobs:
    """The bytes of a message's arrays, each read once and in order."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._read = data, 0

    def take(self, place: Any) -> memoryview:
        start, size = place
        if not (isinstance(start, int) and isinstance(size, int) and start == self._read and size >= 0):
            raise WireError(f"bytes {start!r:.20} to +{size!r:.20}, after {self._read} that were read")
        if start + size > len(self._data):
            raise WireError(f"bytes {start} to +{size!r:.20} of {len(self._data)}")
        self._read += size
        return self._data[start : start + size]


def _value(header: Any, blobs: _Blobs, depth: int) -> Any:
    if depth > 3 * MOST_DEPTH:
        raise WireError("lists within lists, too deep")
    if isinstance(header, list):
        return [_value(item, blobs, depth + 1) for item in header]
    if not isinstance(header, dict):
        return header
    if len(header) != 1:
        raise WireError("an object of unknown kind")
    ((kind, content),) = header.items()
    try:
        if kind == RAW:
            return bytes(blobs.take(content))
        if kind == DICT:
            return {_key(key): _value(value, blobs, depth + 1) for key, value in content}
        if kind == ARRAY:
            return _array(content, blobs)
    except WireError:
        raise
    except (TypeError, ValueError) as error:
        raise WireError(f"a broken {kind}: {error}") from None
    raise WireError(f"an object of unknown kind, {kind!r:.40}")


def _key(key: Any) -> Any:
    if not isinstance(key, (str, int, float, bool)) and key is not None:
        raise WireError("a key that is neither text nor a number")
    return key


def _array(content: Any, blobs: _Blobs) -> Any:
    import numpy as np

    dtype, shape, place = content
    if dtype not in DTYPES or not isinstance(shape, list) or len(shape) > 8:
        raise WireError(f"an array of {dtype!r:.20}")
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 40 for size in shape):
        raise WireError("an array of no shape")
    if 0 in shape and math.prod(max(size, 1) for size in shape) > MOST_EMPTY:
        raise WireError(f"an empty array of shape {shape}")  # as a list it would be anything but empty
    data = blobs.take(place)
    if math.prod(shape) * np.dtype(dtype).itemsize != len(data):
        raise WireError(f"an array of shape {shape} and {dtype} has not {len(data)} bytes")
    return np.frombuffer(bytes(data), dtype).reshape(shape)
