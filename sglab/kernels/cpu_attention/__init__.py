"""Attention on the host under SGLang's names for CPUs; `sglab.kernels.cpu_launch` is what they and others call."""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.kernels.contract import Contract, reads_values
from sglab.kernels.cpu_attention import cpu
from sglab.kernels.cpu_attention.contract import CpuAttentionArguments, check
from sglab.kernels.cpu_attention.served import DecodeServer
from sglab.kernels.known_calls import checked_once, next_time
from sglab.kernels.registry import CPU, Implementation, Operator
from sglab.kernels.scoring import Scoring

__all__ = ["decode_attention_cpu", "decode_operator", "extend_attention_cpu", "extend_operator"]


def _operator(name: str) -> Operator:
    return Operator(
        name,
        Implementation("cpu", "sglab.kernels.cpu_attention.cpu:run", CPU, cpu.refuses),
        Implementation("reference", "sglab.kernels.cpu_attention.reference:run", CPU),
    )


decode_operator, extend_operator = _operator("decode_attention_cpu"), _operator("extend_attention_cpu")


@checked_once
def decode_attention_cpu(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    output: torch.Tensor,
    key: torch.Tensor | None,
    value: torch.Tensor | None,
    loc: torch.Tensor | None,
    attn_logits: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    sm_scale: float,
    logit_cap: float = 0.0,
    is_cross_attn: bool = False,
    sliding_window: int = 0,
    encoder_lens: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    *,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Write the new tokens' rows into the pool, then attend with one query per request. After SGLang's operator.

    A request's keys are cut into as many splits as attn_logits has, of ceil(length / splits) keys each. SGLang merges
    them in the first split's place; here every split's result stays.

    Args:
        q: (batch, heads, qk_dim) float32, float16 or bfloat16.
        k_buffer, v_buffer: (slots, kv_heads, qk_dim) and (slots, kv_heads, v_dim), of q's dtype, e4m3 or e5m2. For
            absorbed MLA pass k_buffer[..., :512] as v_buffer.
        output: (batch, heads, v_dim) of q's dtype.
        key, value: (batch, kv_heads, dim), written to slots `loc`; None: they are there. The value of MLA is its key's
            front and is not written apart.
        loc: (batch,) int64.
        attn_logits: output (batch, heads, splits, v_dim + 1) float32: normalised results and natural LSEs; 0 and −inf
            of splits without keys.
        req_to_token: (requests, width) int32 slots; req_pool_indices: (batch,) int64 its rows.
        seq_lens: (batch,) keys of each request, the new one included.
        is_cross_attn: the encoder's keys: the first encoder_lens[i] slots; others come after those.
        sliding_window: how many keys a query sees, itself included; 0 for all.
        sinks: (heads,) logits that count in the denominator alone.
        k_scale, v_scale: what 8-bit buffers' keys and values are multiplied by. Give key and value only to buffers of
            their dtype: store them before otherwise.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    name, batch = "decode_attention_cpu", len(seq_lens)
    contract = Contract(name)
    lengths, first = _own_keys(contract, seq_lens, encoder_lens, is_cross_attn)
    one = torch.ones_like(lengths)
    arguments = CpuAttentionArguments(
        *(name, q, None, None, output, k_buffer, v_buffer, attn_logits, req_to_token, req_pool_indices),
        *(lengths, first, one, torch.arange(batch), Scoring(sm_scale, logit_cap, sinks=sinks), sliding_window),
        causal=not is_cross_attn,
        k_scale=k_scale,
        v_scale=v_scale,
    )
    if key is None or value is None:
        check(arguments, check_values)
    else:
        check(replace(arguments, k_new=key, v_new=value), check_values)  # what the buffers will hold, bar these
        _store(contract, arguments, key, value, loc)
    decode_operator(arguments, implementation)
    if key is None or value is None:
        next_time(lambda: DecodeServer(arguments, decode_operator.chosen(arguments, implementation)))


@checked_once
def extend_attention_cpu(
    q_extend: torch.Tensor,
    k_extend: torch.Tensor | None,
    v_extend: torch.Tensor | None,
    o_extend: torch.Tensor,
    k_buffer: torch.Tensor,
    v_buffer: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    extend_start_loc: torch.Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float = 0.0,
    is_cross_attn: bool = False,
    sliding_window: int = 0,
    encoder_lens: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    *,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    tree_mask: torch.Tensor | None = None,
    is_causal: bool = True,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Attention of new tokens over a cached prefix and themselves. After SGLang's operator.

    Args:
        q_extend, o_extend: (tokens, heads, dim); k_extend, v_extend: (tokens, kv_heads, dim); of one dtype. None for
            k_extend and v_extend: the new tokens' rows are read from the buffers, as in cross-attention.
        seq_lens: (batch,) keys of each request, prefix and new tokens.
        extend_seq_lens, extend_start_loc: (batch,) new tokens of each request, and their first row.
        max_len_extend: most new tokens of a request.
        k_buffer, v_buffer, req_to_token, req_pool_indices, is_cross_attn, sliding_window, encoder_lens, sinks: as for
            decode_attention_cpu; k_scale, v_scale, too: they are the buffers', not those of k_extend and v_extend.
        tree_mask: flat bool or uint8: of each request in turn (extend_seq_lens[i], seq_lens[i]), which keys a new token
            may see of those that come no later: a tree of drafts, each of which sees its ancestors.
        is_causal: a new token sees those up to itself; otherwise all of its request's. A window then only looks back.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    name = "extend_attention_cpu"
    contract = Contract(name)
    lengths, first = _own_keys(contract, seq_lens, encoder_lens, is_cross_attn)
    apart = k_extend is not None and not is_cross_attn
    arguments = CpuAttentionArguments(
        *(name, q_extend, k_extend if apart else None, v_extend if apart else None, o_extend, k_buffer, v_buffer, None),
        *(req_to_token, req_pool_indices, lengths, first, extend_seq_lens, extend_start_loc),
        *(Scoring(sm_scale, logit_cap, sinks=sinks), sliding_window),
        causal=is_causal and not is_cross_attn,
        k_scale=k_scale,
        v_scale=v_scale,
        mask=tree_mask,
    )
    check(arguments, check_values)
    if reads_values(check_values, q_extend.device):
        longest = int(extend_seq_lens.max()) if len(extend_seq_lens) else 0
        remedy = f"Pass {longest}."
        contract.require(max_len_extend >= longest, "max_len_extend", "the most new tokens", max_len_extend, remedy)
    extend_operator(arguments, implementation)


def _own_keys(
    contract: Contract, seq_lens: torch.Tensor, encoder_lens: torch.Tensor | None, is_cross_attn: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """How many keys each request has, and where in its row of req_to_token they start."""
    contract.tensor("seq_lens", seq_lens, "batch", (torch.int32, torch.int64))
    if not is_cross_attn:
        return seq_lens, encoder_lens
    remedy = "Pass the encoder's lengths."
    contract.require(encoder_lens is not None, "encoder_lens", "given in cross-attention", None, remedy)
    assert encoder_lens is not None
    return encoder_lens, None


def _store(
    contract: Contract, a: CpuAttentionArguments, key: torch.Tensor, value: torch.Tensor, loc: torch.Tensor | None
) -> None:
    """The new tokens' rows, into the slots that `loc` names."""
    contract.fix("batch", len(a.lengths), "seq_lens")
    contract.tensor("loc", loc, "batch", (torch.int64,))
    contract.same_dtype(k_buffer=a.k_buffer, key=key, value=value)
    assert loc is not None
    slots = len(a.k_buffer)
    expected = f"slots from 0 to {slots - 1}"
    contract.elements("loc", (loc >= 0) & (loc < slots), expected, loc, "Take them from the allocator.")
    shared = a.k_buffer.data_ptr() == a.v_buffer.data_ptr()
    a.k_buffer[loc] = key
    if not shared:
        a.v_buffer[loc] = value
