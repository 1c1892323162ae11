"""PagePool: what the widget says about pages, against the batch's own account."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import sglab
from sglab.workbench.recorders.page_pool import CACHED, DUMMY, FREE, read_pool

SMALL = {"kv_lora_rank": 16, "qk_rope_head_dim": 16, "num_heads": 16, "page_size": 16}


def test_every_page_has_one_status() -> None:
    batch = sglab.decode_batch([100, 40, 7], layout="fragmented", seed=3, **SMALL)
    pool = read_pool(batch)
    assert pool.pages[0, 0] == DUMMY
    for i in range(batch.batch_size):
        start, stop = pool.request_indptr[i : i + 2]
        assert pool.request_pages[start:stop].tolist() == batch.pages(i)
        assert (pool.pages[batch.pages(i), 0] == i).all()
        assert pool.pages[batch.pages(i), 3].sum() == batch.slots(i).numel()
    free = batch.free_pages()
    assert (pool.pages[free, 0] == FREE).all()
    assert pool.pages[free, 4].tolist() == list(range(len(free)))
    assert pool.summary()["held"] + pool.summary()["free"] == pool.num_pages


def test_shared_and_cached_pages_are_distinguished() -> None:
    batch = sglab.decode_batch([100], **SMALL)
    batch.share_prefix(0, 40)
    pool = read_pool(batch)
    shared = batch.pages(1)[:2]
    assert pool.pages[shared, 1].tolist() == [2, 2]
    assert pool.summary()["shared"] == 2
    batch.free(1)
    batch.free(0)
    pool = read_pool(batch)
    assert pool.summary() | {"held": 0, "shared": 0} == pool.summary()
    assert sorted((pool.pages[:, 0] == CACHED).nonzero()[0].tolist()) == batch.cached_pages()
    assert pool.summary()["cached"] == len(batch.cached_pages()) > 0


@pytest.mark.parametrize(("layout", "least", "most"), [("contiguous", 1.0, 1.0), ("fragmented", 0.0, 0.99)])
def test_fragmentation_shows_in_the_share_of_neighbouring_pages(layout: str, least: float, most: float) -> None:
    batch = sglab.decode_batch([500, 300, 200], layout=layout, seed=1, **SMALL)
    assert least <= read_pool(batch).summary()["adjacent"] <= most


def test_unused_slots_are_those_of_last_pages() -> None:
    batch = sglab.decode_batch([17, 16, 31], **SMALL)
    assert read_pool(batch).summary()["unused_slots"] == 15 + 0 + 1


def test_slot_bytes_count_every_layer() -> None:
    batch = sglab.decode_batch([17], layer_num=3, dtype="float16", **SMALL)
    assert read_pool(batch).slot_bytes == 3 * (16 + 16) * 2
