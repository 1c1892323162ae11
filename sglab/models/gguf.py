"""GGUF files: metadata, and tensors in ggml's block formats.

Source: the format's description, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sglab.engine.errors import BadArgumentError
from sglab.layers.quantization import dequantize_ggml
from sglab.layers.quantization.ggml import block_format

FLOAT_TYPES = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}
BLOCK_TYPES = {2: "Q4_0", 8: "Q8_0", 12: "Q4_K", 14: "Q6_K", 39: "MXFP4"}
"""A tensor's type in the file -> ggml's name of it."""
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies. `shape` is as torch has it, the last dimension contiguous."""

    kind: int
    shape: tuple[int, ...]
    offset: int


class GgufFile:
    """One file, read as it is used.

    Attributes:
        metadata: key -> value.
        tensors: name -> where it lies.

    Raises:
        BadArgumentError: it is no GGUF file of version 2 or 3, or cut short.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._at = path, 0
        with path.open("rb") as file:
            if path.stat().st_size < 24:
                raise self._broken(f"{path.stat().st_size} bytes")
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        try:
            self._read()
        except (struct.error, UnicodeDecodeError, IndexError):
            raise self._broken("a file that ends in its header") from None

    def _read(self) -> None:
        magic, version, tensors, pairs = self._content[:4], *self._numbers("<4xIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise self._broken(f"{magic!r}, version {version}")
        self.metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._text()
            self.metadata[key] = self._value(self._numbers("<I")[0])
        found = {}
        for _ in range(tensors):
            name, dims = self._text(), self._numbers("<I")[0]
            shape = self._numbers(f"<{dims}Q")
            kind, offset = self._numbers("<IQ")
            found[name] = StoredTensor(kind, tuple(reversed(shape)), offset)
        step = int(self.metadata.get("general.alignment", 32))
        start = -(-self._at // step) * step
        self.tensors = {n: StoredTensor(one.kind, one.shape, start + one.offset) for n, one in found.items()}

    def _numbers(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._content, self._at)
        self._at += struct.calcsize(form)
        return values

    def _text(self) -> str:
        length = self._numbers("<Q")[0]
        self._at += length
        if self._at > len(self._content):
            raise IndexError
        return self._content[self._at - length : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            inner, count = self._numbers("<IQ")
            if inner in _NUMBERS:
                return list(self._numbers(f"<{count}{_NUMBERS[inner]}"))
            return [self._value(inner) for _ in range(count)]
        if kind not in _NUMBERS:
            raise self._broken(f"a value of type {kind}")
        return self._numbers(f"<{_NUMBERS[kind]}")[0]

    def stored(self, name: str) -> torch.Tensor:
        """A tensor as it is: floats, or uint8 [rows, bytes] of a block format.

        Raises:
            BadArgumentError: another type, or one that lies beyond the end of the file.
        """
        one = self.tensors[name]
        if one.kind in FLOAT_TYPES:
            dtype, shape = FLOAT_TYPES[one.kind], one.shape
        else:
            form = block_format(BLOCK_TYPES.get(one.kind, f"number {one.kind}"))
            dtype, shape = torch.uint8, (*one.shape[:-1], one.shape[-1] // form.features * form.bytes)
        count = torch.Size(shape).numel()
        if one.offset + count * dtype.itemsize > len(self._content):
            raise self._broken(f"{name} beyond its end")
        return torch.frombuffer(self._content, dtype=dtype, count=count, offset=one.offset).view(shape)

    def widened(self, name: str) -> torch.Tensor:
        """A tensor as floats, whatever its type."""
        stored, one = self.stored(name), self.tensors[name]
        if one.kind in FLOAT_TYPES:
            return stored
        return dequantize_ggml(stored.flatten(0, -2), BLOCK_TYPES[one.kind]).view(one.shape)

    def _broken(self, got: str) -> BadArgumentError:
        return BadArgumentError(str(self.path), "a whole GGUF file of version 2 or 3", got, "Fetch it again.")
