"""The lightning indexer of DeepSeek's sparse attention: which tokens a query should attend to, scored in FP8.

logit(query, key) = Σ over heads of weight · relu(q · k). SGLang quantises q with act_quant and puts its scales into the
weights; a key's scale multiplies its logit, for relu(s · x) = s · relu(x) where s > 0.
"""

from __future__ import annotations

import torch

from sglab.kernels.fp8 import e4m3_triton_refuses
from sglab.kernels.indexer.contract import (
    E4M3,
    check_buffer,
    check_paged,
    check_pages,
    check_quant,
    check_ragged,
    check_slots,
)
from sglab.kernels.indexer.layout import DIM, keys_and_scales, page_bytes
from sglab.kernels.known_calls import checked_once
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = [
    "act_quant",
    "fp8_mqa_logits",
    "fp8_paged_mqa_logits",
    "get_index_k_scale_buffer",
    "page_bytes",
    "page_mqa_logits",
    "set_index_k_scale_buffer",
    "slot_mqa_logits",
]

quant_operator = Operator(
    "act_quant",
    Implementation("triton", "sglab.kernels.indexer.triton:quant", GPU, e4m3_triton_refuses),
    Implementation("reference", "sglab.kernels.indexer.reference:quant", EVERYWHERE),
)
logits_operator = Operator(
    "fp8_mqa_logits",
    Implementation("triton", "sglab.kernels.indexer.triton:logits", GPU, e4m3_triton_refuses),
    Implementation("torch", "sglab.kernels.indexer.reference:logits_float32", EVERYWHERE),
    Implementation("reference", "sglab.kernels.indexer.reference:logits", EVERYWHERE),
)
slot_logits_operator = Operator(
    "slot_mqa_logits",
    Implementation("triton", "sglab.kernels.indexer.triton:logits", GPU, needs_triton),
    Implementation("torch", "sglab.kernels.indexer.reference:slot_logits", EVERYWHERE),
    Implementation("reference", "sglab.kernels.indexer.reference:logits", EVERYWHERE),
)

page_logits_operator = Operator(
    "page_mqa_logits",
    Implementation("triton", "sglab.kernels.indexer.triton:logits", GPU, e4m3_triton_refuses),
    Implementation("torch", "sglab.kernels.indexer.reference:slot_logits", EVERYWHERE),
    Implementation("reference", "sglab.kernels.indexer.reference:logits", EVERYWHERE),
)


