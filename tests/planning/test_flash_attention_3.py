"""FlashAttention-3's splits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import planning
from sglab.planning.fa3_num_splits import should_pack_gqa
from sglab.planning.fa3_tile_size import round_up_headdim, tile_size_fwd_sm90, uses_paged_kv_tma


def test_the_example_of_the_source() -> None:
    """48 tiles on 108 SMs: 2 splits fill 0.89 of a wave, 3 only 0.67 of two."""
    assert planning.num_splits_heuristic(48, 108, 100, 1, 1000, False) == 2


@given(
    tiles=st.integers(1, 3000),
    sms=st.integers(1, 160),
    n_blocks=st.integers(0, 2000),
    causal=st.booleans(),
)
def test_splits_stay_in_bounds(tiles: int, sms: int, n_blocks: int, causal: bool) -> None:
    splits = planning.num_splits_heuristic(tiles, sms, n_blocks, 1, 1000, causal)
    assert 1 <= splits <= max(1, min(128, sms, n_blocks))
    if tiles >= sms or n_blocks <= 4:
        assert splits == 1


def test_a_kv_head_larger_than_l2_is_split_though_the_sms_are_full() -> None:
    assert planning.num_splits_heuristic(1000, 132, 500, 300, 120 * 2**20, False) == 3
    assert planning.num_splits_heuristic(1000, 132, 500, 300, 120 * 2**20, True) == 1


def test_tile_sizes() -> None:
    assert tile_size_fwd_sm90(128, 128) == (128, 176)
    assert tile_size_fwd_sm90(128, 128, paged_kv_non_TMA=True) == (128, 128)
    assert tile_size_fwd_sm90(64, 512) == (64, 64)
    assert tile_size_fwd_sm90(128, 128, element_size=1) == (128, 224)


def test_pages_are_loaded_by_tma_only_for_more_than_one_query_tile() -> None:
    assert not uses_paged_kv_tma(128, 128, 128, 1, 8)
    assert uses_paged_kv_tma(128, 128, 128, 64, 8)


def test_gqa_is_packed_where_it_wastes_fewer_rows() -> None:
    assert should_pack_gqa(True, 4096, 4, 128)
    assert should_pack_gqa(False, 1, 8, 128)
    assert not should_pack_gqa(False, 4096, 8, 128)


def test_head_dims() -> None:
    assert [round_up_headdim(d) for d in (40, 64, 65, 128, 160, 256)] == [64, 64, 96, 128, 192, 256]
    with pytest.raises(ValueError, match="headdim: expected at most 256, got 576"):
        round_up_headdim(576)


@given(lens=st.lists(st.integers(0, 100_000), min_size=1, max_size=100), bound=st.integers(1, 128))
def test_per_request_splits(lens: list[int], bound: int) -> None:
    n_blocks = -(-np.array(lens) // 128)
    ones = np.ones_like(n_blocks)
    varlen = planning.prepare_varlen_num_blocks(ones, n_blocks, num_head=8, num_sm=132, num_splits_static=bound)
    assert sorted(varlen.varlen_batch_idx.tolist()) == list(range(len(lens)))
    assert varlen.num_splits_dynamic.min() >= 1
    assert varlen.num_splits_dynamic.max() <= bound
    per_split = -(-n_blocks[varlen.varlen_batch_idx] // varlen.num_splits_dynamic)
    assert (np.diff(per_split) <= 0).all()


def test_batches_above_992_are_not_split() -> None:
    blocks = np.full(993, 100)
    varlen = planning.prepare_varlen_num_blocks(
        np.ones_like(blocks), blocks, num_head=8, num_sm=132, num_splits_static=16
    )
    assert varlen.num_splits_dynamic.max() == 1
