"""A step's batch has the step's page table, and the queries, keys and values that the step itself computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.serving import Engine
from sglab.workbench.layer_rows import Watched
from tests.support.serving.tiny import prompts, tiny_llama

LAYER = 1


class Kept:
    """What one layer really got and left, pass by pass: its queries, and the rows of its pool."""

    def __init__(self, engine: Engine) -> None:
        worker, kept = engine.worker, self
        self.passes: list[dict[str, Any]] = []

        def forward_batch(worker_batch: Any) -> Any:
            batch = type(worker).forward_batch(worker, worker_batch)
            batch.attn_backend = kept.watched = Watched(worker.backend, [LAYER])
            return batch

        def sample(logits: Any, batch: Any, inputs: Any) -> Any:
            kept.keep(engine, batch)
            return type(worker).sample(worker, logits, batch, inputs)

        worker.forward_batch = forward_batch  # type: ignore[method-assign]
        worker.sample = sample  # type: ignore[method-assign]

    def keep(self, engine: Engine, batch: Any) -> None:
        pool = engine.runner.token_to_kv_pool
        keys, values = pool.get_key_buffer(LAYER).clone(), pool.get_value_buffer(LAYER).clone()
        table = engine.runner.req_to_token_pool.req_to_token.clone()
        self.passes.append({"q": self.watched.seen[LAYER].q, "k": keys, "v": values, "table": table, "batch": batch})


@pytest.mark.parametrize("page", [1, 4])
def test_it_is_what_the_step_computed(page: int) -> None:
    engine = Engine(tiny_llama(), page_size=page, max_total_tokens=256, chunked_prefill_size=16)
    kept, recording = Kept(engine), engine.record()
    shared = [7] * 9
    for prompt in prompts(6, seed=3):
        engine.submit([*shared, *prompt], {"temperature": 0, "max_new_tokens": 7, "ignore_eos": True})
    engine.run()
    ran = [record for record in recording.steps if record.tokens]
    assert {record.mode for record in ran} == {"EXTEND", "DECODE"}
    for record, seen in zip(ran, kept.passes, strict=True):
        batch = sglab.step_batch(recording, record.step, LAYER)
        batch.check()
        assert torch.equal(batch.req_pool_indices, seen["batch"].req_pool_indices)
        assert torch.equal(batch.seq_lens, seen["batch"].seq_lens)
        assert torch.equal(batch.forward_batch.out_cache_loc, seen["batch"].out_cache_loc)
        torch.testing.assert_close(batch.q, seen["q"], rtol=2e-3, atol=2e-3)
        pool = batch.runner.token_to_kv_pool
        for row, length in zip(batch.req_pool_indices.tolist(), batch.seq_lens.tolist(), strict=True):
            slots = batch.req_to_token[row, :length].long()
            assert torch.equal(slots, seen["table"][row, :length].long())
            torch.testing.assert_close(pool.get_key_buffer(LAYER)[slots], seen["k"][slots], rtol=2e-3, atol=2e-3)
            torch.testing.assert_close(pool.get_value_buffer(LAYER)[slots], seen["v"][slots], rtol=2e-3, atol=2e-3)


def test_the_pool_is_as_the_step_found_it_and_the_batch_can_be_edited() -> None:
    engine = Engine(tiny_llama(), page_size=4, max_total_tokens=256)
    recording = engine.record()
    for prompt in ([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 10]):
        engine.submit(prompt, {"temperature": 0, "max_new_tokens": 4, "ignore_eos": True})
    engine.run()
    last = recording.steps[-1]
    batch = sglab.step_batch(recording, last.step)
    assert len(batch.free_pages()) * 4 == last.pool.free
    assert batch.allocate(4) == len(last.batch)
    batch.free(0)


def test_another_dtype_is_for_kernels_that_take_no_other() -> None:
    engine = Engine(tiny_llama(), page_size=16, max_total_tokens=256)
    recording = engine.record()
    engine.generate([1, 2, 3], {"temperature": 0, "max_new_tokens": 3})
    exact = sglab.step_batch(recording, 1, LAYER)
    half = sglab.step_batch(recording, 1, LAYER, dtype="float16")
    assert half.dtype is torch.float16 and torch.equal(half.q, exact.q.half()) and torch.equal(half.k, exact.k.half())
    assert sglab.attend(half, "triton", implementation="reference").dtype is torch.float16


def test_what_cannot_be_shown_is_refused_by_name() -> None:
    engine = Engine(tiny_llama(), max_total_tokens=256, speculative_algorithm="NGRAM")
    engine.generate([1, 2, 3], {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True})
    recording = engine.record()
    with pytest.raises(BadArgumentError, match="step: expected a step that ran while the engine was recorded, got 0"):
        sglab.step_batch(recording, 0)
    engine.generate([1, 2, 3], {"temperature": 0, "max_new_tokens": 3, "ignore_eos": True})
    drafts = next(record.step for record in recording.steps if record.mode == "TARGET_VERIFY" and record.step > 1)
    with pytest.raises(BadArgumentError, match="step: expected a step without drafts"):
        sglab.step_batch(recording, drafts)
    with pytest.raises(BadArgumentError, match="step: expected an integer 0"):
        sglab.step_batch(recording, 99)
    with pytest.raises(BadArgumentError, match="layer: expected an integer 0"):
        sglab.step_batch(recording, min(recording.pools), 9)
