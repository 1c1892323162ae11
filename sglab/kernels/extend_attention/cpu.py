"""Extend attention on the host's vector units: the cached prefix and the new tokens, each read where it lies."""

from __future__ import annotations

from sglab.kernels import cpu_launch as launch
from sglab.kernels.extend_attention.contract import ExtendArguments


def refuses(a: ExtendArguments) -> str | None:
    return launch.refuses(a.q_extend, a.k_extend, a.k_buffer)


def run(a: ExtendArguments) -> tuple[()]:
    call_of(a).run()
    return ()


def call_of(a: ExtendArguments) -> launch.CpuCall:
    visibility, kv_heads = a.visibility, a.k_extend.shape[1]
    new = a.qo_indptr.diff()
    masked = visibility.custom_mask is not None
    cached = launch.KeySource(
        *(a.k_buffer, a.v_buffer, a.kv_indptr[: a.batch + 1].diff()),
        table=a.kv_indices,
        start=a.kv_indptr,
        k_scale=launch.scale_of(a.k_scale, kv_heads),
        v_scale=launch.scale_of(a.v_scale, kv_heads),
    )
    offsets, window = visibility.window_kv_offsets, visibility.sliding_window_size
    left = right = window if window > 0 else launch.UNBOUNDED
    if visibility.is_causal:
        right = launch.UNBOUNDED if masked else 0
    return launch.CpuCall(
        *(a.q_extend, a.o_extend, a.lse, a.qo_indptr, new, cached, a.scoring),
        fresh=launch.KeySource(a.k_extend, a.v_extend, new, first=a.qo_indptr),
        left=left,
        right=right,
        mask=visibility.custom_mask,
        mask_start=visibility.mask_indptr,
        mask_offset=None if offsets is None else offsets[: a.batch],
        mask_spares_cached=visibility.skip_prefix_custom_mask,
    )
