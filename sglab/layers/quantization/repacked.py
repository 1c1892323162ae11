"""GPTQ's and AWQ's matrices in Marlin's layout: brought into it after loading, a GPU multiplies by their words."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels import gptq_marlin_gemm
from sglab.kernels.formats.marlin import (
    COLUMNS,
    TILE,
    marlin_permute_scales,
    marlin_unpack,
    marlin_unpack_zero_points,
)
from sglab.kernels.formats.packing import unpack
from sglab.kernels.marlin.contract import LEAST_GROUP
from sglab.layers.quantization.awq import AWQ_ORDER, Awq
from sglab.layers.quantization.gptq import Gptq
from sglab.layers.quantization.marlin import awq_marlin_repack, gptq_marlin_repack, marlin_zero_points
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


@dataclass(frozen=True)
class Repacked(Scheme):
    """What `repacked` makes; no checkpoint has it.

    Attributes:
        group: input features that share a scale.
        zero_points: each group has its own; otherwise 2^(bits − 1).
        ordered: groups were no neighbours, and perm makes them so.
    """

    bits: int
    group: int
    zero_points: bool
    ordered: bool

    @property
    def stored(self) -> tuple[Stored, ...]:
        groups, out = Axis("in", self.group), Axis("out")
        words = Axis("out", COLUMNS, COLUMNS * self.bits // 2)
        found = [
            Stored("qweight", torch.int32, (Axis("in", TILE), words)),
            Stored("scales", torch.float32, (groups, out)),
        ]
        if self.zero_points:
            found.append(Stored("qzeros", torch.int32, (groups, Axis("out", 32 // self.bits))))
        if self.ordered:
            found.append(Stored("perm", torch.int64, (Axis("in"),)))
        return tuple(found)

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        q: torch.Tensor | int = 2 ** (self.bits - 1)
        if self.zero_points:
            q = marlin_unpack_zero_points(tensors["qzeros"], self.bits).repeat_interleave(self.group, 0)
        scales = marlin_permute_scales(tensors["scales"], inverse=True).repeat_interleave(self.group, 0)
        wide = (marlin_unpack(tensors["qweight"], self.bits) - q) * scales
        return (wide[tensors["perm"].argsort()] if self.ordered else wide).T

    def linear(self, x: torch.Tensor, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        return self.product(x, tensors)

    def product(self, x: torch.Tensor, tensors: Tensors, implementation: str = "auto") -> torch.Tensor:
        """[…, in] -> […, out] from the words themselves."""
        rows = x.flatten(0, -2).contiguous()
        given = tensors["qweight"], tensors["scales"].to(x.dtype), tensors.get("qzeros"), tensors.get("perm"), self.bits
        return gptq_marlin_gemm(rows, *given, implementation=implementation).unflatten(0, x.shape[:-1])


def repacked(
    scheme: Scheme, tensors: Tensors, shape: tuple[int, int]
) -> tuple[Repacked, dict[str, torch.Tensor]] | None:
    """A rank's matrix [out, in] of GPTQ or AWQ in Marlin's layout; the integers, scales and zero points are the same.

    Returns:
        None: another format, a size that tiles do not divide, or groups that are no multiples of 32 input features, of
        different sizes, or cut (a rank's part of a desc_act checkpoint can be so): it stays as it is.
    """
    out, features = shape
    if out % COLUMNS or features % TILE:
        return None
    if isinstance(scheme, Gptq):
        return _of_gptq(scheme, tensors, features)
    if isinstance(scheme, Awq):
        group = _group(scheme.group_size, features, len(tensors["scales"]))
        if group is None:
            return None
        zeros = unpack(tensors["qzeros"], 4, 1, AWQ_ORDER)
        return _made(awq_marlin_repack(tensors["qweight"]), tensors["scales"], zeros, None, 4, group)
    return None


def _of_gptq(scheme: Gptq, tensors: Tensors, features: int) -> tuple[Repacked, dict[str, torch.Tensor]] | None:
    scales, perm = tensors["scales"], None
    zeros = (unpack(tensors["qzeros"], scheme.bits, 1) + scheme.zero_offset) & (2**scheme.bits - 1)
    if scheme.desc_act:
        present, counts = tensors["g_idx"].unique(return_counts=True)
        if int(counts.min()) != int(counts.max()):
            return None
        group = _group(int(counts[0]), features, len(present))
        perm = tensors["g_idx"].argsort(stable=True)
        scales, zeros = scales[present.long()], zeros[present.long()]
    else:
        group = _group(scheme.group_size, features, len(scales))
    if group is None:
        return None
    return _made(gptq_marlin_repack(tensors["qweight"], perm, scheme.bits), scales, zeros, perm, scheme.bits, group)


def _group(size: int, features: int, groups: int) -> int | None:
    """Input features that share a scale here; None: the product does not take such groups."""
    if groups == 1:
        return features
    return size if size > 0 and size % LEAST_GROUP == 0 and size * groups == features else None


def _made(
    words: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, perm: torch.Tensor | None, bits: int, group: int
) -> tuple[Repacked, dict[str, torch.Tensor]]:
    """scales, zeros: [groups, out]; scales of one group alone have an order of their own."""
    tensors = {"qweight": words, "scales": marlin_permute_scales(scales)}
    apart = bool((zeros != 2 ** (bits - 1)).any())
    if apart:
        tensors["qzeros"] = marlin_zero_points(zeros, bits)
    if perm is not None:
        tensors["perm"] = perm
    return Repacked(bits, group, apart, perm is not None), tensors
