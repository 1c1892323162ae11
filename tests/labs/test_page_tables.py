"""The questions of notebook 02 know their answers, on live batches."""

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.kernels import create_flashmla_kv_indices
from sglab.labs import page_tables as lab


@pytest.fixture
def batch() -> "sglab.workbench.Batch":
    return sglab.decode_batch(seq_lens=[300, 1000, 77], page_size=64, layout="fragmented", seed=3)


def test_slot_page_and_row_agree(batch: "sglab.workbench.Batch") -> None:
    slot = int(batch.req_to_token[batch.req_pool_indices[1], 257])
    assert lab.slot_of_token(batch, 1, 257).check(slot).right
    assert lab.page_and_row(batch, 1, 257).check([slot // 64, 257 % 64]).right
    assert lab.slot_of_token(batch, 1, 257).check(slot + 1).right is False


def test_slot_14823_cannot_hold_position_257_with_pages_of_128() -> None:
    assert lab.can_hold(128, 14823, 257).check(False).right
    assert lab.can_hold(128, 14849, 257).check(True).right


def test_entries_are_pages_rounded_up(batch: "sglab.workbench.Batch") -> None:
    page_table = create_flashmla_kv_indices(batch.req_to_token, batch.req_pool_indices, batch.seq_lens, page_size=64)
    assert lab.page_table_entries(page_table).check(5 + 16 + 2).right
    assert lab.page_table_entries(page_table).check(3 * 16).right is False


def test_tokens_before_new_page_are_what_an_allocator_gives() -> None:
    assert lab.tokens_before_new_page(300, 64).check(20).right
    assert lab.tokens_before_new_page(320, 64).check(0).right
    assert lab.tokens_before_new_page(300, 16).check(20).right is False


@pytest.mark.parametrize(("prefix", "extra"), [(128, 1), (130, 1), (64, 64), (200, 100)])
def test_shared_prefix_costs_what_the_allocator_takes(batch: "sglab.workbench.Batch", prefix: int, extra: int) -> None:
    before = len(batch.free_pages())
    batch.share_prefix(0, prefix, extra_tokens=extra)
    taken = before - len(batch.free_pages())
    assert lab.pages_for_shared_prefix(64, prefix, extra).check(taken).right


def test_one_nan_row_poisons_its_columns() -> None:
    values = torch.randn(4, 8)
    values[3, 5] = torch.nan
    probabilities = torch.tensor([[0.5, 0.25, 0.25, 0.0]])
    assert lab.poisoned_rows(probabilities, values).check(1).right
    assert lab.poisoned_rows(probabilities, values).check(0).right is False
