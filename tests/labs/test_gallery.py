"""The gallery's questions, on small runs of what it shows: right answers, known wrong ones."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.labs import gallery as lab
from sglab.labs.mla_sm100 import Launched
from sglab.labs.question import Question
from sglab.workbench import record_experts, record_speculation


def judged(question: Question, right: Any) -> None:
    assert question.check(right).right, question.answer()
    assert question.ideas
    for idea, feedback in question.ideas:
        verdict = question.check(idea)
        assert verdict.right is False and verdict.text == feedback, idea


def test_one_warp_copies() -> None:
    batch = sglab.decode_batch([150], num_heads=128, page_size=128, dtype="float16")
    judged(lab.copying_warps(Launched(batch).record()), {9})


def test_requests_that_were_taken_back_are_counted() -> None:
    options = {"page_size": 16, "max_total_tokens": 192, "max_running_requests": 4, "schedule_conservativeness": 0.02}
    engine = sglab.Engine("tiny", chunked_prefill_size=64, **options)
    recording = engine.record()
    for i in range(5):
        sampling = {"temperature": 0, "max_new_tokens": 36 - 8 * (i % 3), "min_new_tokens": 36 - 8 * (i % 3)}
        engine.submit(f"{i} Once upon a time there was a little " + "cat " * i, sampling)
        engine.step()
    engine.run()
    taken = sum(step.retracted != () and len(step.retracted) for step in engine.history.steps)
    assert taken > 0
    judged(lab.taken_back(recording), taken)


def test_drafts_and_experts() -> None:
    pool = {"page_size": 16, "max_total_tokens": 1024}
    tree = {"speculative_num_steps": 3, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 8}
    engine = sglab.Engine("tiny", speculative_algorithm="STANDALONE", draft_model="tiny", **tree, **pool)
    with engine, record_speculation(engine) as speculation:
        engine.generate(["Once upon a time"], {"temperature": 0.9, "sampling_seed": 5, "max_new_tokens": 24})
    kept = [len(each.kept) for one in speculation.passes for each in one.trees]
    judged(lab.tokens_per_pass(speculation), sum(kept) / len(kept))
    engine = sglab.Engine("tiny", **pool)
    with engine, record_experts(engine) as routing:
        engine.generate(["Once upon a time", "2 + 3 ="], {"temperature": 0, "max_new_tokens": 6})
    for mixture in range(len(routing.mixtures)):
        judged(lab.busiest_expert(routing, mixture), int(routing.load[mixture].argmax()))


def bytes_by_cta(cta: Any, event: Any, nbytes: Any) -> list[int]:
    found = [0] * (int(cta.max()) + 1)
    for where, size in zip(np.asarray(cta)[event], nbytes, strict=True):
        found[where] += int(size)
    return found


def test_bytes_are_judged_by_what_is_returned() -> None:
    question = lab.bytes_by_cta()
    verdict = question.check(bytes_by_cta)
    assert verdict.right, verdict.text
    for wrong, feedback in question.ideas:
        verdict = question.check(wrong)
        assert verdict.right is False and verdict.text.startswith(feedback)
