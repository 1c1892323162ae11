"""SGLang's Triton decode: how many splits, and which tokens they get."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import planning
from sglab.planning.num_kv_splits import MIN_BLOCK_KV, head_blocks, kv_len_per_split

H100 = 132


@pytest.mark.parametrize(
    ("seq_lens", "heads", "expected"),
    [
        ([1024, 512, 2048, 256], (32, 8), [4, 2, 8, 1]),
        ([100, 5000, 200, 8000], (32, 8), [1, 5, 1, 8]),
        ([4096] * 4, (32, 8), [8] * 4),
        ([64] * 32, (32, 32), [1] * 32),
    ],
)
def test_golden_splits(seq_lens: list[int], heads: tuple[int, int], expected: list[int]) -> None:
    splits = planning.get_num_kv_splits(seq_lens, num_head=heads[0], num_kv_head=heads[1], device_core_count=H100)
    assert splits.tolist() == expected


def test_speculation_writes_each_value_once_per_draft_token() -> None:
    splits = planning.get_num_kv_splits([300, 9000], num_head=32, num_kv_head=8, device_core_count=H100, num_group=3)
    assert splits.tolist() == [splits[0]] * 3 + [splits[3]] * 3


def test_other_callers() -> None:
    assert planning.static_num_kv_splits([1, 5000]).tolist() == [8, 8]
    assert planning.deterministic_num_kv_splits([1, 256, 257, 5000]).tolist() == [1, 1, 2, 20]


@given(
    lens=st.lists(st.integers(1, 200_000), min_size=1, max_size=64),
    kv_heads=st.sampled_from([1, 4, 8]),
    group=st.sampled_from([1, 4, 16]),
    max_splits=st.integers(1, 32),
)
def test_splits_stay_in_bounds_and_grow_with_length(
    lens: list[int], kv_heads: int, group: int, max_splits: int
) -> None:
    splits = planning.get_num_kv_splits(
        lens,
        num_head=kv_heads * group,
        num_kv_head=kv_heads,
        device_core_count=H100,
        max_kv_splits=max_splits,
    )
    assert splits.min() >= 1
    assert splits.max() <= max_splits
    assert (np.diff(splits[np.argsort(lens)]) >= 0).all()


@given(length=st.integers(1, 10**6), splits=st.integers(1, 64))
def test_split_length_is_a_multiple_of_32_and_covers(length: int, splits: int) -> None:
    per_split = int(kv_len_per_split([length], [splits])[0])
    assert per_split % MIN_BLOCK_KV == 0
    assert per_split * splits >= length


def test_grid_over_heads() -> None:
    assert head_blocks(32, 32) == 32
    assert head_blocks(32, 8) == 8
    assert head_blocks(128, 1) == 8


def test_a_zero_length_is_refused_rather_than_divided_by() -> None:
    with pytest.raises(ValueError, match=r"seq_lens\[1\]: expected an integer from 1 .*got 0; the kernel would divide"):
        planning.get_num_kv_splits([5, 0], num_head=8, num_kv_head=8, device_core_count=H100)
