"""Engines on several ranks: the same tokens as one process, and a rank that dies is an error by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.serving import RequestAbortedError
from sglab.serving.ranks import RankDiedError, Ranks
from tests.support import quantized as q
from tests.support.ranks import fork_follower
from tests.support.tiny_configs import DEEPSEEK, LLAMA, QWEN3_MOE, drawn, linear_layers

GREEDY = {"temperature": 0, "max_new_tokens": 6}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tokens(path: Path, prompts: list[list[int]], **options: Any) -> list[list[int]]:
    with sglab.Engine(path, device="cpu", dtype="float32", check_invariants=True, **options) as engine:
        return [output.token_ids for output in engine.generate(prompts, GREEDY)]


@pytest.mark.parametrize(("config", "options"), [
    pytest.param(LLAMA, {"tp_size": 2, "chunked_prefill_size": 8}, id="llama, two ranks, chunks"),
    pytest.param(LLAMA, {"tp_size": 4, "dp_size": 2}, id="llama, two groups of two"),
    pytest.param(QWEN3_MOE, {"tp_size": 4, "ep_size": 2}, id="experts on two, cut in two"),
    pytest.param(QWEN3_MOE, {"tp_size": 2, "dp_size": 2}, id="experts cut, two groups"),
    pytest.param(DEEPSEEK, {"tp_size": 2, "page_size": 16}, id="mla, two ranks"),
    pytest.param(LLAMA, {"tp_size": 2, "enable_two_batch_overlap": True}, id="two batches, llama"),
    pytest.param(
        DEEPSEEK, {"tp_size": 4, "dp_size": 2, "ep_size": 4, "enable_two_batch_overlap": True}, id="two batches, groups"
    ),
    pytest.param(
        QWEN3_MOE, {"tp_size": 2, "ep_size": 2, "init_expert_location": ((3, 1, 2, 0, 1, 3),)}, id="redundant experts"
    ),
    pytest.param(DEEPSEEK, {"tp_size": 4, "dp_size": 4, "ep_size": 4}, id="mla, four groups, an expert each"),
])  # fmt: skip
def test_tokens_are_those_of_one_process(
    config: dict[str, Any], options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, config, drawn(config))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4, 21)]
    assert tokens(tmp_path, prompts, dist_timeout=30, **options) == tokens(tmp_path, prompts)


def test_two_batches_take_turns_at_every_collective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Llama of one layer: an embedding, attention and MLP to sum, and logits to gather, in both halves but the last."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4, 21)]
    with sglab.Engine(tmp_path, device="cpu", tp_size=2, enable_two_batch_overlap=True, dist_timeout=30) as engine:
        engine.generate(prompts, GREEDY)
        assert engine._parallel is not None
        assert engine._parallel.rank_model.switches == 8


def test_quantised_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    stored, _ = q.checkpoint(drawn(QWEN3_MOE), q.awq, linear_layers)
    awq = {"quant_method": "awq", "bits": 4, "group_size": 32}
    q.write_checkpoint(tmp_path, {**QWEN3_MOE, "quantization_config": awq}, stored)
    prompts = [torch.randint(0, 96, (9,)).tolist()]
    assert tokens(tmp_path, prompts, dist_timeout=30, tp_size=2, ep_size=2) == tokens(tmp_path, prompts)


def test_real_processes_and_one_that_is_killed() -> None:
    prompts = ["Mia had lost a green key.", "2 + 3 ="]
    with sglab.Engine("tiny", device="cpu") as engine:
        expected = [output.token_ids for output in engine.generate(prompts, GREEDY)]
    with sglab.Engine("tiny", device="cpu", tp_size=2, dp_size=2, ep_size=2, dist_timeout=60) as engine:
        assert [output.token_ids for output in engine.generate(prompts, GREEDY)] == expected
        assert engine.ranks is not None
        with pytest.raises(BadArgumentError, match="tp_size: expected 1 in a process that is in a process group"):
            sglab.Engine("tiny", device="cpu", tp_size=2)
        handle = engine.submit(prompts[0], GREEDY)
        engine.ranks.processes[0].kill()
        engine.ranks.processes[0].wait()
        while engine.step():
            pass
        assert "rank 1: expected an answer, got the end of its process (signal 9)" in str(handle.req.finished_reason)
        with pytest.raises(RankDiedError, match="close this engine and start another"):
            engine.generate(prompts, GREEDY)


def test_a_rank_that_dies_within_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    with sglab.Engine(tmp_path, device="cpu", tp_size=2, dist_timeout=30) as engine:
        ranks = engine.ranks
        assert ranks is not None
        monkeypatch.setattr(Ranks, "broadcast", lambda self, message: self.processes[0].kill())
        with pytest.raises(RequestAbortedError, match=r"rank 1: expected an answer, got the end of its process"):
            engine.generate([1, 2, 3], GREEDY)


def test_what_ranks_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    for options, message in (
        ({"tp_size": 4, "dp_size": 3}, "dp_size: expected a divisor of tp_size 4, got 3"),
        ({"tp_size": 2, "cuda_graph": True}, "cuda_graph: expected its default with tp_size above 1"),
        ({"tp_size": 2, "speculative_algorithm": "NGRAM"}, "speculative_algorithm: expected its default"),
        ({"tp_size": 2, "max_total_tokens": 1, "dist_timeout": 20}, "max_total_tokens: expected two pages"),
        ({"tp_size": 3, "dist_timeout": 20}, "output_size: expected a multiple of the 3 ranks, got 128"),
    ):
        with pytest.raises(BadArgumentError, match=message):
            sglab.Engine(tmp_path, device="cpu", **options)
    assert not torch.distributed.is_initialized()
