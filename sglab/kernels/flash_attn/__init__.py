"""FlashAttention's two functions: the semantics of versions 3 and 4, and the sinks of SGLang's build."""

from __future__ import annotations

import torch

from sglab.kernels.contract import reads_values
from sglab.kernels.flash_attn.calls import masking_of, outputs, run, scoring_of
from sglab.kernels.flash_attn.contract import FlashAttnArguments, Masking
from sglab.kernels.flash_attn.kvcache import cache_layout, kvcache_queries, new_tokens
from sglab.kernels.flash_attn.operator import operator
from sglab.kernels.flash_attn.served import KvcacheServer, VarlenServer
from sglab.kernels.known_calls import checked_once, next_time

__all__ = ["Masking", "flash_attn_varlen_func", "flash_attn_with_kvcache", "operator"]

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


@checked_once
def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor | None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    window_size: tuple[int | None, int | None] = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    return_softmax_lse: bool = False,
    sinks: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    *,
    masking: Masking | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Result:
    """Attention over a ragged batch: each request's queries over its own keys. After FlashAttention-3 and 4.

    Masks are bottom-right: query i of s_q stands at p = i + s_k − s_q. A query that sees no key gets O = 0.

    Args:
        q: (tokens, heads, qk_dim) float32, float16 or bfloat16; or e4m3 or e5m2 as k is, with bfloat16 results.
        k, v: (key tokens, kv_heads, dim); with page_table (pages, page_size, kv_heads, dim). The dtype of q, or 8-bit.
        cu_seqlens_q, cu_seqlens_k: (batch + 1,) int32; cu_seqlens_k is None with a page_table.
        max_seqlen_q, max_seqlen_k: longest of them; None for what q and k have room for.
        seqused_q, seqused_k: (batch,) int32: only the first so many of a request count; seqused_k is needed with a
            page_table. Rows of q past seqused_q get 0.
        page_table: (batch, width) int32.
        softmax_scale: qk_dim ** −0.5 by default; with qv (qk_dim + v_dim) ** −0.5.
        causal: a query sees keys up to p.
        qv: (tokens, heads, v_dim), whose product with v adds to the scores: absorbed MLA with its latent as v.
        q_descale, k_descale, v_descale: (batch, kv_heads) float32: what the stored values are multiplied by.
        window_size: (left, right): a query sees keys p − left … p + right; −1 or None for no limit.
        attention_chunk: and of these those of its own chunk of so many tokens; 0 for no chunks.
        softcap: scores become softcap · tanh(score / softcap); 0 for none.
        num_splits: parts that a request's keys are cut into; 1 gives the same bits in every batch, 0 chooses.
        return_softmax_lse: also return the LSE.
        sinks: (heads,) logits that count in the softmax's denominator, and in the LSE.
        out: output (tokens, heads, v_dim); allocated if None.
        masking: in the place of causal, window_size and attention_chunk.
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).

    Returns:
        out, or (out, lse) with lse (heads, tokens) float32, natural; −inf for a query that sees no key.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    name = "flash_attn_varlen_func"
    masking = masking or masking_of(name, causal, window_size, attention_chunk)
    scoring = scoring_of(name, q, qv, softmax_scale, softcap, sinks)
    cache = cache_layout(name, k, v, cu_seqlens_k, seqused_k, page_table)
    made_out = out is None
    out, lse = outputs(name, q, v, out, padded=seqused_q is not None)
    arguments = FlashAttnArguments(
        operator=name,
        q=q,
        qv=qv,
        k=cache.k,
        v=cache.v,
        starts=cu_seqlens_q,
        seqlens_q=seqused_q,
        lens=cache.lengths,
        first=cache.first_key,
        page_table=page_table,
        max_seqlen_q=len(q) if max_seqlen_q is None else max_seqlen_q,
        masking=masking,
        scoring=scoring,
        q_descale=q_descale,
        k_descale=k_descale,
        v_descale=v_descale,
        out=out,
        lse=lse,
        num_splits=num_splits,
        made_out=made_out,
    )
    run(arguments, implementation, check_values)
    plain = made_out and seqused_q is None and masking.prefix_lens is None
    if plain and (cu_seqlens_k is not None or cache.lengths is seqused_k):
        next_time(lambda: VarlenServer(arguments, operator.chosen(arguments, implementation), return_softmax_lse))
    return (out, lse) if return_softmax_lse else out


@checked_once
def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    qv: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    attention_chunk: int | None = None,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    sinks: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    *,
    masking: Masking | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Result:
    """Attention over a KV cache, to which new keys and values may be appended first. After FlashAttention-3.

    Args:
        q: (batch, queries, heads, qk_dim); with cu_seqlens_q (tokens, heads, qk_dim).
        k_cache, v_cache: (cache batch, capacity, kv_heads, dim); with page_table (pages, page_size, kv_heads, dim).
            The dtype of q, or e4m3 or e5m2.
        k, v: (batch, new, kv_heads, dim), or with cu_seqlens_k_new (new tokens, kv_heads, dim); written to the caches
            from cache_seqlens on, in place, before the attention; an 8-bit cache gets them divided by the descales.
        rotary_cos, rotary_sin: (context, rotary_dim / 2): k and q are rotated, k at the positions that it gets, q from
            the first of them on, or all of q there where neither causal nor a window orders the queries.
        cache_seqlens: keys in the cache before k: int, or (batch,) int32; None for the capacity.
        cache_batch_idx: (batch,) int32 rows of a cache that is not paged.
        cache_leftpad: (batch,) int32: a request's first key; only without page_table.
        page_table: (batch, width) int32.
        cu_seqlens_q, max_seqlen_q: of a ragged q.
        rotary_seqlens: (batch,) int32 positions in the place of cache_seqlens.
        rotary_interleaved: pairs are (2 i, 2 i + 1); else (i, i + rotary_dim / 2).
        num_splits: 0 chooses from the capacity; 1 gives the same bits in every batch.
        attention_chunk, softcap, causal, window_size, softmax_scale, qv, q_descale, k_descale, v_descale, sinks, out,
            masking, check_values: as for flash_attn_varlen_func.

    Returns:
        out in q's shape, or (out, lse) with lse (batch, heads, queries) float32, for a ragged q (heads, tokens).

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    name = "flash_attn_with_kvcache"
    masking = masking or masking_of(name, causal, window_size, attention_chunk or 0)
    queries = kvcache_queries(name, q, qv, cu_seqlens_q, max_seqlen_q, out)
    cache = cache_layout(
        *(name, k_cache, v_cache, None, cache_seqlens, page_table, queries.batch, cache_batch_idx, cache_leftpad)
    )
    scoring = scoring_of(name, queries.q, queries.qv, softmax_scale, softcap, sinks)
    made_out = out is None
    out, lse = outputs(name, queries.q, v_cache, queries.out, padded=False)
    new = new_tokens(
        *(name, queries, cache, k, v, cu_seqlens_k_new, rotary_cos, rotary_sin, rotary_seqlens, rotary_interleaved),
        *(masking, k_descale, v_descale, reads_values(check_values, queries.q.device)),
    )
    arguments = FlashAttnArguments(
        operator=name,
        q=new.q,
        qv=queries.qv,
        k=cache.k,
        v=cache.v,
        starts=queries.starts,
        seqlens_q=None,
        lens=new.lengths,
        first=cache.first_key,
        page_table=cache.page_table,
        max_seqlen_q=queries.longest,
        masking=masking,
        scoring=scoring,
        q_descale=q_descale,
        k_descale=k_descale,
        v_descale=v_descale,
        out=out,
        lse=lse,
        num_splits=num_splits,
        made_out=made_out,
        new_keys=new.each,
    )
    run(arguments, implementation, check_values, new.append, cache.lengths)
    if k is None or new.arguments is not None:
        plain = (qv, rotary_cos, cache_batch_idx, cache_leftpad, masking.prefix_lens)
        if made_out and cache.lengths is cache_seqlens and all(one is None for one in plain):
            next_time(
                lambda: KvcacheServer(
                    *(arguments, operator.chosen(arguments, implementation), new.arguments, return_softmax_lse)
                )
            )
    if cu_seqlens_q is None:
        batch, count, heads, _ = q.shape
        out = out.view(batch, count, heads, -1)
        lse = lse.view(heads, batch, count).transpose(0, 1).contiguous() if return_softmax_lse else lse
    return (out, lse) if return_softmax_lse else out
