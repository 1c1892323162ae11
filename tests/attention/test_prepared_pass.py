"""Whether a batch is the pass that was prepared: what cannot have changed is not read twice, and what has is seen."""

import pytest
import torch

from sglab import decode_batch
from sglab.attention.prepared import PreparedPass
from sglab.engine import BadArgumentError


def test_a_pass_that_was_not_touched_is_recognised_without_its_contents() -> None:
    batch = decode_batch([9, 20]).forward_batch
    prepared = PreparedPass.of(batch)
    assert prepared.is_of(batch)
    prepared.refuse_another(batch, 2)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", ["seq_lens", "req_pool_indices"])
def test_a_write_in_place_is_seen(name: str, inference: bool) -> None:
    batch = decode_batch([9, 20]).forward_batch
    prepared = PreparedPass.of(batch)
    with torch.inference_mode(inference):
        getattr(batch, name)[0] += 1
    with pytest.raises(BadArgumentError, match=rf"forward_batch\.{name}: expected .*, as in prepare"):
        prepared.refuse_another(batch, 2)


def test_tensors_of_inference_mode_are_read_again() -> None:
    batch = decode_batch([9, 20]).forward_batch
    with torch.inference_mode():
        batch.seq_lens = batch.seq_lens.clone()
        prepared = PreparedPass.of(batch)
        batch.seq_lens += 1
    assert not prepared.is_of(batch)
    with pytest.raises(BadArgumentError, match=r"forward_batch\.seq_lens: expected \[9, 20\]"):
        prepared.refuse_another(batch, 2)


def test_the_number_of_rows_is_looked_at_always() -> None:
    batch = decode_batch([9, 20]).forward_batch
    with pytest.raises(BadArgumentError, match="rows"):
        PreparedPass.of(batch).refuse_another(batch, 3)
