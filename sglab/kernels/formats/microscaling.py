"""OCP Microscaling 1.0: blocks of 32 small floats with one power-of-two scale (e8m0): MXFP4 (e2m1) and MXFP8 (e4m3).

The scale is 2^(floor(log2 amax) - emax): the largest value may be cut off, which is the specification's rule.
"""

from __future__ import annotations

import torch

from sglab.kernels.formats.fp8 import to_e4m3

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
E2M1_MAX, E2M1_EMAX, E4M3_EMAX = 6.0, 2, 8
E8M0_BIAS, E8M0_NAN = 127, 255
MX_BLOCK = 32


def e2m1_codes(x: torch.Tensor) -> torch.Tensor:
    """The code 0..15 of the nearest e2m1 value; ties to the even code, beyond 6 to 6."""
    magnitude = x.abs().clamp(max=E2M1_MAX)
    middles = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
    code = torch.zeros_like(x, dtype=torch.uint8)
    for i, middle in enumerate(middles):  # from code i to i + 1; a tie goes up where i + 1 is even
        code += (magnitude >= middle) if i % 2 else (magnitude > middle)
    return code | (torch.signbit(x).to(torch.uint8) << 3)


def pack_e2m1(codes: torch.Tensor) -> torch.Tensor:
    """Codes [..., 2 n] -> bytes [..., n]; the low four bits of a byte come before the high ones."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_e2m1(packed: torch.Tensor) -> torch.Tensor:
    """Bytes [..., n] -> float32 [..., 2 n]."""
    table = torch.tensor(E2M1, dtype=torch.float32, device=packed.device)
    return table[torch.stack((packed & 15, packed >> 4), -1).long()].flatten(-2)


def e8m0_scales(groups: torch.Tensor, emax: int) -> torch.Tensor:
    """uint8 [...]: the shared exponent of groups [..., 32], biased by 127."""
    _, exponent = torch.frexp(groups.float().abs().amax(-1))  # amax = m · 2^exponent with m in [½, 1)
    shared = torch.where(groups.abs().amax(-1) > 0, exponent - 1 - emax, -E8M0_BIAS)
    return (shared + E8M0_BIAS).clamp(0, 254).to(torch.uint8)


def times_e8m0(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """x [..., n · 32] times its groups' 2^(scale - 127), float32."""
    return torch.ldexp(x.unflatten(-1, (-1, MX_BLOCK)), scales[..., None].int() - E8M0_BIAS).flatten(-2)


def quantize_mxfp4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[..., n · 32] -> uint8 [..., n · 16] and uint8 scales [..., n]."""
    groups = x.float().unflatten(-1, (-1, MX_BLOCK))
    scales = e8m0_scales(groups, E2M1_EMAX)
    shrunk = torch.ldexp(groups, E8M0_BIAS - scales[..., None].int())
    return pack_e2m1(e2m1_codes(shrunk).flatten(-2)), scales


def dequantize_mxfp4(blocks: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Widen MXFP4; exact in every dtype whose exponents reach the scales'.

    Args:
        blocks: uint8 [..., groups, 16]; the low four bits of a byte come before the high ones.
        scales: uint8 [..., groups]; 2^(scale - 127).

    Returns:
        [..., groups · 32].
    """
    return times_e8m0(unpack_e2m1(blocks.flatten(-2)), scales).to(dtype)


def quantize_mxfp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[..., n · 32] -> e4m3 like x and uint8 scales [..., n]."""
    groups = x.float().unflatten(-1, (-1, MX_BLOCK))
    scales = e8m0_scales(groups, E4M3_EMAX)
    return to_e4m3(torch.ldexp(groups, E8M0_BIAS - scales[..., None].int())).flatten(-2), scales


def dequantize_mxfp8(q: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """e4m3 [..., n · 32] and uint8 [..., n] -> float32."""
    return times_e8m0(q.float(), scales)
