"""Tile sizes of FlashAttention-3 on Hopper.

Source: flash-attention 2026-08 (0251105a) `hopper/tile_size.h` (`tile_size_fwd_sm90`), `hopper/flash_api.cpp`
(`round_up_headdim`, `get_pagedkv_tma`).
"""

from __future__ import annotations

from sglab.planning import check

HEADDIMS = (64, 96, 128, 192, 256)


def round_up_headdim(headdim: int) -> int:
    """The kernel's head dim: 64, 96, 128, 192 or 256."""
    headdim = check.integer("headdim", headdim, minimum=1)
    for rounded in HEADDIMS:
        if headdim <= rounded:
            return rounded
    raise check.fail("headdim", "at most 256", headdim, "absorbed MLA passes its 64 rope dims here, 512 as headdim_v")


def tile_size_fwd_sm90(
    headdim: int,
    headdim_v: int,
    *,
    is_causal: bool = False,
    is_local: bool = False,
    element_size: int = 2,
    v_colmajor: bool = False,
    paged_kv_non_TMA: bool = False,
    softcap: bool = False,
) -> tuple[int, int]:
    """(kBlockM, kBlockN): query rows and KV tokens per tile, for rounded head dims and 1- or 2-byte elements."""
    if element_size == 1:
        return _tile_size_fp8(headdim, is_local, v_colmajor, paged_kv_non_TMA, softcap)
    narrow = is_causal or is_local or paged_kv_non_TMA
    if headdim <= 64:
        if headdim_v == 512:
            return 64, 64
        if headdim_v == 256:
            return 128, 96
        return 192, 128 if narrow else 192
    if headdim <= 96:
        return 192, 128 if is_local or paged_kv_non_TMA else 144
    if headdim <= 128:
        return 128, 128 if narrow else 176
    if headdim <= 192:
        return 128, 96 if paged_kv_non_TMA or is_local else 128 if headdim_v <= 128 else 112
    return 128, 64 if is_local else 80


def _tile_size_fp8(
    headdim: int, is_local: bool, v_colmajor: bool, paged_kv_non_TMA: bool, softcap: bool
) -> tuple[int, int]:
    if headdim <= 64:
        return 192, 160
    if headdim <= 96:
        return 192, 128
    if headdim <= 128:
        return 128, 160 if paged_kv_non_TMA else 192 if v_colmajor or (softcap and is_local) else 224
    if headdim <= 192:
        return 128, 128 if (paged_kv_non_TMA or softcap) and is_local else 160
    return 128, 64 if is_local else 128


def uses_paged_kv_tma(page_size: int, block_m: int, block_n: int, seqlen_q: int, qhead_per_khead: int) -> bool:
    """Whether pages are loaded by TMA: pages hold whole tiles, and there is more than one tile of queries."""
    return page_size % block_n == 0 and seqlen_q * qhead_per_khead > block_m
