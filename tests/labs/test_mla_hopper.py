"""The questions of notebook 13 know their answers."""

import math

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.events.log import EventLog
from sglab.labs import mla_hopper as lab

LENGTHS = [300, 1000, 77]


@pytest.fixture(scope="module")
def log() -> EventLog:
    batch = sglab.decode_batch(seq_lens=LENGTHS, num_heads=128, page_size=64, dtype="bfloat16", seed=0)
    return lab.record_unsplit(batch)


def test_of_the_recorded_launch(log: EventLog) -> None:
    assert lab.loading_warp(log).answer() == 8
    assert lab.cache_read(log, LENGTHS).check(2).right is True


@pytest.mark.parametrize("heads", [16, 64])
def test_heads_are_padded_to_64(heads: int) -> None:
    assert lab.useful_on_hopper(heads).answer() == heads / 64


def test_of_plans() -> None:
    call = lab.Call(LENGTHS, num_heads=128)
    assert lab.splits_of(call.metadata[1], request=1).answer() == 16
    assert lab.busiest(["flash_mla", "sglab_mla_sm90"], [30000] + [500] * 20).answer() == [12, 11]


@pytest.mark.parametrize(("page_size", "copies"), [(16, 4), (32, 2), (64, 1), (128, 1)])
def test_a_box_stays_in_its_page(page_size: int, copies: int) -> None:
    boxes = lab.tma_boxes(page_size)
    assert lab.copies_per_chunk(page_size).answer() == copies == len(boxes)
    assert sum(rows for *_, rows in boxes) == 64
    assert len({page for _, _, page, _ in boxes}) == copies


def test_cp_async_takes_addresses() -> None:
    """A warp: 32 lanes of 16 bytes, two rows of 256."""
    assert [nbytes for *_, nbytes in lab.cp_async_rows()] == [512] * 4
    assert all(row in range(0, 16, 2) for _, row, _ in lab.cp_async_rows())


def test_of_the_last_tile_and_of_merges() -> None:
    assert lab.rows_without_token(77).answer() == 51 and lab.rows_without_token(128).answer() == 0
    assert lab.merged_lse([1.0, 2.0, -math.inf]).check(math.log2(6)).right is True
    assert lab.merged_lse([-math.inf] * 3).answer() == -math.inf


@pytest.mark.parametrize("token", [0, 3])
def test_what_a_query_token_sees(token: int) -> None:
    assert lab.seen_by(seq_len=77, query_tokens=4, token=token).answer() == 74 + token


@pytest.mark.parametrize("lengths", [LENGTHS, [0, 1, 64, 65, 500]])
def test_calls_are_right(lengths: list[int]) -> None:
    call = lab.Call(lengths)
    out, lse = call.run()
    for request, length in enumerate(lengths):
        if length:
            torch.testing.assert_close(out[request, 0].double(), call.exact(request, 0, length), atol=1e-2, rtol=1e-2)
        else:
            assert not out[request].any() and (lse[request] == -math.inf).all()
