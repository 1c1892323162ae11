"""FP8 (e4m3): values divided by a scale per tensor, row, group of a row, or block, and rounded to nearest even.

Names and layouts are those of SGLang 0.5.23 `layers/quantization/fp8_kernel.py`, fp8_utils.py and of DeepGEMM.
"""

from __future__ import annotations

import torch

from sglab.kernels import devices
from sglab.kernels.contract import Contract

E4M3 = torch.float8_e4m3fn
E4M3_MAX = 448.0
GROUP_EPS = 1e-10
"""Least amax of a group of activations, so that zeros have a scale."""
BLOCK_EPS = 1e-4
"""Least amax of a block of weights."""


def to_e4m3(x: torch.Tensor) -> torch.Tensor:
    """Round float32 to e4m3; what lies beyond 448 becomes 448, NaN stays NaN."""
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(E4M3)


def has_e4m3(device: torch.device) -> bool:
    """Whether a GPU's tensor cores multiply e4m3: from sm_89 on."""
    return device.type == "cuda" and devices.capability(device) >= (8, 9)


def scaled_fp8_quant(
    x: torch.Tensor, scale: torch.Tensor | None = None, use_per_token_if_dynamic: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise with one scale, or one per row.

    Args:
        x: [rows, columns].
        scale: float32 of one element (a static scale); None: amax / 448 of what is there.
        use_per_token_if_dynamic: without `scale`: a scale per row.

    Returns:
        e4m3 like x, and float32 [1] or [rows, 1]: x is about q · scale.
    """
    wide = x.float()
    if scale is not None:
        return to_e4m3(wide / scale), scale.reshape(1).float()
    amax = wide.abs().amax(-1, keepdim=True) if use_per_token_if_dynamic else wide.abs().amax().reshape(1)
    scale = amax.clamp(min=GROUP_EPS) / E4M3_MAX
    return to_e4m3(wide / scale), scale


def per_token_group_quant_fp8(
    x: torch.Tensor,
    group_size: int,
    eps: float = GROUP_EPS,
    column_major_scales: bool = False,
    scale_tma_aligned: bool = False,
    scale_ue8m0: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise groups of neighbouring columns, each with a scale of its own.

    Args:
        x: [rows, columns].
        column_major_scales: lay scales out column by column, as DeepGEMM reads them.
        scale_tma_aligned: with that, start each column at a multiple of 4 rows (16 bytes).
        scale_ue8m0: round scales up to powers of two.

    Returns:
        e4m3 like x, and float32 [rows, columns / group_size].

    Raises:
        ContractError: groups do not divide the columns.
    """
    require_groups("per_token_group_quant_fp8", x, group_size)
    groups = x.float().unflatten(-1, (-1, group_size))
    scale = groups.abs().amax(-1).clamp(min=eps) / E4M3_MAX
    if scale_ue8m0:
        scale = torch.exp2(torch.ceil(torch.log2(scale)))
    quantized = to_e4m3((groups / scale[..., None]).flatten(-2))
    if column_major_scales:
        rows = scale.shape[0]
        padded = -(-rows // 4) * 4 if scale_tma_aligned else rows
        scale = torch.nn.functional.pad(scale, (0, 0, 0, padded - rows)).T.contiguous().T[:rows]
    return quantized, scale


def per_block_cast_to_fp8(w: torch.Tensor, block: tuple[int, int] = (128, 128)) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise a matrix in blocks; those at the right and lower edge may be smaller.

    Returns:
        e4m3 like w, and float32 [ceil(rows / block[0]), ceil(columns / block[1])].
    """
    rows, columns = w.shape
    wide = torch.nn.functional.pad(w.float(), (0, -columns % block[1], 0, -rows % block[0]))
    tiles = wide.unflatten(1, (-1, block[1])).unflatten(0, (-1, block[0]))
    scale = tiles.abs().amax((1, 3)).clamp(min=BLOCK_EPS) / E4M3_MAX
    return to_e4m3(wide / spread(scale, block, wide.shape))[:rows, :columns].contiguous(), scale


def block_quant_dequant(q: torch.Tensor, scale: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    """float32 of a matrix [..., rows, columns] quantised in blocks; `scale` has an entry per block."""
    return q.float() * spread(scale, block, q.shape)


def spread(scale: torch.Tensor, block: tuple[int, int], shape: torch.Size) -> torch.Tensor:
    """A block's scale at each of its elements: [..., rows, columns]."""
    rows, columns = shape[-2:]
    wide = scale.repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)
    return wide[..., :rows, :columns]


def require_groups(operator: str, x: torch.Tensor, group_size: int) -> None:
    """Refuse a group size that does not divide x's columns.

    Raises:
        ContractError: it does not.
    """
    contract, columns = Contract(operator), x.shape[-1]
    divides = group_size > 0 and columns % group_size == 0
    contract.require(divides, "group_size", f"a divisor of {columns} columns", group_size, "Pad the columns.")
