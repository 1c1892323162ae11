"""set_split_kv, the tile schedulers and the workspace of the SM100 MLA decode kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import planning
from sglab.planning.set_split_kv import TILE_S

B200 = 148


@pytest.mark.parametrize(
    ("B", "K", "upstream", "cluster_aware"),
    [
        (1, 4096, (32, 64, 0.43), (32, 64, 0.43)),
        (4, 8192, (32, 256, 1.73), (16, 128, 0.86)),
        (8, 1024, (8, 128, 0.86), (8, 128, 0.86)),
        (32, 4096, (4, 256, 1.73), (2, 128, 0.86)),
        (1, 131072, (147, 294, 1.99), (74, 148, 1.00)),
        (64, 8192, (2, 256, 1.73), (1, 128, 0.86)),
    ],
)
def test_golden_splits_on_b200(
    B: int, K: int, upstream: tuple[int, int, float], cluster_aware: tuple[int, int, float]
) -> None:
    for choose, expected in ((planning.set_split_kv, upstream), (planning.set_split_kv_cluster_aware, cluster_aware)):
        split = choose(K, B, B200)
        assert (split.split_kv, split.ctas, round(split.waves, 2)) == expected


def test_32_splits_of_4_requests_are_not_one_wave_on_an_h100() -> None:
    """A split is a CTA pair: 256 CTAs are 1.94 waves on 132 SMs."""
    split = planning.fixed_split_kv(32, 8192, 4, 132)
    assert (split.ctas, round(split.waves, 2)) == (256, 1.94)


def test_the_fused_reduction_caps_splits_at_half_the_sms() -> None:
    assert planning.set_split_kv(131072, 1, B200).split_kv == 147
    assert planning.set_split_kv(131072, 1, B200, is_fused_reduction=True).split_kv == 74


@given(K=st.integers(1, 10**6), B=st.integers(1, 512), sms=st.integers(2, 300))
def test_splits_cover_all_tiles_and_none_is_empty_by_more_than_rounding(K: int, B: int, sms: int) -> None:
    tiles = -(-K // TILE_S)
    for choose in (planning.set_split_kv, planning.set_split_kv_cluster_aware):
        split = choose(K, B, sms)
        assert 1 <= split.split_kv <= tiles
        assert (split.split_kv - 1) * split.tiles_per_split < tiles <= split.split_kv * split.tiles_per_split
    if sms >= 2 * B:
        assert planning.set_split_kv_cluster_aware(K, B, sms).waves <= 1


@given(lens=st.lists(st.integers(0, 20000), min_size=1, max_size=40), split_kv=st.integers(1, 64))
def test_split_ranges_cover_every_token_once(lens: list[int], split_kv: int) -> None:
    ranges = planning.split_ranges(lens, split_kv)
    for start, end, used, length in zip(ranges.token_start, ranges.token_end, ranges.local_split_kv, lens, strict=True):
        covered = np.concatenate([np.arange(a, b) for a, b in zip(start, end, strict=True)])
        assert np.array_equal(covered, np.arange(length))
        assert np.count_nonzero(end > start) == used


def test_a_floor_split_would_lose_the_remainder() -> None:
    """1000 tokens in 3 splits: tiles are dealt out by rounding up (384, 384, 232), not 333 tokens each."""
    ranges = planning.split_ranges([1000], 3)
    assert (ranges.token_end - ranges.token_start).tolist() == [[384, 384, 232]]


def test_ptr_split_kv_limits_each_request() -> None:
    assert planning.split_ranges([8192, 8192], 8, ptr_split_kv=[8, 1]).local_split_kv.tolist() == [8, 1]


def test_individual_grid_has_the_cluster_first() -> None:
    assert planning.individual_schedule(32, 4).grid == (2, 32, 4)
    assert planning.individual_schedule(8, 4).cta.size == 64


@pytest.mark.parametrize(("order", "second"), [("m_split_b", (0, 1)), ("m_b_split", (1, 0))])
def test_persistent_orders(order: str, second: tuple[int, int]) -> None:
    """Tile 2 is the second cluster's: the next split from 4.2 on, the next request before it."""
    schedule = planning.persistent_schedule(64, 4, B200, order=order)
    assert schedule.m_block.size == 512
    assert schedule.grid == (148, 1, 1)
    assert (int(schedule.batch[2]), int(schedule.split[2])) == second


@given(B=st.integers(1, 40), split=st.integers(1, 40), clusters=st.integers(1, 80))
def test_schedules_visit_every_tile_once(B: int, split: int, clusters: int) -> None:
    schedules = [planning.individual_schedule(B, split)]
    schedules += [
        planning.persistent_schedule(B, split, 2 * clusters, order=order) for order in ("m_split_b", "m_b_split")
    ]
    for schedule in schedules:
        tiles = set(zip(schedule.m_block.tolist(), schedule.batch.tolist(), schedule.split.tolist(), strict=True))
        assert tiles == {(m, b, s) for m in range(2) for b in range(B) for s in range(split)}
        assert schedule.m_block.size == 2 * B * split
        assert np.array_equal(schedule.cta % 2, schedule.m_block)  # a pair never splits up


def test_persistent_ctas_need_pairs_of_sms() -> None:
    with pytest.raises(ValueError, match=r"sm_count: expected an even number.*got 131; use 130"):
        planning.persistent_schedule(4, 4, 131)


def test_workspace_bytes() -> None:
    assert planning.cutlass_workspace_size(4, 8) == 8_404_992
    assert planning.cutlass_workspace_size(4, 32) == 33_619_968
    assert planning.cutlass_workspace_size(1, 8) == 0
    assert planning.cutlass_workspace_size(4, 8, is_fused_reduction=True) == 128 * 8 * 8 + 8 * 8


def test_the_copies_ask_for_workspace_at_split_1() -> None:
    """SGLang passes num_kv_splits=1 and allocates 2.10 MB at batch 8, 16.8 MB at batch 64, unused."""
    assert planning.cutlass_mla_get_workspace_size(8192, 8) == 2_101_248
    assert planning.cutlass_mla_get_workspace_size(8192, 64) == 16_809_984
    assert planning.cutlass_mla_get_workspace_size(8192, 4, B200, -1) == planning.copied_workspace_size(32, 4)
