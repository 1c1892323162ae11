"""GPTQ: integers packed along the input features, a scale and a zero point per group of input features.

With desc_act a feature's group is given by g_idx: features were quantised in order of their activations' size, and
groups are not neighbours. Version 1 of the format stores zero points less one, modulo 2^bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.formats.packing import unpack
from sglab.layers.loading import WeightError
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


def dequantize_gptq(
    qweight: torch.Tensor,
    qzeros: torch.Tensor,
    scales: torch.Tensor,
    g_idx: torch.Tensor,
    bits: int = 4,
    zero_offset: int = 1,
) -> torch.Tensor:
    """Widen.

    Args:
        qweight: int32 [in · bits / 32, out].
        qzeros: int32 [groups, out · bits / 32].
        scales: [groups, out].
        g_idx: int [in], each input feature's group.
        zero_offset: 1 for version 1, 0 for version 2.

    Returns:
        float32 [out, in].
    """
    zeros = (unpack(qzeros, bits, 1) + zero_offset) & (2**bits - 1)
    group = g_idx.long()
    return ((unpack(qweight, bits, 0) - zeros[group]) * scales.float()[group]).T


@dataclass(frozen=True)
class Gptq(Scheme):
    """Weights alone.

    Attributes:
        group_size: -1: one group.
        desc_act: groups are as g_idx says; otherwise they are neighbours, and g_idx is checked to say so.
    """

    bits: int = 4
    group_size: int = 128
    desc_act: bool = False
    zero_offset: int = 1

    @property
    def stored(self) -> tuple[Stored, ...]:
        per_word, out = 32 // self.bits, Axis("out")
        size = self.group_size if self.group_size > 0 else 2**31
        groups = Axis("in", size, whole=self.desc_act or self.group_size < 0)
        return (
            Stored("qweight", torch.int32, (Axis("in", per_word), out)),
            Stored("qzeros", torch.int32, (groups, Axis("out", per_word))),
            Stored("scales", torch.float32, (groups, out)),
            Stored("g_idx", torch.int32, (Axis("in"),), optional=None if self.desc_act else -1),
        )

    def check(self, tensors: Tensors, label: str) -> None:
        super().check(tensors, label)
        g_idx, groups = tensors["g_idx"], len(tensors["scales"])
        if self.desc_act:
            right = bool(((g_idx >= 0) & (g_idx < groups)).all())
            expected = f"groups from 0 to {groups - 1}"
        else:
            ascending = self._neighbours(len(g_idx), g_idx.device)
            right = bool((g_idx < 0).all()) or bool((g_idx - g_idx[0] == ascending).all())
            expected = f"neighbours in groups of {self.group_size}, as desc_act=false says"
        if not right:
            got = f"{g_idx.min().item()} to {g_idx.max().item()}, {g_idx[:4].tolist()} first"
            raise WeightError(f"{label}g_idx", expected, got, "Is quantization_config the checkpoint's own?")

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        scales = tensors["scales"]
        g_idx = tensors["g_idx"] if self.desc_act else self._neighbours(shape[1], scales.device)
        return dequantize_gptq(tensors["qweight"], tensors["qzeros"], scales, g_idx, self.bits, self.zero_offset)

    def _neighbours(self, features: int, device: torch.device) -> torch.Tensor:
        each = torch.arange(features, device=device, dtype=torch.int32)
        return each // self.group_size if self.group_size > 0 else torch.zeros_like(each)
