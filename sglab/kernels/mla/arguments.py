"""What our MLA decode kernels, SM90 and SM100, ask of their arguments, and how they take them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from sglab.gpu import Strided, TensorMap
from sglab.kernels.combine.contract import LSE_UNITS, LseBase
from sglab.kernels.contract import INT32, Contract
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS, ROPE_DIM

MAX_HEADS = NUM_HEADS
PAGE_SIZES = (16, 32, 64, 128)
DTYPES = {torch.float16: "f16", torch.bfloat16: "bf16"}
_COPY_ROWS = 64
"""Heads of Q, or tokens of KV if a page holds as many, that one TMA copy brings; of either 64 dims."""


@dataclass(frozen=True)
class MlaDecodeArguments:
    """Checked arguments of one decode step. out and lse are outputs."""

    q_nope: torch.Tensor
    q_pe: torch.Tensor
    kv_cache: torch.Tensor
    page_table: torch.Tensor
    sm_scale: float
    out: torch.Tensor
    lse: torch.Tensor
    lse_base: LseBase

    @property
    def num_heads(self) -> int:
        return self.q_nope.shape[1]

    @property
    def page_size(self) -> int:
        return self.kv_cache.shape[1]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return self.q_nope, self.q_pe, self.kv_cache, self.page_table, self.out, self.lse

    def inputs(self) -> dict[str, Any]:
        """What every kernel's parameters begin with: tensor maps of Q and the KV pool, and the page table."""
        tokens = min(self.page_size, _COPY_ROWS)
        return {
            "q_latent": TensorMap(self.q_nope, (1, _COPY_ROWS, 64), swizzle=128, l2_promotion=256),
            "q_rope": TensorMap(self.q_pe, (1, _COPY_ROWS, 64), swizzle=128, l2_promotion=128),
            "kv": TensorMap(self.kv_cache, (1, tokens, 64), swizzle=128, l2_promotion=256),
            "page_table": Strided(self.page_table),
            "page_table_stride": self.page_table.stride(0),
            "page_size": self.page_size,
            "page_log2": self.page_size.bit_length() - 1,
        }

    def results(self) -> dict[str, Any]:
        """What they end with: where results go and in which units."""
        return {
            "out": Strided(self.out),
            "out_stride_request": self.out.stride(0),
            "out_stride_head": self.out.stride(1),
            "lse": self.lse,
            "num_heads": self.num_heads,
            "scale_log2": self.sm_scale * math.log2(math.e),
            "lse_unit": LSE_UNITS[self.lse_base],
        }


def unaligned(**tensors: torch.Tensor) -> str | None:
    """Why TMA cannot copy one of these tensors, or None."""
    for name, tensor in tensors.items():
        if tensor.data_ptr() % 16 or any(stride % 8 for stride in tensor.stride()[:-1]):
            return f"TMA needs every row of {name} at a multiple of 16 bytes"
    return None


def outputs(
    operator: str, q_nope: torch.Tensor, out: torch.Tensor | None, lse: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Those given, or new ones."""
    if (out is None or lse is None) and not (
        isinstance(q_nope, torch.Tensor)
        and q_nope.ndim == 3
        and q_nope.shape[2] == LATENT_DIM
        and q_nope.dtype in DTYPES  # a third of what the contract's check takes at every call
    ):
        Contract(operator).tensor("q_nope", q_nope, f"batch heads {LATENT_DIM}", DTYPES)
    if out is None:
        out = torch.empty(q_nope.shape, dtype=q_nope.dtype, device=q_nope.device)
    if lse is None:
        lse = torch.empty(q_nope.shape[:2], dtype=torch.float32, device=q_nope.device)
    return out, lse


def check(
    operator: str,
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv_cache: torch.Tensor,
    page_table: torch.Tensor,
    sm_scale: float,
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    lse_base: LseBase,
) -> MlaDecodeArguments:
    contract = Contract(operator)
    contract.tensor("q_nope", q_nope, f"batch heads {LATENT_DIM}", DTYPES)
    contract.tensor("q_pe", q_pe, f"batch heads {ROPE_DIM}", DTYPES)
    contract.tensor("kv_cache", kv_cache, f"pages page_size {HEAD_DIM}", DTYPES)
    contract.require(contract.size("pages") > 0, "kv_cache", "of at least one page", "none", "Allocate a pool.")
    contract.tensor("page_table", page_table, "batch width", INT32)
    contract.same_dtype(q_nope=q_nope, q_pe=q_pe, kv_cache=kv_cache)
    heads, page_size = contract.size("heads"), contract.size("page_size")
    contract.require(1 <= heads <= MAX_HEADS, "q_nope", f"of 1 to {MAX_HEADS} heads", heads, "Split the heads.")
    sizes = ", ".join(map(str, PAGE_SIZES))
    contract.require(page_size in PAGE_SIZES, "kv_cache", f"of page size {sizes}", page_size, "Use another page size.")
    contract.require(
        sm_scale > 0 and math.isfinite(sm_scale), "sm_scale", "positive and finite", sm_scale, "Pass 192 ** -0.5, say."
    )
    contract.require(lse_base in LSE_UNITS, "lse_base", "'2' or 'e'", repr(lse_base), "Choose one.")
    out, lse = outputs(operator, q_nope, out, lse)
    contract.tensor("out", out, f"batch heads {LATENT_DIM}", DTYPES)
    contract.tensor("lse", lse, "batch heads", (torch.float32,))
    contract.same_dtype(q_nope=q_nope, out=out)
    contract.require(lse.is_contiguous(), "lse", "contiguous", f"strides {tuple(lse.stride())}", "Pass a fresh one.")
    inputs = {"q_nope": q_nope, "q_pe": q_pe, "kv_cache": kv_cache, "page_table": page_table}
    contract.apart("out", out, **inputs, lse=lse)
    contract.apart("lse", lse, **inputs)
    aligned = out.data_ptr() % 16 == 0 and all(stride % 8 == 0 for stride in out.stride()[:2])
    contract.require(aligned, "out", "16-byte aligned in every row", f"strides {tuple(out.stride())}", "Clone it.")
    return MlaDecodeArguments(q_nope, q_pe, kv_cache, page_table, float(sm_scale), out, lse, lse_base)
