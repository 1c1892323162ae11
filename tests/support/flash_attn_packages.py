"""FlashAttention's packages with their real signatures, attending by our reference: for machines without them."""

import math
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from sglab.kernels import flash_attn_varlen_func, flash_attn_with_kvcache
from sglab.kernels.flash_attn import library


def installed_on_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, as if on a Hopper GPU."""
    for package in library.PACKAGES:
        monkeypatch.setitem(sys.modules, package.module, interface(package.module))
    monkeypatch.setitem(sys.modules, "sgl_kernel", ModuleType("sgl_kernel"))
    monkeypatch.setattr(library, "installed", lambda: library.PACKAGES)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)


def interface(module: str) -> ModuleType:
    """A package with the signatures of the real one (flash-attention 01afd16d and 2.8, sgl-kernel 0.4), which attends
    by our reference: an argument that it does not name is an error, as there."""
    made = ModuleType(module)
    if module == "flash_attn":

        def fa2(
            q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
            causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
            return_attn_probs=False, block_table=None,
        ):  # fmt: skip
            paged = {} if block_table is None else {"page_table": block_table, "seqused_k": cu_seqlens_k.diff().int()}
            ends = cu_seqlens_k if block_table is None else None
            out, lse = flash_attn_varlen_func(
                *(q, k, v, cu_seqlens_q, ends, max_seqlen_q, max_seqlen_k),
                **paged,
                softmax_scale=softmax_scale,
                causal=causal,
                window_size=window_size,
                softcap=softcap,
                return_softmax_lse=True,
                implementation="reference",
            )
            return out, lse.nan_to_num(neginf=math.inf), None

        made.flash_attn_varlen_func = fa2
        return made
    sinks_too = module == "sgl_kernel.flash_attn"

    def varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, seqused_k=None,
        softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, v_descale=None,
        window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, deterministic=False,
        sm_margin=0, return_attn_probs=False,
    ):  # fmt: skip
        return flash_attn_varlen_func(
            *(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q, seqused_k, None),
            *(softmax_scale, causal, qv, q_descale, k_descale, v_descale, window_size, attention_chunk, softcap),
            return_softmax_lse=return_attn_probs,
            implementation="reference",
        )

    def kvcache(
        q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
        cache_batch_idx=None, cache_leftpad=None, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
        max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None, v_descale=None, softmax_scale=None,
        causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0, rotary_interleaved=True,
        scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, return_softmax_lse=False,
    ):  # fmt: skip
        return attend(**locals())

    def with_sinks(
        q, k_cache, v_cache, qv=None, cache_seqlens=None, page_table=None, cu_seqlens_q=None, max_seqlen_q=None,
        q_descale=None, k_descale=None, v_descale=None, softmax_scale=None, causal=False, window_size=(-1, -1),
        attention_chunk=None, softcap=0.0, num_splits=0, pack_gqa=None, only_qv=False, return_softmax_lse=False,
        sinks=None, out=None,
    ):  # fmt: skip
        return (*attend(**locals()), None, None)

    def attend(**given: Any) -> Any:
        ours = ("scheduler_metadata", "pack_gqa", "sm_margin", "only_qv", "attend")
        plain = {name: value for name, value in given.items() if name not in ours}
        return flash_attn_with_kvcache(**plain, implementation="reference")

    made.flash_attn_varlen_func, made.flash_attn_with_kvcache = varlen, with_sinks if sinks_too else kvcache
    return made
