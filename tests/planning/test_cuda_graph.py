"""CUDA-graph capture sizes and replay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import planning
from sglab.planning.cuda_graph import piecewise_capture_tokens


def test_decode_sizes() -> None:
    sizes = planning.capture_batch_sizes(640)
    assert sizes[:8] == [1, 2, 4, 8, 12, 16, 24, 32]
    assert sizes[sizes.index(256) :] == [*range(256, 257), *range(272, 512, 16), 512, 544, 576, 608, 640]
    assert planning.capture_batch_sizes(20) == [1, 2, 4, 8, 12, 16]


def test_speculative_sizes() -> None:
    sizes = planning.capture_batch_sizes(304, speculative=True)
    assert sizes[:9] == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert {32, 40, 64, 72, 256, 272, 288, 304} <= set(sizes)
    assert not {33, 36, 68, 264} & set(sizes)


def test_without_padding_every_size_is_captured() -> None:
    assert planning.capture_batch_sizes(5, disable_padding=True) == [1, 2, 3, 4, 5]


def test_capture_goes_from_the_largest_down() -> None:
    assert planning.capture_order([1, 2, 4]) == [4, 2, 1]


def test_a_small_request_pool_limits_the_sizes_and_is_one_of_them() -> None:
    assert planning.limit_to_pool([1, 2, 4, 8, 12, 16], 10) == [1, 2, 4, 8, 10]
    assert planning.limit_to_pool([1, 2, 4], 10) == [1, 2, 4]


@given(max_bs=st.integers(1, 1000), data=st.data())
def test_replay_takes_the_next_captured_size(max_bs: int, data: st.DataObject) -> None:
    sizes = planning.capture_batch_sizes(max_bs)
    raw = data.draw(st.integers(1, sizes[-1]))
    chosen = planning.replay_batch_size(sizes, raw)
    assert chosen in sizes
    assert all(size < raw for size in sizes if size < chosen)
    assert chosen >= raw


def test_a_batch_beyond_the_largest_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="raw_bs: expected at most 12, the largest captured size, got 13"):
        planning.replay_batch_size([1, 2, 4, 8, 12], 13)


def test_piecewise_sizes() -> None:
    assert piecewise_capture_tokens(64) == [4, 8, 12, 16, 20, 24, 28, 32, 48, 64]
    assert piecewise_capture_tokens(5120)[-3:] == [4096, 4608, 5120]
