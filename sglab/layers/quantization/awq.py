"""AWQ: four-bit integers packed along the output features in the order 0 2 4 6 1 3 5 7; w = (q - zero) · scale."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.formats.packing import unpack
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight neighbours lies at each position of a word."""


def dequantize_awq(
    qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor, group_size: int = 128
) -> torch.Tensor:
    """Widen.

    Args:
        qweight: int32 [in, out / 8].
        qzeros: int32 [groups, out / 8].
        scales: [groups, out].
        group_size: neighbouring input features that share a scale and a zero point; -1: all.

    Returns:
        float32 [out, in].
    """
    size = group_size if group_size > 0 else len(qweight)
    zeros = unpack(qzeros, 4, 1, AWQ_ORDER).repeat_interleave(size, 0)[: len(qweight)]
    wide = scales.float().repeat_interleave(size, 0)[: len(qweight)]
    return ((unpack(qweight, 4, 1, AWQ_ORDER) - zeros) * wide).T


@dataclass(frozen=True)
class Awq(Scheme):
    """Weights alone, four bits."""

    group_size: int = 128

    @property
    def stored(self) -> tuple[Stored, ...]:
        words = Axis("out", 8)
        groups = Axis("in", self.group_size) if self.group_size > 0 else Axis("in", 2**31, whole=True)
        return (
            Stored("qweight", torch.int32, (Axis("in"), words)),
            Stored("qzeros", torch.int32, (groups, words)),
            Stored("scales", torch.float32, (groups, Axis("out"))),
        )

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        return dequantize_awq(tensors["qweight"], tensors["qzeros"], tensors["scales"], self.group_size)
