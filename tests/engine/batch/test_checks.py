"""What a batch refuses before a kernel reads it: every message says where and what to do."""

from collections.abc import Callable

import pytest
import torch

from sglab.engine import BadArgumentError, NonFiniteKVError, PageTableError
from sglab.workbench import Batch, decode_batch


@pytest.fixture
def batch() -> Batch:
    return decode_batch([10, 5], num_heads=4, kind="mha", num_kv_heads=2, head_dim=16, page_size=4, max_context_len=32)


def spoil_table(row: int, token: int, slot: int) -> Callable[[Batch], None]:
    def spoil(batch: Batch) -> None:
        batch.req_to_token[row, token] = slot

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            spoil_table(1, 4, 999),
            r"request 1, token 4: expected a slot 4\.\.\d+ of the pool, got 999. .* outside the pool",
        ),
        (spoil_table(1, 4, -1), "request 1, token 4: .*got -1"),
        (spoil_table(0, 0, 0), "request 0, token 0: expected a slot outside page 0, got 0. Page 0 is the dummy page"),
        (spoil_table(0, 8, 14), r"request 0, token 8: expected slot % 4 == token % 4, .*got 14"),
        (spoil_table(0, 5, 17), "request 0, token 5: .*counting up within a page, got 17"),
    ],
)
def test_a_wrong_page_table_is_refused(batch: Batch, spoil: Callable[[Batch], None], message: str) -> None:
    spoil(batch)
    with pytest.raises(PageTableError, match=message):
        batch.check()


def test_a_length_beyond_the_row_is_refused(batch: Batch) -> None:
    batch.seq_lens[1] = 33
    with pytest.raises(PageTableError, match=r"seq_lens\[1\]: expected 1\.\.32, .*got 33.*larger max_context_len"):
        batch.check()
    batch.seq_lens[1] = 0
    with pytest.raises(PageTableError, match="got 0"):
        batch.check()


def test_a_row_outside_the_request_pool_is_refused(batch: Batch) -> None:
    batch.req_pool_indices[0] = 99
    with pytest.raises(PageTableError, match=r"req_pool_indices\[0\]: expected a row 0\.\.9, got 99"):
        batch.check()


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (torch.zeros(2, 4, 8).half(), r"q: expected shape \(2, 4, 16\), got \(2, 4, 8\)"),
        (torch.zeros(2, 4, 16), "q: expected torch.float16, got torch.float32. Convert it with .to"),
        ([1, 2], "q: expected a torch.Tensor, got list"),
    ],
)
def test_a_wrong_query_is_refused(batch: Batch, q: torch.Tensor, message: str) -> None:
    batch.q = q
    with pytest.raises(ValueError, match=message):
        batch.check()


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_query_that_is_not_finite_names_its_token_and_request(batch: Batch, value: float) -> None:
    batch.q[1, 2, 3] = value
    message = rf"q: expected finite numbers, got {value} in token 1 \(of request r1\), head 2, column 3"
    with pytest.raises(BadArgumentError, match=message):
        batch.check()


def test_nan_in_the_pool_names_pool_slot_page_and_request(batch: Batch) -> None:
    slot = int(batch.slots(1)[2])
    batch.runner.token_to_kv_pool.get_value_buffer(0)[slot, 1, 3] = float("nan")
    where = rf"slot {slot} \(page {slot // 4}, token 2 of request r1\)"
    message = rf"MHATokenToKVPool, V buffer of layer 0: {where} holds nan at head 1"
    with pytest.raises(NonFiniteKVError, match=message):
        batch.check()


def test_infinity_where_nothing_reads_is_refused_too(batch: Batch) -> None:
    batch.runner.token_to_kv_pool.get_key_buffer(0)[1] = float("inf")
    with pytest.raises(
        NonFiniteKVError, match=r"K buffer of layer 0: slot 1 \(page 0, owned by no request\) holds inf"
    ):
        batch.check()


def test_new_tokens_must_be_written_where_they_are_read(batch: Batch) -> None:
    batch.forward_batch.out_cache_loc[1] += 1
    with pytest.raises(PageTableError, match=r"out_cache_loc\[1\]: expected slot \d+, where req_to_token"):
        batch.check()
