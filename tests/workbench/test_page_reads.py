"""Which instructions read which pages: held against the page table and the coordinates of the copies."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.events.log import EventLog
from sglab.workbench import Batch
from sglab.workbench.recorders.page_reads import PageReads

KV_MAP = 2
"""The tensor map of the cache: the third that the kernel uses."""


def mla_batch(seed: int = 0) -> Batch:
    lens = np.random.default_rng(seed).integers(1, 500, size=3).tolist()
    return sglab.decode_batch(lens, num_heads=128, page_size=64, layout="fragmented", dtype="float16", seed=seed)


@pytest.fixture(scope="module")
def batch() -> Batch:
    return mla_batch()


@pytest.fixture(scope="module")
def log(batch: Batch) -> EventLog:
    return sglab.trace(batch, backend="cutlass_mla").record()


@pytest.fixture(scope="module")
def reads(log: EventLog, batch: Batch) -> PageReads:
    return PageReads.of(log, batch)


def test_a_copy_of_the_cache_reads_the_page_that_its_third_coordinate_names(log: EventLog, reads: PageReads) -> None:
    copies = np.flatnonzero(log.copies.map == KV_MAP)
    assert reads.copy.tolist() == copies.tolist()
    assert reads.event.tolist() == log.copies.event[copies].tolist()
    assert reads.page.tolist() == log.copies.coordinates[copies, 2].tolist()


def test_tokens_are_those_that_the_batch_keeps_there(batch: Batch, log: EventLog, reads: PageReads) -> None:
    for row in range(len(reads)):
        request, token = int(reads.request[row]), int(reads.token[row])
        assert request == int(log.cta[reads.event[row]]) // 2  # a CTA pair per request
        if reads.tokens[row]:
            last = token + int(reads.tokens[row]) - 1
            assert batch.slots(request)[[token, last]].tolist() == [
                reads.page[row] * batch.page_size + token % batch.page_size,
                reads.page[row] * batch.page_size + last % batch.page_size,
            ]
        assert token + reads.tokens[row] <= max(token, int(batch.seq_lens[request]))


def test_every_page_of_every_request_is_read_as_key_and_as_value(batch: Batch, reads: PageReads) -> None:
    for request in range(batch.batch_size):
        mine = reads.page[reads.request == request]
        assert set(mine.tolist()) == set(batch.pages(request))
        for page in batch.pages(request):
            assert (mine == page).sum() >= 2 * (9 + 8) // 2  # 64 tokens: 9 chunks of K, 8 of V


def test_a_shared_page_counts_as_that_of_the_request_whose_other_pages_the_cta_reads() -> None:
    shared = sglab.decode_batch([200], num_heads=128, page_size=64, dtype="float16", seed=1)
    shared.share_prefix(0, 128, extra_tokens=5)
    log = sglab.trace(shared, backend="cutlass_mla").record()
    reads = PageReads.of(log, shared)
    assert set(shared.pages(0)) & set(shared.pages(1))
    assert reads.request.tolist() == (log.cta[reads.event] // 2).tolist()


def test_a_launch_that_reads_another_pool_reads_none_of_these_pages(log: EventLog) -> None:
    assert len(PageReads.of(log, mla_batch(seed=1))) == 0
