"""The plan of our SM90 kernel: every token is attended to once, and the parts are loaded evenly."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab.planning.mla_sm90 import MAX_SPLITS, NO_SLOT, NO_WORK, TILE, MlaSm90Plan, WorkCost, mla_sm90_plan

Work = tuple[int, int, int, int]
LENGTHS = st.lists(st.integers(0, 20_000), min_size=1, max_size=40)


def works_of(plan: MlaSm90Plan) -> list[Work]:
    return [tuple(work) for work in plan.works.reshape(-1, 4).tolist() if work[0] != NO_WORK]


@given(LENGTHS, st.integers(1, 128), st.integers(1, 148))
def test_every_token_is_in_exactly_one_work(lengths: list[int], heads: int, sms: int) -> None:
    plan = mla_sm90_plan(lengths, num_heads=heads, sm_count=sms)
    for request, length in enumerate(lengths):
        ranges = sorted((begin, end) for r, begin, end, _ in works_of(plan) if r == request)
        assert ranges[0][0] == 0 and ranges[-1][1] == length
        assert all(end == begin for (_, end), (begin, _) in pairwise(ranges))
        assert all(begin % TILE == 0 for begin, _ in ranges)
        assert length == 0 or all(begin < end for begin, end in ranges)


@given(LENGTHS, st.integers(1, 128))
def test_each_split_has_a_slot_of_its_own_in_order_of_its_tokens(lengths: list[int], heads: int) -> None:
    plan = mla_sm90_plan(lengths, num_heads=heads, sm_count=132)
    works = works_of(plan)
    for i, request in enumerate(plan.split_requests.tolist()):
        splits = sorted(work[1:] for work in works if work[0] == request)
        assert [slot for _, _, slot in splits] == list(range(plan.slot_indptr[i], plan.slot_indptr[i + 1]))
        assert 2 <= len(splits) <= MAX_SPLITS
    whole = set(range(len(lengths))) - set(plan.split_requests.tolist())
    assert all(slot == NO_SLOT for request, _, _, slot in works if request in whole)


@pytest.mark.parametrize(("heads", "parts"), [(16, 132), (64, 132), (65, 66), (128, 66)])
def test_a_part_is_one_cta_per_64_heads(heads: int, parts: int) -> None:
    assert mla_sm90_plan([1000], num_heads=heads, sm_count=132).parts == parts


def test_a_full_batch_is_not_split() -> None:
    plan = mla_sm90_plan([4096] * 128, num_heads=128, sm_count=132)
    assert plan.slots == 0 and len(works_of(plan)) == 128


def test_one_long_request_is_split_over_the_parts() -> None:
    plan = mla_sm90_plan([65_536], num_heads=128, sm_count=132)
    assert 33 <= plan.slots <= 66


def test_costly_partial_results_make_fewer_splits() -> None:
    slots = [
        mla_sm90_plan([8192], num_heads=128, sm_count=132, cost=WorkCost(slot=cost)).slots for cost in (0.01, 0.1, 1)
    ]
    assert slots == sorted(slots, reverse=True) and slots[0] > slots[-1]


def test_a_limit_cuts_evenly() -> None:
    plan = mla_sm90_plan([79 * TILE], num_heads=128, sm_count=132, limit=20)
    assert sorted((end - begin) // TILE for _, begin, end, _ in works_of(plan)) == [19, 20, 20, 20]


def test_requests_that_equal_pieces_do_not_fit_are_cut_in_a_row() -> None:
    """71 requests of 70 tiles over 66 parts: the best equal pieces leave a part with 84 tiles, the mean is 75.3."""
    plan = mla_sm90_plan([4460] * 71, num_heads=128, sm_count=132)
    assert plan.in_a_row
    tiles = -((plan.works[:, :, 1] - plan.works[:, :, 2]) // TILE) * (plan.works[:, :, 0] != NO_WORK)
    assert tiles.sum(0).max() <= 77
    equal = min(mla_sm90_plan([4460] * 71, num_heads=128, sm_count=132, limit=n).microseconds for n in range(4, 71))
    assert plan.microseconds < 0.9 * equal


def modelled(plan: MlaSm90Plan, heads: int, cost: WorkCost) -> float:
    """The model's time of what the plan lays on its parts."""
    there = plan.works[:, :, 0] != NO_WORK
    tiles = (-((plan.works[:, :, 1] - plan.works[:, :, 2]) // TILE) * there).sum(0)
    further = there.sum(0) - 1
    combine = cost.combine + plan.slots * -(-heads // 64) * cost.slot if plan.slots else 0.0
    busiest = float((tiles * cost.tile + further * cost.work).max())
    return cost.start + math.hypot(busiest, float(tiles.sum()) * cost.tile_bytes) + combine


@given(LENGTHS, st.integers(1, 128), st.integers(1, 148))
def test_the_time_is_that_of_the_works(lengths: list[int], heads: int, sms: int) -> None:
    plan = mla_sm90_plan(lengths, num_heads=heads, sm_count=sms)
    assert plan.microseconds == pytest.approx(modelled(plan, heads, WorkCost()))


@given(LENGTHS, st.integers(1, 128), st.integers(1, 300))
def test_no_limit_that_cuts_the_longest_evenly_is_better(lengths: list[int], heads: int, splits: int) -> None:
    tiles = max(-(-max(lengths) // TILE), 1)
    limit = -(-tiles // min(splits, tiles, MAX_SPLITS, 2 * (132 // -(-heads // 64))))
    other = mla_sm90_plan(lengths, num_heads=heads, sm_count=132, limit=limit)
    plan = mla_sm90_plan(lengths, num_heads=heads, sm_count=132)
    assert plan.microseconds <= other.microseconds


@pytest.mark.parametrize(("batch", "tokens", "heads"), [(24, 10_000, 64), (21, 27_569, 64), (61, 26_616, 16)])
def test_sms_are_not_left_idle_because_bytes_take_longest(batch: int, tokens: int, heads: int) -> None:
    """Half of the parts could compute it while it is read, if the two overlapped wholly; measured, they do not."""
    plan = mla_sm90_plan([tokens] * batch, num_heads=heads, sm_count=132)
    assert (plan.works[0, :, 0] != NO_WORK).sum() >= 120


@pytest.mark.parametrize(
    ("batch", "tokens", "heads", "row"),
    [
        (36, 623, 128, False),
        (71, 4460, 128, True),
        (128, 4096, 128, False),
        (105, 15_696, 128, True),
        (101, 13_074, 64, True),
        (46, 19_439, 32, True),
        (6, 1056, 128, False),
        (22, 6590, 128, False),
    ],
)
def test_the_way_that_was_measured_to_be_faster_is_taken(batch: int, tokens: int, heads: int, row: bool) -> None:
    """docs/performance.md: 28.4 µs in equal pieces for 36.3 in a row, 176.6 in a row for 254.1, 824 for 879."""
    assert mla_sm90_plan([tokens] * batch, num_heads=heads, sm_count=132).in_a_row is row


@given(LENGTHS)
def test_a_part_does_its_works_round_by_round_without_a_gap(lengths: list[int]) -> None:
    plan = mla_sm90_plan(lengths, num_heads=128, sm_count=8)
    exists = plan.works[:, :, 0] != NO_WORK
    assert (exists[:-1] >= exists[1:]).all()


@pytest.mark.parametrize(
    "bad",
    [
        {"seq_lens": [-1]},
        {"seq_lens": []},
        {"seq_lens": [100], "num_heads": 129},
        {"seq_lens": [64 * 300], "limit": 1},
    ],
)
def test_bad_arguments_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        mla_sm90_plan(**{"num_heads": 128, "sm_count": 132, **bad})  # type: ignore[arg-type]


def test_the_limit_is_the_best_of_all() -> None:
    """The search leaves out what cannot be better: here every limit is dealt out, with plain loops."""
    rng = random.Random()
    seed = rng.randrange(1 << 30)
    rng.seed(seed)
    print("seed", seed)
    for _ in range(30):
        most = rng.choice([1, 700, 4096, 30_000])
        lens = [rng.randint(0, most) for _ in range(rng.choice([1, 5, 24, 71, 128]))]
        heads, sms = rng.choice([(128, 132), (64, 114), (16, 7)])
        parts, blocks, cost = max(sms // -(-heads // 64), 1), -(-heads // 64), WorkCost()
        tiles = [-(-length // TILE) for length in lens]
        longest = max(max(tiles), 1)
        least = max(1, -(-max(tiles) // MAX_SPLITS))
        limits = {-(-longest // splits) for splits in range(1, min(longest, MAX_SPLITS, 2 * parts) + 1)}
        limits.add(-(-sum(tiles) // parts))
        times = {}
        for limit in limits:
            if limit < least:
                continue
            counts = [max(-(-count // limit), 1) for count in tiles]
            units = [
                (i + 1) * count // n - i * count // n for count, n in zip(tiles, counts, strict=True) for i in range(n)
            ]
            loads = [0.0] * parts
            for load in sorted((unit * cost.tile + cost.work for unit in units), reverse=True):
                loads[loads.index(min(loads))] += load
            slots = sum(n for n in counts if n > 1)
            combine = cost.combine + slots * blocks * cost.slot if slots else 0.0
            busiest = math.hypot(max(loads) - cost.work, sum(tiles) * cost.tile_bytes)
            times[limit] = cost.start + busiest + combine
        best = min(times.values())
        plan = mla_sm90_plan(lens, num_heads=heads, sm_count=sms)
        if plan.in_a_row:
            assert plan.microseconds < best
            continue
        assert plan.microseconds == best, (seed, lens)
        chosen = min(limit for limit, time in times.items() if time == best)
        again = mla_sm90_plan(lens, num_heads=heads, sm_count=sms, limit=chosen)
        assert np.array_equal(plan.works, again.works)
