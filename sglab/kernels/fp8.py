"""The two 8-bit float formats of KV caches: what a value becomes in them, and back.

A stored value times its scale is the value: x ≈ stored · scale. Values beyond the format's largest saturate, as GPUs
convert them (PyTorch's own conversion would make NaN of them in e4m3, infinity in e5m2).
"""

from __future__ import annotations

import torch

from sglab.kernels import devices
from sglab.kernels.contract import FLOATS, Contract
from sglab.kernels.registry import Arguments, needs_triton

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FP8 = (E4M3, E5M2)
CACHES = (*FLOATS, *FP8)
"""What a KV cache may hold."""
LARGEST = {E4M3: 448.0, E5M2: 57344.0}


def largest(dtype: torch.dtype) -> float:
    """The largest finite value to which a cache of this dtype saturates; infinity for formats that are not 8-bit."""
    return LARGEST.get(dtype, torch.inf)


def stored(x: torch.Tensor, dtype: torch.dtype, scale: torch.Tensor | float = 1.0) -> torch.Tensor:
    """x / scale as a cache of this dtype holds it; the quotient is rounded to float32 first, as on a GPU."""
    quotient = x.float() / scale
    if dtype in LARGEST:
        quotient = quotient.clamp(-LARGEST[dtype], LARGEST[dtype])  # keeps NaN
    return quotient.to(dtype)


def per_head(scale: torch.Tensor | float) -> torch.Tensor | float:
    """A factor of (keys, kv_heads, dim) tensors, in float64."""
    return scale.double()[:, None] if isinstance(scale, torch.Tensor) else scale


def number_and_tensor(scale: torch.Tensor | float) -> tuple[float, torch.Tensor | None]:
    """A scale as kernels take it: a number, and a tensor (kv_heads,) or None."""
    return (1.0, scale.contiguous()) if isinstance(scale, torch.Tensor) else (float(scale), None)


def check_scale(contract: Contract, argument: str, scale: object, shape: str) -> None:
    """A scale is a positive number or a float32 tensor of this shape."""
    if isinstance(scale, torch.Tensor):
        contract.tensor(argument, scale, shape, (torch.float32,), dense=False)
        return
    number = isinstance(scale, int | float) and 0 < scale < float("inf")
    contract.require(number, argument, "positive and finite, or a float32 tensor", scale, "1.0 where nothing scales.")


def triton_refuses(arguments: Arguments, *tensors: torch.Tensor) -> str | None:
    """Why a Triton kernel cannot read these tensors, or None."""
    old = devices.capability(arguments.device) < (8, 9)
    if old and any(tensor.dtype == E4M3 for tensor in tensors):
        return "e4m3 needs compute capability 8.9 or more"
    return needs_triton(arguments)


def e4m3_triton_refuses(arguments: Arguments) -> str | None:
    """Why a Triton kernel that writes or reads e4m3 cannot run here, or None."""
    if devices.capability(arguments.device) < (8, 9):
        return "e4m3 needs compute capability 8.9 or more"
    return needs_triton(arguments)
