"""INT8: values divided by a scale per row or group and rounded to -127..127, ties to even.

After SGLang 0.5.23 `kernels/ops/quantization/int8_kernel.py`.
"""

from __future__ import annotations

import torch

from sglab.kernels.formats.fp8 import require_groups

INT8_MAX = 127
EPS = 1e-10


def per_token_quant_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A scale per row. x [rows, columns] -> int8 like x and float32 [rows, 1]: x is about q · scale."""
    wide = x.float()
    scale = wide.abs().amax(-1, keepdim=True).clamp(min=EPS) / INT8_MAX
    return round_int8(wide / scale), scale


def per_token_group_quant_int8(x: torch.Tensor, group_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A scale per `group_size` neighbouring columns of a row: int8 like x and float32 [rows, columns / group_size].

    Raises:
        ContractError: groups do not divide the columns.
    """
    require_groups("per_token_group_quant_int8", x, group_size)
    q, scale = per_token_quant_int8(x.unflatten(-1, (-1, group_size)))
    return q.flatten(-2), scale[..., 0]


def round_int8(x: torch.Tensor) -> torch.Tensor:
    """To the nearest of -127..127, ties to even."""
    return torch.round(x).clamp(-INT8_MAX, INT8_MAX).to(torch.int8)


def int8_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [rows, in] and b [out, in], int8 -> the exact product as float32 [rows, out], rounded once."""
    if not a.is_cuda:
        return (a.int() @ b.int().T).float()
    rows, pad_in, pad_out = len(a), -a.shape[1] % 16, -len(b) % 16
    a = torch.nn.functional.pad(a, (0, pad_in, 0, max(32 - rows, 0)))  # cuBLAS wants more than 16 rows
    b = torch.nn.functional.pad(b, (0, pad_in, 0, pad_out))
    return torch._int_mm(a, b.T)[:rows, : b.shape[0] - pad_out].float()
