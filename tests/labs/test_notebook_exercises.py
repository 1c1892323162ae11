"""The exercises of the early notebooks: what is right passes, what live objects say is right, and each known wrong idea
gets the feedback that is meant for it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.emulator.bank_conflicts import count_passes
from sglab.labs import (
    mla_copies,
    mla_sm100,
    online_softmax,
    page_tables,
    pipelines,
    score_shuffles,
    shared_memory,
    split_kv,
)
from sglab.labs.code_question import CodeQuestion
from sglab.labs.score_shuffles import ScoreShuffles


def slots(pages: list[int], seq_len: int, page_size: int) -> list[int]:
    return [pages[i // page_size] * page_size + i % page_size for i in range(seq_len)]


def attend(scores: torch.Tensor, values: torch.Tensor, tile: int) -> Any:
    m, d, o = -torch.inf, 0.0, 0.0
    for s, v in zip(scores.split(tile), values.split(tile), strict=True):
        new = max(m, float(s.max()))
        if new == -torch.inf:
            continue
        alpha, p = torch.exp(torch.tensor(m - new)), torch.exp(s - new)
        m, d, o = new, alpha * d + p.sum(), alpha * o + p @ v
    return (o / d, m + d.log()) if d else (torch.zeros(values.shape[1]), -torch.inf)


def chunk(pages: list[int], kv_heads: int, ctas: int) -> int:
    low, high = 1, max(pages)
    while low < high:
        middle = (low + high) // 2
        if sum(-(-n // middle) for n in pages) * kv_heads <= ctas:
            high = middle
        else:
            low = middle + 1
    return low


def passes(addresses: list[int]) -> int:
    words = {address // 4 for address in addresses}
    return max(sum(word % 32 == bank for word in words) for bank in range(32))


def total(parts: torch.Tensor, width: int) -> torch.Tensor:
    distance = width // 2
    while distance:
        parts = parts + parts[torch.arange(32) ^ distance]
        distance //= 2
    return parts


def waits(tile: int, stages: int) -> tuple[int, int, int]:
    odd = tile // stages % 2
    return tile % stages, 1 - odd, odd


def copies(page: int, rank: int) -> list[tuple[int, int, int]]:
    keys = [(64 * i, 64 * rank, page) for i in range(9)]
    values = [(first + 128 * rank, row, page) for first in (0, 64, 256, 320) for row in (0, 64)]
    return sorted(keys + values)


def load_tile(cache: torch.Tensor, block_table: torch.Tensor, length: int, tile: int) -> torch.Tensor:
    rows = torch.zeros(64, cache.shape[2])
    for i in range(64):
        position = 64 * tile + i
        if position < length:
            rows[i] = cache[block_table[position // cache.shape[1]], position % cache.shape[1]]
    return rows


EXERCISES: dict[str, tuple[CodeQuestion, Callable[..., Any]]] = {
    "02": (page_tables.slots_from_pages(), slots),
    "03": (online_softmax.in_one_pass(), attend),
    "04": (split_kv.smallest_chunk(), chunk),
    "07": (shared_memory.passes_of_an_access(), passes),
    "08": (score_shuffles.sum_over_lanes(), total),
    "10": (pipelines.waits_of_a_tile(), waits),
    "12": (mla_copies.copies_of_a_tile(), copies),
    "13": (mla_copies.tile_of_a_request(), load_tile),
}


@pytest.mark.parametrize("number", EXERCISES)
def test_a_right_function_passes_and_an_unwritten_one_waits(number: str) -> None:
    question, right = EXERCISES[number]
    for _ in range(3):
        verdict = question.check(right)
        assert verdict.right, verdict.text

    def unwritten(*_: Any) -> Any:
        raise NotImplementedError

    assert question.check().right is None and question.check(unwritten).right is None
    assert question.check(1).right is False


@pytest.mark.parametrize("number", EXERCISES)
def test_every_known_wrong_idea_is_told_apart(number: str) -> None:
    question, _ = EXERCISES[number]
    assert len(question.ideas) >= 4
    for _ in range(3):
        for function, feedback in question.ideas:
            verdict = question.check(function)
            assert verdict.right is False and verdict.text.startswith(feedback), (feedback, verdict.text)


def test_pages_give_the_slots_of_a_live_batch() -> None:
    batch = sglab.decode_batch([300, 77], num_heads=1, page_size=16, layout="fragmented", seed=5)
    for i, length in enumerate((300, 77)):
        assert slots(batch.pages(i), length, 16) == batch.slots(i).tolist()


def test_passes_are_those_of_a_launch() -> None:
    for question_case in EXERCISES["07"][0].cases(torch.Generator().manual_seed(0)):
        assert passes(*question_case) == count_passes(np.array(question_case), np.array([2**32 - 1]), 4)[0][0]


def test_sums_over_lanes_are_those_of_the_kernel() -> None:
    shuffles = ScoreShuffles(seed=3)
    held = total(torch.from_numpy(shuffles.rounds[0].sent.copy()), 16)
    assert np.allclose(held.numpy(), shuffles.rounds[-1].sum, atol=1e-5)
    assert score_shuffles.sums_without(2).check(4).right and score_shuffles.sums_without(8).check(4).right
    verdict = score_shuffles.sums_without(2).check(2)
    assert verdict.right is False and "all four rounds" in verdict.text


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_parities_are_those_that_a_launch_waits_for(stages: int) -> None:
    """The phases that ended the waits of a recorded launch have the parities that `waits` names."""
    log = pipelines.Pipeline("1_stage" if stages == 1 else f"{stages}_stages", 10).record()
    ring = np.unique(log.barriers.object[log.barriers.kind == 1]).tolist()
    for tile in range(10):
        stage, empty, full = waits(tile, stages)
        ended = (log.phases.kind == 1) & (log.phases.object == ring[stage])
        assert log.phases.parity[ended][tile // stages] == full
        if tile >= stages:
            read = (log.phases.kind == 1) & (log.phases.object == ring[stages + stage])
            assert log.phases.parity[read][tile // stages - 1] == empty


def test_copies_of_a_tile_are_those_of_a_launch() -> None:
    batch = sglab.decode_batch([300, 1000], num_heads=128, page_size=128, dtype="float16", seed=1)
    launched = mla_sm100.Launched(batch)
    log = launched.record()
    of_cache = log.copies.map == mla_sm100.KV_MAP
    for tile in (0, 6):
        page = int(launched.page_table[1, tile])
        for rank in (0, 1):
            mine = of_cache & (log.cta[log.copies.event] == 2 + rank) & (log.copies.coordinates[:, 2] == page)
            assert sorted(map(tuple, log.copies.coordinates[mine][:, :3].tolist())) == copies(page, rank)
