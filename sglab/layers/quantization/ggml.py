"""ggml's block formats, as GGUF files have them: Q4_0, Q8_0, Q4_K, Q6_K and MXFP4, rows of blocks of bytes.

Source of the layouts: ggml's `ggml-common.h` and the functions `dequantize_row_*` of `ggml-quants.c`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from sglab.engine.errors import BadArgumentError
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


class BlockFormat(NamedTuple):
    """`features` numbers in `bytes` bytes; `widen`: uint8 [blocks, bytes] -> float32 [blocks, features]."""

    features: int
    bytes: int
    widen: Callable[[torch.Tensor], torch.Tensor]


def _half(blocks: torch.Tensor, at: int) -> torch.Tensor:
    """The float16 at byte `at` of each block: float32 [blocks, 1]."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _q4_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and 32 nibbles: the low ones are the first half."""
    q = torch.cat((blocks[:, 2:] & 15, blocks[:, 2:] >> 4), 1)
    return _half(blocks, 0) * (q.float() - 8)


def _q8_0(blocks: torch.Tensor) -> torch.Tensor:
    """A scale and 32 signed bytes."""
    return _half(blocks, 0) * blocks[:, 2:].contiguous().view(torch.int8).float()


def _q4_k(blocks: torch.Tensor) -> torch.Tensor:
    """Eight groups of 32 with six-bit scales and minima, themselves scaled: d · scale · q - dmin · min."""
    packed = blocks[:, 4:16].int()
    first, second, third = packed.split(4, 1)  # six bits of the first four; of the last four the low bits in `third`
    scale = torch.cat((first & 63, (third & 15) | (first >> 6 << 4)), 1)
    least = torch.cat((second & 63, (third >> 4) | (second >> 6 << 4)), 1)
    nibbles = blocks[:, 16:].unflatten(1, (4, 32))
    q = torch.stack((nibbles & 15, nibbles >> 4), 2).flatten(1, 2).float()
    wide = (_half(blocks, 0) * scale)[..., None] * q - (_half(blocks, 2) * least)[..., None]
    return wide.flatten(1)


def _q6_k(blocks: torch.Tensor) -> torch.Tensor:
    """Sixteen groups of 16 with signed eight-bit scales; the low four and high two bits of a number lie apart."""
    low = blocks[:, :128].unflatten(1, (2, 2, 32))  # [half, pair, 32]
    high = blocks[:, 128:192].unflatten(1, (2, 32))
    four = torch.cat((low & 15, low >> 4), 2)  # [half, 4, 32]
    two = torch.stack([(high >> shift) & 3 for shift in (0, 2, 4, 6)], 2)
    q = (four | (two << 4)).flatten(1).float() - 32
    scale = blocks[:, 192:208].contiguous().view(torch.int8).float()
    return (q.unflatten(1, (16, 16)) * (_half(blocks, 208) * scale)[..., None]).flatten(1)


MXFP4_BYTES = 17
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _mxfp4(blocks: torch.Tensor) -> torch.Tensor:
    """An exponent and 32 nibbles of e2m1: the low ones are the first half."""
    q = torch.cat((blocks[:, 1:] & 15, blocks[:, 1:] >> 4), 1).long()
    values = torch.tensor((*_E2M1, *(-each for each in _E2M1)))[q]
    return values * (2.0 ** (blocks[:, :1].double() - 127)).float()


def mxfp4_blocks(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """ggml's MXFP4 as gpt-oss's checkpoints have it, where a byte holds neighbours; no value changes.

    Args:
        rows: uint8 [..., groups · 17].

    Returns:
        blocks uint8 [..., groups, 16], and scales uint8 [..., groups].
    """
    groups = rows.unflatten(-1, (-1, MXFP4_BYTES))
    nibbles = torch.cat((groups[..., 1:] & 15, groups[..., 1:] >> 4), -1)
    return nibbles[..., ::2] | (nibbles[..., 1::2] << 4), groups[..., 0].contiguous()


BLOCK_FORMATS = {
    "Q4_0": BlockFormat(32, 18, _q4_0),
    "Q8_0": BlockFormat(32, 34, _q8_0),
    "Q4_K": BlockFormat(256, 144, _q4_k),
    "Q6_K": BlockFormat(256, 210, _q6_k),
    "MXFP4": BlockFormat(32, MXFP4_BYTES, _mxfp4),
}


def block_format(name: str) -> BlockFormat:
    """A format by ggml's name of it.

    Raises:
        BadArgumentError: it is not here.
    """
    if name not in BLOCK_FORMATS:
        remedy = "Convert the file with llama-quantize."
        raise BadArgumentError("ggml type", f"one of {', '.join(BLOCK_FORMATS)}", name, remedy)
    return BLOCK_FORMATS[name]


def dequantize_ggml(rows: torch.Tensor, name: str) -> torch.Tensor:
    """uint8 [rows, bytes] -> float32 [rows, features]."""
    kind = block_format(name)
    return kind.widen(rows.reshape(-1, kind.bytes)).view(len(rows), -1)


@dataclass(frozen=True)
class Ggml(Scheme):
    """Weights alone, in one of BLOCK_FORMATS."""

    kind: str

    @property
    def stored(self) -> tuple[Stored, ...]:
        form = block_format(self.kind)
        return (Stored("weight", torch.uint8, (Axis("out"), Axis("in", form.features, form.bytes))),)

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        return dequantize_ggml(tensors["weight"], self.kind)
