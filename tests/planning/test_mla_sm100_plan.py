"""The plan of our SM100 kernel: splits per request, all resident at once, none longer than it must be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab.planning import PLANNERS, split_ranges
from sglab.planning.mla_sm100 import launch_grid, mla_sm100_plan
from sglab.planning.set_split_kv import MAX_SPLITS

LENGTHS = st.lists(st.integers(0, 200_000), min_size=1, max_size=40)


@given(LENGTHS, st.integers(1, 148))
def test_all_splits_are_resident_at_once_unless_the_requests_alone_are_too_many(lengths: list[int], sms: int) -> None:
    plan = mla_sm100_plan(lengths, sm_count=sms)
    pairs = max(sms // 2, 1)
    longest = max(-(-max(lengths) // 128), 1)
    least = -(-longest // MAX_SPLITS)
    assert plan.units <= pairs or plan.max_splits == 1 or plan.tiles_per_split == least
    assert plan.max_splits == plan.num_splits.max() <= MAX_SPLITS


@given(LENGTHS, st.integers(1, 148))
def test_fewer_tiles_per_split_would_not_fit(lengths: list[int], sms: int) -> None:
    plan = mla_sm100_plan(lengths, sm_count=sms)
    tiles = -(-np.array(lengths) // 128)
    assert (-(-tiles // plan.num_splits) <= plan.tiles_per_split).all()
    if plan.tiles_per_split > max(-(-tiles.max() // MAX_SPLITS), 1) and plan.units <= max(sms // 2, 1):
        finer = np.maximum(-(-tiles // (plan.tiles_per_split - 1)), 1)
        assert finer.sum() > max(sms // 2, 1)


@given(LENGTHS, st.integers(1, 148))
def test_the_kernel_uses_no_more_splits_than_planned(lengths: list[int], sms: int) -> None:
    plan = mla_sm100_plan(lengths, sm_count=sms)
    ranges = split_ranges(lengths, plan.max_splits, plan.num_splits)
    assert (ranges.local_split_kv <= plan.num_splits).all()
    assert (ranges.token_end - ranges.token_start <= 128 * plan.tiles_per_split).all()


def test_examples() -> None:
    """148 SMs: 74 CTA pairs."""
    assert mla_sm100_plan([131_072], sm_count=148).num_splits.tolist() == [74]
    assert mla_sm100_plan([4096] * 80, sm_count=148).num_splits.tolist() == [1] * 80
    mixed = mla_sm100_plan([100, 5000, 200, 8000], sm_count=148)
    assert mixed.num_splits.tolist() == [1, 20, 1, 32] and mixed.tiles_per_split == 2


@pytest.mark.parametrize(
    ("batch", "splits", "persistent", "grid"),
    [
        (4, 18, None, (2, 4, 18)),
        (4, 19, None, (2, 74, 1)),
        (4, 19, False, (2, 4, 19)),
        (4, 2, True, (2, 8, 1)),
    ],
)
def test_grids(batch: int, splits: int, persistent: bool | None, grid: tuple[int, int, int]) -> None:
    assert launch_grid(batch, splits, sm_count=148, persistent=persistent) == grid


def test_a_batch_of_unequal_requests_ends_sooner_than_under_one_split_for_all() -> None:
    lengths = [100, 200, 300, 60_000]
    makespan = {
        name: PLANNERS[name](lengths, num_heads=128, num_kv_heads=1, sm_count=148).makespan
        for name in ("sglab_mla_sm100", "flashinfer_cutlass_mla", "cutlass_mla_individual")
    }
    assert makespan["sglab_mla_sm100"] < makespan["flashinfer_cutlass_mla"] / 2
    assert makespan["sglab_mla_sm100"] < makespan["cutlass_mla_individual"]
