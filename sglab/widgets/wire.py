"""Tensors as they cross to the page: `{dtype, shape, buffer}`, row-major, little-endian, never as JSON numbers."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np

DTYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"}

PLAIN = frozenset({int, str, float, bool, type(None)})
"""What crosses as it is: a moment of the debugger has thousands of these, and a call for each would take longer than
all else."""


class WireArray:
    """A dense array ready to cross: numpy's bytes, and the name of a dtype that numpy may lack (bfloat16)."""

    def __init__(self, value: Any) -> None:
        """`value`: a torch tensor on any device, a numpy array, or what numpy makes an array of. It is copied."""
        self.dtype, array = _host_array(value)
        self.array = np.array(array, order="C", copy=True)
        if self.dtype not in DTYPES:
            raise TypeError(f"a tensor for a widget must have one of the dtypes {sorted(DTYPES)}; got {self.dtype}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def rows(self, start: int, stop: int) -> WireArray:
        """Rows `start` to `stop` of the first axis, clipped to what there is."""
        part = object.__new__(WireArray)
        part.dtype = self.dtype
        part.array = np.ascontiguousarray(self.array[max(0, start) : max(0, stop)])
        return part

    def tobytes(self) -> bytes:
        return self.array.astype(self.array.dtype.newbyteorder("<"), copy=False).tobytes()

    def saved(self) -> dict[str, Any]:
        """For a page without Python: base64 of gzip."""
        packed = gzip.compress(self.tobytes(), mtime=0)
        return {"dtype": self.dtype, "shape": list(self.shape), "data": base64.b64encode(packed).decode()}


def _host_array(value: Any) -> tuple[str, np.ndarray]:
    if hasattr(value, "detach"):  # a torch tensor
        name = str(value.dtype).removeprefix("torch.")
        tensor = value.detach().cpu().contiguous()
        if name == "bfloat16":  # numpy has none: its bits cross as they are
            import torch

            return name, tensor.view(torch.int16).numpy()
        return name, tensor.numpy()
    array = np.asarray(value)
    return array.dtype.name, array


def pack(value: Any, buffers: list[bytes]) -> Any:
    """`value` with every array replaced by `{dtype, shape, buffer: n}`; its bytes become `buffers[n]`."""
    if isinstance(value, dict):
        return {key: item if type(item) in PLAIN else pack(item, buffers) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [item if type(item) in PLAIN else pack(item, buffers) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        value = WireArray(value)
    if isinstance(value, WireArray):
        buffers.append(value.tobytes())
        return {"dtype": value.dtype, "shape": list(value.shape), "buffer": len(buffers) - 1}
    return value
