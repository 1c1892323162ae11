"""Two-batch overlap: where a batch is cut."""

import pytest
import torch

from sglab.engine import ForwardMode
from sglab.engine.batch import ModelWorkerBatch
from sglab.engine.batch.two_batch import Cut, cut_of, halves
from sglab.layers.overlap import pass_turn, run_alternately


@pytest.mark.parametrize(("lens", "expected"), [
    ([4, 4], Cut(1, 4)),
    ([10, 10, 20], Cut(2, 20)),
    ([3, 3, 3, 3], Cut(2, 6)),
    ([2, 30], Cut(1, 16, through=True)),  # between requests a half would have 2 of 32
    ([40], Cut(0, 20, through=True)),
    ([1], None),
    ([1, 1], Cut(1, 1)),
])  # fmt: skip
def test_extends_are_cut_by_tokens(lens: list[int], expected: Cut | None) -> None:
    assert cut_of(lens, len(lens)) == expected


def test_decodes_are_cut_by_requests() -> None:
    assert cut_of(None, 5) == Cut(2, 2)
    assert cut_of(None, 1) is None


def test_the_second_half_goes_on_where_the_first_ends() -> None:
    batch = ModelWorkerBatch(
        ForwardMode.EXTEND, torch.arange(12), torch.tensor([5, 6]), torch.tensor([9, 10]), torch.arange(100, 112),
        torch.tensor([9, 10]), 19, 12, [2, 10], [7, 0],
    )  # fmt: skip
    cut = cut_of([2, 10], 2)
    assert cut == Cut(1, 6, through=True)
    first, second = halves(batch, cut)
    assert (first.extend_seq_lens, first.extend_prefix_lens, first.seq_lens.tolist()) == ([2, 4], [7, 0], [9, 4])
    assert (second.extend_seq_lens, second.extend_prefix_lens, second.seq_lens.tolist()) == ([6], [4], [10])
    assert torch.equal(torch.cat((first.input_ids, second.input_ids)), batch.input_ids)
    assert torch.equal(torch.cat((first.out_cache_loc, second.out_cache_loc)), batch.out_cache_loc)
    assert second.req_pool_indices.tolist() == [6]


def test_turns() -> None:
    order: list[str] = []

    def run(name: str, count: int) -> str:
        for i in range(count):
            order.append(f"{name}{i}")
            pass_turn()
        return name

    assert run_alternately(lambda: run("a", 3), lambda: run("b", 1)) == ("a", "b", 3)
    assert order == ["a0", "b0", "a1", "a2"]
    with pytest.raises(ZeroDivisionError):
        run_alternately(lambda: run("a", 2), lambda: str(1 // 0))
