"""Decode attention over a paged cache: one query token per request, its keys split for parallelism."""

from __future__ import annotations

import torch

from sglab.kernels.decode_attention import cpu
from sglab.kernels.decode_attention.contract import DecodeArguments, check, split_ranges
from sglab.kernels.fp8 import triton_refuses
from sglab.kernels.registry import CPU, EVERYWHERE, GPU, Implementation, Operator
from sglab.kernels.scoring import Scoring

__all__ = ["decode_attention_fwd", "operator", "split_ranges"]


def _refuses(arguments: DecodeArguments) -> str | None:
    return triton_refuses(arguments, arguments.k_buffer)


operator = Operator(
    "decode_attention_fwd",
    Implementation("triton", "sglab.kernels.decode_attention.triton:run", GPU, _refuses),
    Implementation("cpu", "sglab.kernels.decode_attention.cpu:run", CPU, cpu.refuses),
    Implementation("reference", "sglab.kernels.decode_attention.reference:run", EVERYWHERE),
)


def decode_attention_fwd(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    o: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    attn_logits: torch.Tensor,
    attn_lse: torch.Tensor,
    num_kv_splits: torch.Tensor,
    max_kv_splits: int,
    sm_scale: float,
    logit_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
    xai_temperature_len: int = -1,
    *,
    k_scale: float | torch.Tensor = 1.0,
    v_scale: float | torch.Tensor = 1.0,
    lse: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Two-stage decode attention for MHA, GQA, MQA and MLA: O = softmax(logits) V, one query token per request.

    Stage 1 gives every split of a request its own programs, which leave a normalised partial output and its natural
    LSE; stage 2 merges a request's partials. Request i attends to slots kv_indices[kv_indptr[i] : kv_indptr[i + 1]], so
    any page size works; it is cut into num_kv_splits[i] splits, each a multiple of 32 tokens (see split_ranges).

    Raises ContractError. After SGLang's decode_attention_fwd (Triton backend).

    Args:
        q: (batch, heads, qk_dim) float32, float16 or bfloat16.
        k_buffer: (slots, kv_heads, qk_dim), same dtype, or e4m3 or e5m2; heads is a multiple of kv_heads.
        v_buffer: (slots, kv_heads, v_dim), the dtype of k_buffer. For MLA pass k_buffer[..., :512]: it is then read
            only once.
        o: output (batch, heads, v_dim), same dtype; a request without keys gets 0.
        kv_indptr: (≥ batch + 1,) int32.
        kv_indices: int32 or int64.
        attn_logits: output of stage 1, (≥ batch, heads, max_kv_splits, v_dim) float32; unused splits stay as they are.
        attn_lse: output of stage 1, (≥ batch, heads, max_kv_splits) float32, natural.
        num_kv_splits: (≥ batch,) int32, 1 to max_kv_splits each.
        sm_scale, logit_cap, xai_temperature_len, sinks: see `sglab.kernels.scoring.Scoring`.
        k_scale, v_scale: what the cache's values are multiplied by: numbers, or (kv_heads,) float32. attn_logits
            stays without v_scale, as SGLang has it.
        lse: output (batch, heads) float32, natural, over the keys without the sink; −inf for no keys; None if not
            wanted.
        check_values: also check contents: slots in range, finite keys and values, split counts.
    """
    scoring = Scoring(sm_scale, logit_cap, xai_temperature_len, sinks)
    arguments = DecodeArguments(
        q,
        k_buffer,
        v_buffer,
        o,
        kv_indptr,
        kv_indices,
        attn_logits,
        attn_lse,
        num_kv_splits,
        max_kv_splits,
        scoring,
        lse,
        k_scale,
        v_scale,
    )
    check(arguments, check_values)
    operator(arguments, implementation)
