"""The Marlin layout: tiles of 16 input features by 64 output features, in the order in which a warp's threads want
them for `mma.m16n8k16`, so that every thread loads its part of four tiles as one 16-byte word.

Thread t of a warp holds, of a 16 × 16 tile, rows 2 (t mod 4) + {0, 1, 8, 9} of columns t div 4 and t div 4 + 8.
Scales are permuted to match. Source: IST-DASLab/marlin; SGLang 0.5.23 `layers/quantization/marlin_utils.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from sglab.engine.errors import BadArgumentError
from sglab.layers.quantization.awq import AWQ_ORDER
from sglab.layers.quantization.packing import pack, unpack
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors

TILE, COLUMNS = 16, 64
_WITHIN = {4: (0, 2, 4, 6, 1, 3, 5, 7), 8: (0, 2, 1, 3)}
"""bits -> order of a word's values: the kernel unpacks two at a time, half a word apart."""


@cache
def weight_permutation(bits: int) -> torch.Tensor:
    """int64 [1024]: which element of a 16 × 64 tile (its four 16 × 16 tiles one after another) comes at each place."""
    places = []
    for thread in range(32):
        rows = [2 * (thread % 4) + extra for extra in (0, 1, 8, 9)]
        own = [TILE * row + thread // 4 + 8 * half for half in (0, 1) for row in rows]
        places += [256 * tile + place for tile in range(4) for place in own]
    order = list(_WITHIN[bits])
    return torch.tensor(places).view(-1, len(order))[:, order].flatten()


@cache
def scale_permutation(grouped: bool) -> torch.Tensor:
    """int64 [64] for scales per group, [32] for scales per channel."""
    if grouped:
        return torch.arange(64).view(8, 8).T.flatten()
    return torch.tensor([2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)])


def _check(size_k: int, size_n: int, bits: int) -> None:
    if bits not in _WITHIN:
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


def marlin_unpack(words: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """The inverse of `marlin_pack`: int32 [in, out]."""
    size_k, size_n = len(words) * TILE, words.shape[1] * 2 // bits
    inverse = weight_permutation(bits).argsort().to(words.device)
    tiles = unpack(words, bits, 1).unflatten(1, (-1, 1024))[..., inverse]
    return tiles.reshape(size_k // TILE, size_n // TILE, TILE, TILE).transpose(1, 2).reshape(size_k, size_n)


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


def marlin_permute_scales(scales: torch.Tensor, inverse: bool = False) -> torch.Tensor:
    """Scales [groups, out] as Marlin reads them; one group alone has another order. `inverse` takes it back."""
    order = scale_permutation(len(scales) > 1).to(scales.device)
    order = order.argsort() if inverse else order
    return scales.unflatten(1, (-1, len(order)))[..., order].flatten(1)


def marlin_zero_points(zeros: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Zero points [groups, out], integers -> int32 [groups, out · bits / 32]: as grouped scales, then as weights."""
    permuted = zeros.unflatten(1, (-1, 64))[..., scale_permutation(True).to(zeros.device)].flatten(1)
    return pack(permuted, bits, 1, _WITHIN[bits])


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

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        scales = marlin_permute_scales(tensors["s"], inverse=True)
        size = self.group_size if self.group_size > 0 else shape[1]
        return ((marlin_unpack(tensors["B"]) - 8) * scales.repeat_interleave(size, 0)[: shape[1]]).T
