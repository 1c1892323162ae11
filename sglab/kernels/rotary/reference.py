"""The rotation in float64, of queries and keys alike."""

from __future__ import annotations

import torch

from sglab.kernels.rotary.contract import RopeArguments


def run(a: RopeArguments) -> tuple[()]:
    cos, sin = a.cos_sin_cache[a.positions].double()[:, None].chunk(2, -1)
    for x in (a.query, a.key):
        turned = x[..., : a.rotary_dim]
        wide = turned.double()
        first, second = wide.chunk(2, -1) if a.is_neox else (wide[..., 0::2], wide[..., 1::2])
        pair = (first * cos - second * sin, second * cos + first * sin)
        turned.copy_(torch.cat(pair, -1) if a.is_neox else torch.stack(pair, -1).flatten(-2))
    return ()
