"""MLA decode under the contract of FlashMLA's dense kernel for Hopper.

FlashMLA has had two interfaces to its plan, and both work here. Before 2026, and as SGLang calls it, get_mla_metadata
takes the lengths and returns the plan's two tensors. Since 2026 it takes nothing and returns an empty
`FlashMLASchedMeta` (and None), which the first call of flash_mla_with_kvcache fills.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import overload

import torch

from sglab.gpu.architecture import H100_SMS
from sglab.kernels import devices
from sglab.kernels.flash_mla import library, sm90, sm100
from sglab.kernels.flash_mla.contract import PAGE_SIZE, check, check_metadata_arguments, new_outputs
from sglab.kernels.flash_mla.forms import check_cache_form, check_dense_form, extra_keys
from sglab.kernels.flash_mla.fp8 import dense_fp8
from sglab.kernels.flash_mla.schedule import FlashMLASchedMeta
from sglab.kernels.known_calls import checked_once, next_time
from sglab.kernels.mla import device_plan
from sglab.kernels.recipe import cooked, known, remember, serves, shaped
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator
from sglab.kernels.sparse_mla import sparse_decode
from sglab.kernels.sparse_mla.contract import Keys
from sglab.kernels.streams import stream
from sglab.planning import flash_mla as planner

__all__ = ["PAGE_SIZE", "FlashMLASchedMeta", "flash_mla_with_kvcache", "get_mla_metadata", "operator"]

operator = Operator(
    "flash_mla_with_kvcache",
    Implementation("sglab", "sglab.kernels.flash_mla.sm90:run", EVERYWHERE, sm90.refuses, sm90.steps),
    Implementation("sglab_sm100", "sglab.kernels.flash_mla.sm100:run", GPU, sm100.refuses),
    Implementation("flash_mla", "sglab.kernels.flash_mla.library:run", frozenset(), library.refuses),
    Implementation("reference", "sglab.kernels.flash_mla.reference:run", EVERYWHERE),
)


@overload
def get_mla_metadata() -> tuple[FlashMLASchedMeta, None]: ...


@overload
def get_mla_metadata(
    cache_seqlens: torch.Tensor, num_heads_per_head_k: int, num_heads_k: int = 1, *, sm_count: int = 0
) -> tuple[torch.Tensor, torch.Tensor]: ...


@checked_once
def get_mla_metadata(
    cache_seqlens: torch.Tensor | None = None,
    num_heads_per_head_k: int | None = None,
    num_heads_k: int = 1,
    *,
    sm_count: int = 0,
) -> tuple[torch.Tensor, torch.Tensor] | tuple[FlashMLASchedMeta, None]:
    """Deal the requests' blocks of 64 tokens out to the SMs, for flash_mla_with_kvcache.

    Returns tile_scheduler_metadata (parts, 8) and num_splits (batch + 1,), int32, where cache_seqlens is. Raises
    ContractError. After FlashMLA's function of this name, in its form before 2026, which SGLang calls; without
    arguments, as since 2026, it returns an empty FlashMLASchedMeta and None.

    Args:
        cache_seqlens: (batch,) int32. On a GPU a kernel reads them, and nothing waits.
        num_heads_per_head_k: query rows per KV head: query tokens · heads / num_heads_k.
        num_heads_k: 1 for MLA.
        sm_count: streaming multiprocessors; 0 asks the GPU that cache_seqlens is on, or for the CPU takes an H100's
            132.
    """
    if cache_seqlens is None and num_heads_per_head_k is None:
        return FlashMLASchedMeta(), None
    if cache_seqlens is None or num_heads_per_head_k is None:
        missing = "cache_seqlens" if cache_seqlens is None else "num_heads_per_head_k"
        raise TypeError(f"get_mla_metadata: {missing} is missing; pass lengths and heads, or neither for a lazy plan")
    check_metadata_arguments(cache_seqlens, num_heads_per_head_k, num_heads_k)
    place = cache_seqlens.device
    if sm_count == 0:
        sm_count = devices.sm_count(place) if place.type == "cuda" else H100_SMS
    heads = {"h_q": num_heads_per_head_k * num_heads_k, "h_k": num_heads_k}
    if place.type == "cuda" and len(cache_seqlens) and not devices.refuses_ptx(device_plan.MODULE, place):
        device = devices.device_of(place)
        parts = planner.num_sm_parts(**heads, sm_count=sm_count)

        def planned(cache_seqlens: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor, torch.Tensor]:
            launch, there = device_plan.metadata_elsewhere(device, cache_seqlens, parts)
            device.run(launch)
            return there.tile_scheduler_metadata, there.num_splits

        next_time(lambda: planned)
        return planned(cache_seqlens)
    made = planner.get_mla_metadata(cache_seqlens.tolist(), **heads, sm_count=sm_count)
    metadata, num_splits = torch.from_numpy(made.tile_scheduler_metadata), torch.from_numpy(made.num_splits)
    return metadata.to(place), num_splits.to(place)


def flash_mla_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    block_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    head_dim_v: int,
    tile_scheduler_metadata: torch.Tensor | FlashMLASchedMeta,
    num_splits: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    is_fp8_kvcache: bool = False,
    indices: torch.Tensor | None = None,
    attn_sink: torch.Tensor | None = None,
    extra_k_cache: torch.Tensor | None = None,
    extra_indices_in_kvcache: torch.Tensor | None = None,
    topk_length: torch.Tensor | None = None,
    extra_topk_length: torch.Tensor | None = None,
    descale_q: torch.Tensor | None = None,
    descale_k: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Absorbed MLA decode: every head attends to one shared KV head of 576 dims, whose first 512 are also the value.

    Returns O (batch, query tokens, heads, 512) and the natural LSE (batch, heads, query tokens) float32. Raises
    ContractError. After FlashMLA's function of this name.

    With `indices` each query attends to the slots that it names (sparse); block_table, cache_seqlens and the metadata
    are then not read, and a query without a key has O = 0 and LSE = +inf.

    Args:
        q: (batch, query tokens, heads, 576) float16 or bfloat16.
        k_cache: (pages, 64, 1, 576), same dtype. With is_fp8_kvcache float8_e4m3fn of this shape; with indices beside
            it, 656-byte records (pages, page_size, 1, 656), see quantize_k_cache.
        block_table: (batch, width) int32, page numbers; entries past a request's last page are not read.
        cache_seqlens: (batch,) int32, KV tokens, the query tokens included; 0 gives O = 0 and LSE = −inf.
        head_dim_v: 512.
        tile_scheduler_metadata, num_splits: from get_mla_metadata for these very lengths and heads; or a
            FlashMLASchedMeta and None.
        softmax_scale: for MLA (qk_nope_head_dim + qk_rope_head_dim) ** −0.5 times YaRN's factor; None takes 576 **
            −0.5, as FlashMLA does, which is wrong for absorbed MLA.
        causal: whether query token i of n sees all but the last n − 1 − i tokens; if that is none, O = 0 and LSE =
            −inf.
        is_fp8_kvcache: the cache is 8-bit.
        indices: (batch, query tokens, topk) int32: page · page_size + row; negative ones count for nothing.
        attn_sink: (heads,) float32, with indices: O is multiplied by 1 / (1 + exp(sink − LSE)); the LSE is not changed.
        extra_k_cache: with indices, a second cache (pages, page_size, 1, as k_cache), pages of a size of its own:
            its keys that extra_indices_in_kvcache (batch, query tokens, topk) name join the same softmax.
        topk_length, extra_topk_length: (batch,) int32, with indices: only so many of a request's indices count.
        descale_q, descale_k: (1,) float32, without indices: what 8-bit values are multiplied by; q is e4m3 then, and O
            bfloat16, or q is not 8-bit.
        implementation: "auto", "sglab" (our kernel for Hopper, which follows the metadata), "sglab_sm100" (ours for
            Blackwell, which splits on its own), "flash_mla" (the library's kernel, where it is installed on a Hopper
            GPU; it plans on its own) or "reference". For CPU tensors our kernels run on the emulator.
        check_values: also check contents: lengths, page numbers, and that the metadata covers every token.
    """
    if indices is not None:
        check_cache_form(k_cache, is_fp8_kvcache, descale_q, descale_k)
        extra = extra_keys(k_cache, extra_k_cache, extra_indices_in_kvcache, extra_topk_length)
        keys, scoring = Keys(k_cache, indices, topk_length), (softmax_scale, attn_sink)
        return sparse_decode(q, keys, extra, head_dim_v, *scoring, implementation, check_values)
    sparse_only = {
        "attn_sink": attn_sink,
        "extra_k_cache": extra_k_cache,
        "extra_indices_in_kvcache": extra_indices_in_kvcache,
        "topk_length": topk_length,
        "extra_topk_length": extra_topk_length,
    }
    check_dense_form(k_cache, is_fp8_kvcache, sparse_only)
    if is_fp8_kvcache:
        scales = (descale_q, descale_k, implementation, check_values)
        return dense_fp8(q, k_cache, block_table, cache_seqlens, head_dim_v, softmax_scale, causal, *scales)
    if isinstance(tile_scheduler_metadata, FlashMLASchedMeta):
        rows, lens = q.shape[1] * q.shape[2] if q.ndim == 4 else 0, cache_seqlens
        plan = tile_scheduler_metadata.plan(q, k_cache, causal, lambda: get_mla_metadata(lens, rows, 1))
    elif num_splits is None:
        raise TypeError("flash_mla_with_kvcache: num_splits is missing; pass both results of get_mla_metadata")
    else:
        plan = tile_scheduler_metadata, num_splits
    tensors = (q, k_cache, block_table, cache_seqlens, *plan)
    call: Hashable = None
    if serves(q, check_values):
        device = devices.hopper_of(q.device)
        options = (head_dim_v, softmax_scale, causal, implementation, stream(q.device))
        call = ("flash_mla_with_kvcache", shaped(*tensors), options)
        if (served := known(device, call)) is not None:
            outputs = new_outputs(q)
            served.serve((*tensors, *outputs))
            return outputs
    arguments = check(*tensors, head_dim_v, softmax_scale, causal, check_values)
    outputs = (arguments.out, arguments.lse)
    recipe = cooked(operator, arguments, implementation) if sm90.reusable(arguments) else None
    if recipe is None:
        operator(arguments, implementation)
        return outputs
    if call is not None:
        remember(device, [call], recipe, (*tensors, *outputs))
    recipe.run()
    return outputs
