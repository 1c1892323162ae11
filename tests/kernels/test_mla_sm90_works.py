"""The SM90 kernel's works made without the host: every token once, slots as the combine expects them."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from sglab.kernels.mla_sm90.works import Works, evenly_split, of_flash_mla, per_query_token
from sglab.planning import split_ranges
from sglab.planning.flash_mla import get_mla_metadata

LENGTHS = st.lists(st.integers(0, 3000), min_size=1, max_size=12)


def check(works: Works, lengths: list[int]) -> None:
    rows: dict[int, list[tuple[int, int, int]]] = {request: [] for request in range(len(lengths))}
    for part in works.works.transpose(0, 1).tolist():
        for request, begin, end, slot in part:
            if request < 0:
                break  # the part is done
            rows[request].append((slot, begin, end))
    for request, length in enumerate(lengths):
        own = sorted(rows[request])
        assert [begin for _, begin, _ in own] == [0, *(end for _, _, end in own[:-1])]
        assert own[-1][2] == length
        assert len(own) == 1 or all(begin < end for _, begin, end in own)
        first, count = int(works.slot_indptr[request]), int(works.partial_count[request])  # type: ignore[index]
        assert [slot for slot, _, _ in own] == ([-1] if len(own) == 1 else list(range(first, first + len(own))))
        assert count == (0 if len(own) == 1 else len(own))
        assert first + len(own) <= max(works.slots, 1) or len(own) == 1


@given(LENGTHS, st.integers(1, 16))
def test_even_splits(lengths: list[int], split_kv: int) -> None:
    works = evenly_split(torch.tensor(lengths, dtype=torch.int32), split_kv)
    check(works, lengths)
    ranges = split_ranges(lengths, split_kv)
    done = [(request, begin, end) for request, begin, end, _ in works.works[0].tolist() if request >= 0 and begin < end]
    starts, ends = ranges.token_start.tolist(), ranges.token_end.tolist()
    expected = {
        (request, begin, end)
        for request, row in enumerate(zip(starts, ends, strict=True))
        for begin, end in zip(*row, strict=True)
        if begin < end
    }
    assert set(done) == expected and len(done) == len(expected)


@given(LENGTHS, st.sampled_from([16, 64, 128]), st.integers(1, 148))
def test_flash_mla_metadata(lengths: list[int], heads: int, sm_count: int) -> None:
    made = get_mla_metadata(lengths, h_q=heads, sm_count=sm_count)
    metadata, num_splits = torch.from_numpy(made.tile_scheduler_metadata), torch.from_numpy(made.num_splits)
    check(of_flash_mla(metadata, num_splits, torch.tensor(lengths, dtype=torch.int32)), lengths)


@given(LENGTHS, st.integers(1, 4), st.integers(0, 200), st.integers(1, 148))
def test_query_tokens_as_requests(lengths: list[int], tokens: int, hidden: int, sm_count: int) -> None:
    """Each sees the first tokens of its request, in its request's ranges, and has slots that nobody else has."""
    made = get_mla_metadata(lengths, h_q=128, sm_count=sm_count)
    metadata, num_splits = torch.from_numpy(made.tile_scheduler_metadata), torch.from_numpy(made.num_splits)
    whole = of_flash_mla(metadata, num_splits, torch.tensor(lengths, dtype=torch.int32))
    each = [max(length - hidden * token, 0) for length in lengths for token in range(tokens)]
    works = per_query_token(whole, tokens, torch.tensor(each, dtype=torch.int32))
    covered, slots = [0] * len(each), []
    for part, original in zip(works.works.transpose(0, 1).tolist(), whole.works.transpose(0, 1).tolist(), strict=True):
        does = part[: next((i for i, work in enumerate(part) if work[0] < 0), len(part))]
        assert len(does) == tokens * sum(work[0] >= 0 for work in original)
        for (request, begin, end, slot), source in zip(
            does, [w for w in original for _ in range(tokens)], strict=False
        ):
            assert request // tokens == source[0]
            assert [begin, end] == [min(edge, each[request]) for edge in source[1:3]]
            assert (slot < 0) == (source[3] < 0)
            covered[request] += end - begin
            if slot >= 0:
                assert works.slot_indptr[request] <= slot < works.slot_indptr[request + 1]
                slots.append(slot)
    assert covered == each and len(set(slots)) == len(slots)
    assert not slots or max(slots) < works.slots
