"""MXFP4: blocks of 32 four-bit floats (e2m1) with one power-of-two scale (e8m0). Source: OCP Microscaling, 1.0."""

from __future__ import annotations

import torch

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
E8M0_BIAS = 127


def dequantize_mxfp4(blocks: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Widen MXFP4; exact in every dtype whose exponents reach the scales'.

    Args:
        blocks: uint8 [..., groups, 16]; the low four bits of a byte come before the high ones.
        scales: uint8 [..., groups]; 2^(scale - 127).

    Returns:
        [..., groups · 32].
    """
    table = torch.tensor(E2M1, dtype=torch.float32, device=blocks.device)
    values = table[torch.stack((blocks & 15, blocks >> 4), -1).long()].flatten(-2)
    return torch.ldexp(values, scales[..., None].int() - E8M0_BIAS).flatten(-2).to(dtype)
