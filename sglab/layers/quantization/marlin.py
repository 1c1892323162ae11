"""Checkpoints in the Marlin layout (`kernels/formats/marlin.py`), and what brings others into it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.engine.errors import BadArgumentError
from sglab.kernels import gptq_marlin_gemm
from sglab.kernels.formats.marlin import (
    COLUMNS,
    TILE,
    WITHIN,
    marlin_permute_scales,
    marlin_unpack,
    scale_permutation,
    weight_permutation,
)
from sglab.kernels.formats.packing import pack, unpack
from sglab.kernels.marlin.contract import LEAST_GROUP
from sglab.layers.quantization.awq import AWQ_ORDER
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


def _check(size_k: int, size_n: int, bits: int) -> None:
    if bits not in WITHIN:
        raise BadArgumentError("bits", "4 or 8", bits, "Marlin has no other widths.")
    for name, size, tile in (("size_k", size_k, TILE), ("size_n", size_n, COLUMNS)):
        if size % tile:
            raise BadArgumentError(name, f"a multiple of {tile}", size, "Keep this layer in its own layout.")


def marlin_pack(q: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Integers [in, out] -> int32 [in / 16, out · bits / 2].

    Raises:
        BadArgumentError: a size that tiles do not divide.
    """
    size_k, size_n = q.shape
    _check(size_k, size_n, bits)
    tiles = q.view(size_k // TILE, TILE, size_n // TILE, TILE).transpose(1, 2).reshape(size_k // TILE, -1)
    permuted = tiles.unflatten(1, (-1, 1024))[..., weight_permutation(bits).to(q.device)]
    return pack(permuted.flatten(1), bits, 1)


def gptq_marlin_repack(qweight: torch.Tensor, perm: torch.Tensor | None = None, bits: int = 4) -> torch.Tensor:
    """GPTQ's int32 [in · bits / 32, out] in Marlin's layout.

    Args:
        perm: argsort of g_idx, which makes the groups of a desc_act checkpoint neighbours; x is permuted likewise.
    """
    q = unpack(qweight, bits, 0)
    return marlin_pack(q if perm is None else q[perm.long()], bits)


def awq_marlin_repack(qweight: torch.Tensor) -> torch.Tensor:
    """AWQ's int32 [in, out / 8] in Marlin's layout."""
    return marlin_pack(unpack(qweight, 4, 1, AWQ_ORDER))


def marlin_zero_points(zeros: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Zero points [groups, out], integers -> int32 [groups, out · bits / 32]: as grouped scales, then as weights."""
    permuted = zeros.unflatten(1, (-1, 64))[..., scale_permutation(True).to(zeros.device)].flatten(1)
    return pack(permuted, bits, 1, WITHIN[bits])


def awq_to_marlin_zero_points(qzeros: torch.Tensor) -> torch.Tensor:
    """AWQ's int32 [groups, out / 8] as Marlin reads them."""
    return marlin_zero_points(unpack(qzeros, 4, 1, AWQ_ORDER))


@dataclass(frozen=True)
class Marlin(Scheme):
    """A checkpoint stored in this layout (quant_method "marlin"): four bits, zero point 8."""

    group_size: int = 128

    @property
    def stored(self) -> tuple[Stored, ...]:
        groups = Axis("in", self.group_size) if self.group_size > 0 else Axis("in", 2**31, whole=True)
        return (
            Stored("B", torch.int32, (Axis("in", TILE), Axis("out", COLUMNS, 2 * COLUMNS))),
            Stored("s", torch.float32, (groups, Axis("out", COLUMNS, COLUMNS))),
        )

    def settle(self, tensors: Tensors, whole_in: int) -> None:
        """A part that is left with one group has its scales in the order of several."""
        scales = tensors["s"]
        if len(scales) == 1 and 0 < self.group_size < whole_in:
            grouped = scale_permutation(True).to(scales.device).argsort()
            natural = scales.unflatten(1, (-1, len(grouped)))[..., grouped].flatten(1)
            scales.copy_(marlin_permute_scales(natural))

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        scales = marlin_permute_scales(tensors["s"], inverse=True)
        size = self.group_size if self.group_size > 0 else shape[1]
        return ((marlin_unpack(tensors["B"]) - 8) * scales.repeat_interleave(size, 0)[: shape[1]]).T

    def linear(self, x: torch.Tensor, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        whole = self.group_size < 0 or (self.group_size % LEAST_GROUP == 0 and shape[1] % self.group_size == 0)
        if x.device.type != "cuda" or not whole:
            return super().linear(x, tensors, shape)
        return self.product(x, tensors)

    def product(self, x: torch.Tensor, tensors: Tensors, implementation: str = "auto") -> torch.Tensor:
        """[…, in] -> […, out] from the stored words themselves."""
        rows, scales = x.flatten(0, -2).contiguous(), tensors["s"].to(x.dtype)
        return gptq_marlin_gemm(rows, tensors["B"], scales, implementation=implementation).unflatten(0, x.shape[:-1])
