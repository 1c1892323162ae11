"""Extend attention: new tokens of every request over their cached prefix and themselves."""

from __future__ import annotations

import torch

from sglab.kernels.contract import Contract
from sglab.kernels.extend_attention import cpu
from sglab.kernels.extend_attention.contract import ExtendArguments, Visibility, check
from sglab.kernels.extend_attention.served import ExtendServer
from sglab.kernels.fp8 import triton_refuses
from sglab.kernels.known_calls import checked_once, next_time
from sglab.kernels.registry import CPU, EVERYWHERE, GPU, Implementation, Operator
from sglab.kernels.scoring import Scoring


def _refuses(arguments: ExtendArguments) -> str | None:
    return triton_refuses(arguments, arguments.k_buffer)


operator = Operator(
    "extend_attention_fwd",
    Implementation("triton", "sglab.kernels.extend_attention.triton:run", GPU, _refuses),
    Implementation("cpu", "sglab.kernels.extend_attention.cpu:run", CPU, cpu.refuses),
    Implementation("reference", "sglab.kernels.extend_attention.reference:run", EVERYWHERE),
)


@checked_once
def extend_attention_fwd(
    q_extend: torch.Tensor,
    k_extend: torch.Tensor,
    v_extend: torch.Tensor,
    o_extend: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    custom_mask: torch.Tensor | None,
    is_causal: bool,
    mask_indptr: torch.Tensor | None,
    max_len_extend: int,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    skip_prefix_custom_mask: bool = True,
    sliding_window_size: int = -1,
    sinks: torch.Tensor | None = None,
    window_kv_offsets: torch.Tensor | None = None,
    xai_temperature_len: int = -1,
    *,
    k_scale: float | torch.Tensor = 1.0,
    v_scale: float | torch.Tensor = 1.0,
    lse: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Attention of a ragged batch of new tokens (prefill, chunked prefill, speculation) over a paged prefix.

    Request i's new tokens are rows qo_indptr[i] … qo_indptr[i + 1] − 1 of the *_extend tensors; its prefix is in slots
    kv_indices[kv_indptr[i] : kv_indptr[i + 1]] of the buffers. A new token sees the prefix and, if causal, the new
    tokens up to itself. A query that sees nothing gets O = 0.

    Raises ContractError. After SGLang's extend_attention_fwd (Triton backend).

    Args:
        q_extend: (tokens, heads, qk_dim) float32, float16 or bfloat16.
        k_extend: (tokens, kv_heads, qk_dim).
        v_extend: (tokens, kv_heads, v_dim).
        o_extend: output (tokens, heads, v_dim); all of one dtype.
        k_buffer, v_buffer: (slots, kv_heads, qk_dim) and (slots, kv_heads, v_dim), of this dtype, or e4m3 or e5m2.
        qo_indptr: (batch + 1,) int32.
        kv_indptr: (≥ batch + 1,) int32.
        kv_indices: int32 or int64.
        custom_mask, is_causal, mask_indptr, skip_prefix_custom_mask, sliding_window_size, window_kv_offsets: see
            `sglab.kernels.extend_attention.contract.Visibility`.
        max_len_extend: most new tokens of any request.
        sm_scale, logit_cap, xai_temperature_len, sinks: see `sglab.kernels.scoring.Scoring`; sm_scale defaults to
            qk_dim ** −0.5.
        k_scale, v_scale: what the buffers' values, not those of the new tokens, are multiplied by: numbers, or
            (kv_heads,) float32.
        lse: output (tokens, heads) float32, natural, over the keys without the sink; None if not wanted.
        check_values: also check contents: slots in range, finite keys and values, lengths, the mask's size.
    """
    visibility = Visibility(
        is_causal, custom_mask, mask_indptr, skip_prefix_custom_mask, sliding_window_size, window_kv_offsets
    )
    if sm_scale is None:
        Contract("extend_attention_fwd").tensor("q_extend", q_extend, "tokens heads qk_dim")
        sm_scale = q_extend.shape[-1] ** -0.5
    arguments = ExtendArguments(
        q_extend,
        k_extend,
        v_extend,
        o_extend,
        k_buffer,
        v_buffer,
        qo_indptr,
        kv_indptr,
        kv_indices,
        max_len_extend,
        Scoring(sm_scale, logit_cap, xai_temperature_len, sinks),
        visibility,
        lse,
        k_scale,
        v_scale,
    )
    check(arguments, check_values)
    operator(arguments, implementation)
    next_time(lambda: ExtendServer(arguments, operator.chosen(arguments, implementation)))
