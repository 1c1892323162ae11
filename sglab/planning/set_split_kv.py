"""How many KV splits the SM100 MLA decode kernel uses when the caller asks for -1.

Sources: CUTLASS 4.7 `examples/77_blackwell_fmha/device/sm100_mla.hpp` (`MLA::set_split_kv`, the same since 3.9;
SGLang's copy agrees), and FlashInfer 0.7.2 `include/flashinfer/attention/blackwell/device/sm100_mla.hpp`, which
budgets clusters instead of SMs because each split occupies a CTA pair.
"""

from __future__ import annotations

from dataclasses import dataclass

from sglab.planning import check
from sglab.planning.arith import ceil_div

TILE_S = 128
"""KV tokens per tile."""
CLUSTER_SIZE = 2
"""CTAs per split: the kernel runs as CTA pairs."""
MAX_SPLITS = 256
"""What the reduction kernel can merge; set_split_kv does not check it."""


@dataclass(frozen=True)
class SplitKVChoice:
    """The chosen split and what it means for the launch.

    `tiles_per_split` = 128-token tiles that a full-length request's split walks; `ctas` = 2 · B · split_kv;
    `waves` = ctas / SMs.
    """

    split_kv: int
    tiles_per_split: int
    ctas: int
    waves: float


def set_split_kv(K: int, B: int, sm_count: int, *, is_fused_reduction: bool = False) -> SplitKVChoice:
    """CUTLASS: a budget of `sm_count / B` splits per request, spread evenly over the tiles.

    K is the page table's width in tokens, not a request's length. With the fused reduction (4.2 and later) the split is
    capped at half the SMs. Without it, CTAs can exceed the SMs: each split is a CTA pair, so the budget counts double.
    """
    K, B, sm_count = _checked(K, B, sm_count)
    split_kv = _wave_aware(K, split_budget(B, sm_count))
    if is_fused_reduction and split_kv > 1:
        split_kv = min(split_kv, sm_count // 2)
    return _launch(split_kv, K, B, sm_count)


def set_split_kv_cluster_aware(K: int, B: int, sm_count: int) -> SplitKVChoice:
    """FlashInfer: a budget of `sm_count / (2 B)` splits per request, since a split takes two SMs."""
    K, B, sm_count = _checked(K, B, sm_count)
    return _launch(_wave_aware(K, split_budget(B, sm_count, CLUSTER_SIZE)), K, B, sm_count)


def fixed_split_kv(split_kv: int, K: int, B: int, sm_count: int) -> SplitKVChoice:
    """A split that the caller chose (>= 1), as SGLang's backend does with num_kv_splits=1."""
    K, B, sm_count = _checked(K, B, sm_count)
    return _launch(check.integer("split_kv", split_kv, minimum=1), K, B, sm_count)


def split_budget(B: int, sm_count: int, sms_per_split: int = 1) -> int:
    """Splits that each of B requests may have, at least 1."""
    return max(1, sm_count // (B * sms_per_split))


def _checked(K: int, B: int, sm_count: int) -> tuple[int, int, int]:
    return (
        check.integer("K", K, minimum=1, remedy="K is the longest sequence the page table can hold, in tokens"),
        check.integer("B", B, minimum=1, remedy="B is the number of requests"),
        check.integer("sm_count", sm_count, minimum=1, remedy="a B200 has 148 SMs"),
    )


def _wave_aware(K: int, splits_per_batch: int) -> int:
    max_splits = ceil_div(K, TILE_S)
    k_waves = ceil_div(max_splits, min(max_splits, splits_per_batch))
    return ceil_div(max_splits, k_waves)


def _launch(split_kv: int, K: int, B: int, sm_count: int) -> SplitKVChoice:
    ctas = CLUSTER_SIZE * B * split_kv
    tiles = ceil_div(K, TILE_S)
    return SplitKVChoice(split_kv, ceil_div(tiles, split_kv), ctas, ctas / sm_count)