def act_quant(
    x: torch.Tensor, block_size: int = 128, scale_fmt: str | None = None, *, implementation: str = "auto"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise to e4m3 with a scale per block of the last dimension: max(largest magnitude, 1e-4) / 448.

    After SGLang's act_quant (DeepSeek-V3.2).

    Args:
        x: (…, dim) float32, float16 or bfloat16.
        block_size: a power of two that divides dim.
        scale_fmt: "ue8m0" rounds scales up to powers of two.

    Returns:
        e4m3 values (…, dim) and float32 scales (…, dim / block_size).

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_quant(x, block_size, scale_fmt)
    quant_operator(arguments, implementation)
    return arguments.out.view(x.shape), arguments.scales.view(*x.shape[:-1], -1)


def set_index_k_scale_buffer(
    buf: torch.Tensor,
    loc: torch.Tensor,
    index_k: torch.Tensor,
    index_k_scale: torch.Tensor,
    page_size: int = 64,
    *,
    check_values: bool | None = None,
) -> None:
    """Write quantised index keys into their cache: keys first in a page, then scales.

    Args:
        buf: (pages, page_size · 132) uint8.
        loc: (tokens,) int32 or int64 slots.
        index_k: (tokens, 128) e4m3; index_k_scale: (tokens,) or (tokens, 1) float32.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    contract = check_buffer("set_index_k_scale_buffer", buf, loc, page_size, check_values)
    contract.tensor("index_k", index_k, f"tokens {DIM}", (E4M3,))
    contract.tensor("index_k_scale", index_k_scale.flatten(), "tokens", (torch.float32,))
    keys, scales = keys_and_scales(buf, page_size)
    page, row = loc.long() // page_size, loc.long() % page_size
    keys.view(torch.uint8)[page, row] = index_k.view(torch.uint8)
    scales[page, row] = index_k_scale.flatten()


def get_index_k_scale_buffer(
    buf: torch.Tensor, loc: torch.Tensor, page_size: int = 64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Index keys (tokens, 128) e4m3 and scales (tokens,) float32 of these slots.

    Raises:
        ContractError: an argument does not fit.
    """
    check_buffer("get_index_k_scale_buffer", buf, loc, page_size)
    keys, scales = keys_and_scales(buf, page_size)
    page, row = loc.long() // page_size, loc.long() % page_size
    return keys.view(torch.uint8)[page, row].view(E4M3), scales[page, row]


@checked_once
def fp8_mqa_logits(
    q: torch.Tensor,
    kv: tuple[torch.Tensor, torch.Tensor],
    weights: torch.Tensor,
    cu_seqlen_ks: torch.Tensor,
    cu_seqlen_ke: torch.Tensor,
    clean_logits: bool = True,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Logits of a ragged batch's queries against keys cu_seqlen_ks[i] … cu_seqlen_ke[i] − 1. After DeepGEMM.

    Args:
        q: (rows, heads, 128) e4m3.
        kv: keys (keys, 128) e4m3 and their scales (keys,) float32.
        weights: (rows, heads) float32, q's scales in them.
        cu_seqlen_ks, cu_seqlen_ke: (rows,) int32.
        clean_logits: −inf for a row's other keys; else those entries may be anything.

    Returns:
        (rows, keys) float32.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_ragged(q, kv, weights, cu_seqlen_ks, cu_seqlen_ke, clean_logits, check_values)
    logits_operator(arguments, implementation)
    return arguments.logits


@checked_once
def fp8_paged_mqa_logits(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
    max_context_len: int,
    clean_logits: bool = False,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Logits against keys in a paged index-K cache. After DeepGEMM, whose schedule_meta ours does without.

    Args:
        q: (batch, next_n, heads, 128) e4m3, next_n queries per request.
        kv_cache: (pages, page_size, 1, 132) uint8, see `sglab.kernels.indexer.layout`.
        weights: (batch · next_n, heads) float32, q's scales in them.
        context_lens: (batch, next_n) int32, keys that each query sees; or (batch,), of the last of a request's.
        block_table: (batch, width) int32.
        max_context_len: width of the result.
        clean_logits: −inf past a row's keys; else those entries may be anything.

    Returns:
        (batch · next_n, max_context_len) float32.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_paged(
        q, kv_cache, weights, context_lens, block_table, max_context_len, clean_logits, check_values
    )
    logits_operator(arguments, implementation)
    return arguments.logits


@checked_once
def slot_mqa_logits(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    weights: torch.Tensor,
    lengths: torch.Tensor,
    page_table_1: torch.Tensor,
    request_of: torch.Tensor | None = None,
    width: int | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Logits against index keys that are kept unquantised, a row per slot of the KV pool; sums are float32.

    Args:
        q: (rows, heads, dim) float32, float16 or bfloat16.
        k_buffer: (slots, dim) of q's dtype.
        weights: (rows, heads) float32.
        lengths: (rows,) int32, keys that each row sees.
        page_table_1: (requests, context) int32, slots.
        request_of: (rows,) int32, whose row of page_table_1 each reads, a request's rows together; None: its own.
        width: of the result; None: context.

    Returns:
        (rows, width) float32; past a row's keys it may hold anything.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_slots(q, k_buffer, weights, lengths, page_table_1, request_of, width, check_values)
    slot_logits_operator(arguments, implementation)
    return arguments.logits


@checked_once
def page_mqa_logits(
    q: torch.Tensor,
    buf: torch.Tensor,
    weights: torch.Tensor,
    lengths: torch.Tensor,
    page_table: torch.Tensor,
    request_of: torch.Tensor | None = None,
    width: int | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Logits against a paged index-K cache, for rows of any request; else as `fp8_paged_mqa_logits`, whose requests all
    have as many rows.

    Args:
        q: (rows, heads, 128) e4m3.
        buf: (pages, page_size · 132) uint8, see `sglab.kernels.indexer.layout`.
        weights: (rows, heads) float32, q's scales in them.
        lengths: (rows,) int32, keys that each row sees.
        page_table: (requests, columns) int32, pages.
        request_of: (rows,) int32, whose row of page_table each reads, a request's rows together; None: its own.
        width: of the result; None: columns · page_size.

    Returns:
        (rows, width) float32; past a row's keys it may hold anything.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_pages(q, buf, weights, lengths, page_table, request_of, width, check_values)
    page_logits_operator(arguments, implementation)
    return arguments.logits
