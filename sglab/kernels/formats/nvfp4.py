"""NVFP4: e2m1 values in groups of 16 with an e4m3 scale, and one float32 scale for the whole tensor."""

from __future__ import annotations

import torch

from sglab.kernels.formats.fp8 import E4M3_MAX, to_e4m3
from sglab.kernels.formats.microscaling import E2M1_MAX, e2m1_codes, pack_e2m1, unpack_e2m1

NV_GROUP = 16


def quantize_nvfp4(
    x: torch.Tensor, global_scale: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """[rows, n · 16] -> uint8 [rows, n · 8], e4m3 scales [rows, n] and the float32 scale [].

    Args:
        global_scale: None: amax / (448 · 6), with which the largest group's scale is 448.
    """
    groups = x.float().unflatten(-1, (-1, NV_GROUP))
    if global_scale is None:
        global_scale = x.float().abs().amax().clamp(min=torch.finfo(torch.float32).tiny) / (E4M3_MAX * E2M1_MAX)
    scales = to_e4m3(groups.abs().amax(-1) / E2M1_MAX / global_scale)
    divisor = scales.float() * global_scale
    shrunk = torch.where(divisor[..., None] > 0, groups / divisor[..., None], 0.0)
    return pack_e2m1(e2m1_codes(shrunk).flatten(-2)), scales, global_scale


def dequantize_nvfp4(packed: torch.Tensor, scales: torch.Tensor, global_scale: torch.Tensor) -> torch.Tensor:
    """float32 [rows, n · 16]; `global_scale` is [] or [rows]."""
    wide = scales.float() * (global_scale[..., None] if global_scale.dim() else global_scale)
    return (unpack_e2m1(packed).unflatten(-1, (-1, NV_GROUP)) * wide[..., None]).flatten(-2)
