"""Scheduler: what it sends is the engine's own history; it follows a run; a step's attention opens from it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sglab.engine import BadArgumentError
from sglab.serving import Engine
from sglab.widgets import Scheduler
from sglab.widgets.opening import kernel_for
from sglab.workbench import decode_batch, extend_batch
from tests.support.serving.tiny import prompts, tiny_llama
from tests.support.serving.widget_lines import lines


def engine(**options: Any) -> Engine:
    return Engine(tiny_llama(), **{"page_size": 4, "max_total_tokens": 160, "chunked_prefill_size": 16, **options})


def submit(made: Engine, count: int = 8, new: int = 20) -> None:
    for i, prompt in enumerate(prompts(count, longest=30, seed=5)):
        made.submit(prompt, {"temperature": 0, "max_new_tokens": new, "min_new_tokens": new}, rid=f"r{i}")


@pytest.mark.parametrize("overlap", [False, True])
def test_every_step_is_sent_as_the_history_has_it(overlap: bool) -> None:
    made = engine(schedule_conservativeness=0.05, disable_overlap_schedule=not overlap, check_invariants=True)
    shown = Scheduler(made)
    submit(made)
    made.run()
    shown.refresh()
    names = [request["rid"] for request in shown.requests]
    sent = lines(shown)
    assert len(sent) == shown.count == len(made.history) and shown.size == len(shown._tensors["lines"].array)
    assert names == [f"r{i}" for i in range(8)]
    generated: Counter[str] = Counter()
    for line, step in zip(sent, made.history.steps, strict=True):
        assert line["mode"] == step.mode
        assert [[names[each[0]], *each[1:]] for each in line["batch"]] == [
            [e.rid, e.phase, e.start, e.new_tokens, e.cached_tokens] for e in step.batch
        ]
        assert [names[each] for each in line["waiting"]] == step.waiting
        assert [names[each] for each in line.get("retracted", [])] == step.retracted
        assert sum(line["pool"][:4]) == made.scheduler.allocator.size
        assert [[names[each[0]], *each[1:3]] for each in line.get("why", [])] == [
            [d.rid, d.result, d.reason] for d in step.decisions
        ]
        generated.update({names[each[0]]: each[1] for each in line["out"]})
    assert generated == dict.fromkeys(names, 20)
    assert any(line.get("retracted") for line in sent) and any(line.get("stopped") for line in sent)
    made.close()


def test_tokens_without_a_tokenizer_are_told_once() -> None:
    """With what came before them, one generated token was six."""
    made = engine()
    shown = Scheduler(made)
    output = made.generate([[5, 6, 7]], {"temperature": 0, "max_new_tokens": 12, "min_new_tokens": 12})[0]
    shown.refresh()
    told = "".join(text for line in lines(shown) for _, _, text in line["out"])
    assert told == " ".join(map(str, output.token_ids))
    made.close()


def test_a_prompt_that_is_shown_whole_has_no_ellipsis() -> None:
    """The page compared tokens, of which one begins every prompt, with characters."""
    made = Engine("tiny", max_total_tokens=400)
    shown = Scheduler(made)
    for prompt in ("A", "Once upon a time", "mom " * 40):
        made.submit(prompt, {"temperature": 0, "max_new_tokens": 1})
    made.run()
    texts = [request["text"] for request in shown.requests]
    assert texts[:2] == ["A", "Once upon a time"]
    assert texts[2].endswith("…")
    assert texts[2][:-1] == ("mom " * 40)[: len(texts[2]) - 1]
    made.close()


def test_an_end_that_no_step_follows_is_told_with_the_request() -> None:
    made = engine()
    shown = Scheduler(made)
    made.submit([5, 6, 7], {"temperature": 0, "max_new_tokens": 9}, rid="running")
    made.step()
    made.abort("running")
    made.run()
    assert [each["ended"] for each in shown.requests] == ["abort"]
    assert not any(line.get("finished") for line in lines(shown))
    made.submit([5, 6], {"temperature": 0, "max_new_tokens": 1}, rid="next")
    made.run()
    assert [each["ended"] for each in shown.requests] == ["", ""]  # the step's record has it now
    assert [0, "abort"] in [end for line in lines(shown) for end in line.get("finished", [])]
    made.close()


def test_a_name_that_comes_again_is_another_request() -> None:
    made = engine()
    shown = Scheduler(made)
    first = made.submit([5, 6, 7], {"temperature": 0, "max_new_tokens": 3}, rid="again")
    with pytest.raises(BadArgumentError, match="rid: expected a name that no unfinished request has, got 'again'"):
        made.submit([1, 2], rid="again")
    made.run()
    second = made.submit([1, 2, 3, 4], {"temperature": 0, "max_new_tokens": 8}, rid="again")
    made.step()
    assert made.abort("again")
    made.run()
    third = made.submit([9, 9], {"temperature": 0, "max_new_tokens": 2}, rid="again #2")
    made.run()
    shown.refresh()
    assert [handle.output().rid for handle in (first, second, third)] == ["again", "again", "again #2"]
    names = ["again", "again #2", "again #2 #2"]
    assert [each["rid"] for each in shown.requests] == names == list(shown.recording.reqs)
    assert [each["prompt"] for each in shown.requests] == [3, 4, 2]
    for name, handle in zip(names, (first, second, third), strict=True):
        assert shown.recording.tokens(name) == handle.req.token_ids()
        given = [token for step in made.history.of(name) for token in step.tokens.get(name, [])]
        assert given == handle.output().token_ids
    assert [handle.output().finish_reason for handle in (first, second, third)] == ["length", "abort", "length"]
    sent = lines(shown)
    for number, handle in enumerate((first, second, third)):
        generated = sum(each[1] for line in sent for each in line["out"] if each[0] == number)
        assert generated == len(handle.output().token_ids)
    made.close()


def test_lines_are_only_ever_added_and_what_is_new_is_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine()
    shown = Scheduler(made)
    monkeypatch.setattr(type(shown), "due", lambda _: True)
    submit(made, 3, 4)
    before = b""
    while made.step():
        now = bytes(shown._tensors["lines"].array)
        assert now.startswith(before) and len(now) > len(before)
        if before:
            (row,) = shown.pushed
            assert (row["start"], row["stop"], bytes(row["data"])) == (len(before), len(now), now[len(before) :])
        before = now
    assert shown.count == len(made.history)
    assert shown.saved()["state"]["pushed"] == []


def test_what_ran_before_is_shown_without_its_attention() -> None:
    made = engine()
    made.generate([1, 2, 3], {"temperature": 0, "max_new_tokens": 3})
    shown = Scheduler(made)
    made.generate([1, 2, 3], {"temperature": 0, "max_new_tokens": 3})
    shown.refresh()
    assert [line.get("opens", 0) for line in lines(shown)] == [0, 0, 0, 1, 1, 1]
    with pytest.raises(BadArgumentError, match="step: expected a step that ran while the engine was recorded"):
        shown.attention("PageTable", 0)


def test_the_trail_from_a_step_to_its_widgets() -> None:
    pytest.importorskip("triton")
    made = engine(page_size=16)
    shown = Scheduler(made)
    submit(made, 2, 4)
    made.run()
    shown.refresh()
    opened = shown.open_attention("PageTable", 2, 1)
    assert opened["title"] == "Page table of step 2, layer 1" and "<!doctype html>" in opened["page"]
    assert shown.batch is not None and [req.rid for req in shown.batch.reqs] == [
        entry.rid for entry in made.history.steps[2].batch
    ]
    assert shown.attention("SplitKV", 2).header["title"] == "Split KV"
    assert shown.attention("OnlineSoftmax", len(made.history) - 1).header["title"] == "Online softmax"
    debugger = shown.attention("KernelDebugger", len(made.history) - 1)
    assert "decode" in debugger.header["subject"]
    with pytest.raises(ValueError, match="widget: expected one of PageTable, SplitKV"):
        shown.attention("Graph", 2)  # type: ignore[arg-type]


def test_which_kernel_is_stepped_depends_on_the_batch() -> None:
    batch = decode_batch
    assert kernel_for(batch([30], page_size=64)) == "flashmla"
    assert kernel_for(batch([30], page_size=128)) == kernel_for(batch([30], page_size=16)) == "cutlass_mla"
    assert kernel_for(batch([30], page_size=1)) == kernel_for(batch([30], 8, kind="mha")) == "triton"
    assert kernel_for(extend_batch([30], page_size=64)) == "triton"


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Scheduler shows an sglab\.Engine.*got str"):
        Scheduler("tiny")  # type: ignore[arg-type]
