"""The Marlin layout: tiles of 16 input features by 64 output features, in the order in which a warp's threads want
them for `mma.m16n8k16`, so that every thread loads its part of four tiles as one 16-byte word.

Thread t of a warp holds, of a 16 × 16 tile, rows 2 (t mod 4) + {0, 1, 8, 9} of columns t div 4 and t div 4 + 8.
Scales are permuted to match. Source: IST-DASLab/marlin; SGLang 0.5.23 `layers/quantization/marlin_utils.py`.
"""

from __future__ import annotations

from functools import cache

import torch

from sglab.kernels.formats.packing import unpack

TILE, COLUMNS = 16, 64
WITHIN = {4: (0, 2, 4, 6, 1, 3, 5, 7), 8: (0, 2, 1, 3)}
"""bits -> order of a word's values: the kernel unpacks two at a time, half a word apart."""


@cache
def weight_permutation(bits: int) -> torch.Tensor:
    """int64 [1024]: which element of a 16 × 64 tile (its four 16 × 16 tiles one after another) comes at each place."""
    places = []
    for thread in range(32):
        rows = [2 * (thread % 4) + extra for extra in (0, 1, 8, 9)]
        own = [TILE * row + thread // 4 + 8 * half for half in (0, 1) for row in rows]
        places += [256 * tile + place for tile in range(4) for place in own]
    order = list(WITHIN[bits])
    return torch.tensor(places).view(-1, len(order))[:, order].flatten()


@cache
def scale_permutation(grouped: bool) -> torch.Tensor:
    """int64 [64] for scales per group, [32] for scales per channel."""
    if grouped:
        return torch.arange(64).view(8, 8).T.flatten()
    return torch.tensor([2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)])


def marlin_unpack(words: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """int32 [in / 16, out · bits / 2] in this layout -> integers, int32 [in, out]."""
    size_k, size_n = len(words) * TILE, words.shape[1] * 2 // bits
    inverse = weight_permutation(bits).argsort().to(words.device)
    tiles = unpack(words, bits, 1).unflatten(1, (-1, 1024))[..., inverse]
    return tiles.reshape(size_k // TILE, size_n // TILE, TILE, TILE).transpose(1, 2).reshape(size_k, size_n)


def marlin_permute_scales(scales: torch.Tensor, inverse: bool = False) -> torch.Tensor:
    """Scales [groups, out] as Marlin reads them; one group alone has another order. `inverse` takes it back."""
    order = scale_permutation(len(scales) > 1).to(scales.device)
    order = order.argsort() if inverse else order
    return scales.unflatten(1, (-1, len(order)))[..., order].flatten(1)


def marlin_unpack_zero_points(zeros: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """int32 [groups, out · bits / 32] in this layout -> integers, int32 [groups, out]; grouped, also where one is."""
    order = scale_permutation(True).argsort().to(zeros.device)
    return unpack(zeros, bits, 1, WITHIN[bits]).unflatten(1, (-1, 64))[..., order].flatten(1)
