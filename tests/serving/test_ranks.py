"""Engines on several ranks: the same tokens as one process, and a rank that dies is an error by name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.serving import RequestAbortedError
from sglab.serving.ranks import RankDiedError, Ranks
from sglab.serving.ranks.rank_model import Found, HostCopy, Message, RankModel
from sglab.serving.speculative_worker import SpeculativeWorker
from sglab.workbench import record_ranks
from tests.support import quantized as q
from tests.support.ranks import fork_follower
from tests.support.tiny_configs import DEEPSEEK, LLAMA, QWEN3_MOE, drawn, linear_layers, with_draft_layer

GREEDY = {"temperature": 0, "max_new_tokens": 6}


def tokens(path: Path, prompts: list[list[int]], **options: Any) -> list[list[int]]:
    with sglab.Engine(path, device="cpu", dtype="float32", check_invariants=True, **options) as engine:
        found = [output.token_ids for output in engine.generate(prompts, GREEDY)]
        did_what_was_asked(engine)
        return found


def did_what_was_asked(engine: sglab.Engine) -> None:
    """Graphs were replayed, drafts verified, steps planned ahead, where the options say so."""
    steps, config = engine.history.steps, engine.config
    assert any(step.graph_bs for step in steps) == bool(config.cuda_graph)
    assert any(step.drafted for step in steps) == bool(config.speculative_algorithm)
    if config.enable_piecewise_cuda_graph:
        assert engine.worker.piecewise_runner is not None and engine.worker.piecewise_runner.replays
    assert engine.scheduler.config.enable_overlap == (config.disable_overlap_schedule is False)
    assert engine.ranks is None or engine.ranks.tp.a2a == (config.moe_a2a_backend and config.deepep_mode)


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
    pytest.param(LLAMA, {"tp_size": 2, "cuda_graph": True, "cuda_graph_bs": (1, 4)}, id="graphs, llama"),
    pytest.param(
        QWEN3_MOE,
        {"tp_size": 2, "ep_size": 2, "cuda_graph": True, "cuda_graph_bs": (2, 3), "disable_overlap_schedule": False},
        id="graphs and overlap, experts",
    ),
    pytest.param(DEEPSEEK, {"tp_size": 2, "cuda_graph": True, "cuda_graph_bs": (3,)}, id="graphs, mla"),
    pytest.param(
        LLAMA,
        {"tp_size": 2, "enable_piecewise_cuda_graph": True, "piecewise_cuda_graph_tokens": (8, 16),
         "chunked_prefill_size": 16},
        id="piecewise graphs",
    ),
    pytest.param(
        LLAMA, {"tp_size": 4, "dp_size": 2, "disable_overlap_schedule": False, "enable_mixed_chunk": True,
                "chunked_prefill_size": 8}, id="overlap, groups, mixed chunks",
    ),
    pytest.param(LLAMA, {"tp_size": 2, "speculative_algorithm": "NGRAM"}, id="n-grams"),
    pytest.param(
        DEEPSEEK,
        {"tp_size": 2, "dp_size": 2, "ep_size": 2, "moe_a2a_backend": "deepep", "deepep_bf16_dispatch": True},
        id="tokens travel, mla, both ways",
    ),
    pytest.param(
        QWEN3_MOE,
        {"tp_size": 2, "dp_size": 2, "ep_size": 2, "moe_a2a_backend": "deepep", "deepep_mode": "normal",
         "init_expert_location": ((3, 1, 2, 0, 1, 3),), "disable_overlap_schedule": False},
        id="tokens travel, redundant experts, overlap",
    ),
    pytest.param(
        QWEN3_MOE,
        {"tp_size": 4, "dp_size": 4, "ep_size": 4, "moe_a2a_backend": "deepep", "deepep_mode": "low_latency",
         "deepep_bf16_dispatch": True},
        id="tokens travel, low latency, four ranks",
    ),
    pytest.param(
        DEEPSEEK, {"tp_size": 2, "ep_size": 2, "speculative_algorithm": "NGRAM", "page_size": 4}, id="n-grams, mla"
    ),
])  # fmt: skip
def test_tokens_are_those_of_one_process(
    config: dict[str, Any], options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, config, drawn(config))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4, 21)]
    assert tokens(tmp_path, prompts, dist_timeout=60, **options) == tokens(tmp_path, prompts)


def test_a_draft_model_on_two_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target drafts for itself, in a tree: paths are accepted whose rows must be moved on both ranks."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4, 21)]
    tree = {"speculative_num_steps": 3, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 6}
    options = {"tp_size": 2, "speculative_algorithm": "STANDALONE", "draft_model": tmp_path, "dist_timeout": 60, **tree}
    expected = tokens(tmp_path, prompts)
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", check_invariants=True, **options) as engine:
        moved = []
        assert isinstance(engine.runs, SpeculativeWorker)
        engine.runs.observer = lambda one: moved.append(len(one.sources))
        assert [output.token_ids for output in engine.generate(prompts, GREEDY)] == expected
        assert sum(step.accepted for step in engine.history.steps) >= 6 and sum(moved) > 0


@pytest.mark.parametrize("tied", [False, True])
def test_a_layer_drafts_from_hidden_states_of_two_ranks(
    tied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step drafts and accepts as many tokens as in one process."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    config = {**DEEPSEEK, "tie_word_embeddings": tied}
    tensors = with_draft_layer(config)
    if tied:
        tensors.pop("lm_head.weight")
    q.write_checkpoint(tmp_path, config, tensors)
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4, 21)]
    tree = {"speculative_num_steps": 3, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 6}
    options = {"speculative_algorithm": "EAGLE", "draft_model": tmp_path, "max_total_tokens": 512, **tree}
    steps = []
    for ranks in ({}, {"tp_size": 2, "ep_size": 2, "dist_timeout": 60}):
        engine = sglab.Engine(tmp_path, device="cpu", dtype="float32", check_invariants=True, **options, **ranks)
        with engine:
            found = [output.token_ids for output in engine.generate(prompts, GREEDY)]
            steps.append((found, [(step.drafted, step.accepted) for step in engine.history.steps]))
    assert steps[0] == steps[1]
    assert steps[0][0] == tokens(tmp_path, prompts) and any(drafted for drafted, _ in steps[0][1])


@pytest.mark.parametrize("options", [
    pytest.param({"tp_size": 2}, id="two ranks"),
    pytest.param({"tp_size": 4, "dp_size": 2, "disable_overlap_schedule": False}, id="two groups, overlap"),
    pytest.param({"tp_size": 2, "page_size": 4, "hicache_write_policy": "write_back"}, id="pages, written back"),
])  # fmt: skip
def test_every_rank_keeps_cold_rows_on_its_host(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefixes leave a pool that is too small for them, and come back on all ranks."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    prompts = [torch.randint(0, 96, (24,)).tolist() for _ in range(6)]
    copies: list[HostCopy] = []
    broadcast = Ranks.broadcast

    def watched(self: Ranks, message: Any) -> None:
        if isinstance(message, HostCopy):
            copies.append(message)
        broadcast(self, message)

    monkeypatch.setattr(Ranks, "broadcast", watched)
    cache = {"enable_hierarchical_cache": True, "hicache_ratio": 4.0, "max_total_tokens": 64, "dist_timeout": 60}
    expected = tokens(tmp_path, prompts)
    with sglab.Engine(
        tmp_path, device="cpu", dtype="float32", check_invariants=True, max_running_requests=1, **options, **cache
    ) as engine:
        for _ in range(2):
            for prompt, each in zip(prompts, expected, strict=True):
                assert engine.generate(prompt, GREEDY).token_ids == each
    assert {copy.back for copy in copies} == {False, True}
    if options.get("dp_size", 1) == 1:
        assert sum(len(copy.host_slots) for copy in copies if copy.back) >= 5 * 20


@pytest.mark.parametrize("options", [{}, {"disable_overlap_schedule": False}, {"dcp_size": 2}, {"page_size": 4}])
def test_equal_prompts_at_once(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The radix tree keeps one's slots for all; the others' go to whoever comes next, and every rank must know."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 21, 14)]
    several = {"tp_size": 2, "dist_timeout": 60, "max_total_tokens": 2 * 64, **options}
    assert tokens(tmp_path, prompts * 2, **several) == tokens(tmp_path, prompts) * 2


@pytest.mark.parametrize("seed", [0, 1])
def test_any_schedule(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrivals, chunks, pages and a pool that forces retraction are drawn; graphs and overlap are on."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    draw = random.Random(seed)
    page = draw.choice([1, 4, 8])
    prompts = [[draw.randrange(96) for _ in range(draw.randint(1, 30))] for _ in range(8)]
    arrivals = [draw.randint(0, 9) for _ in prompts]
    options = {
        "tp_size": 2,
        "page_size": page,
        "max_total_tokens": page * (56 // page),
        "chunked_prefill_size": page * draw.randint(1, 3),
        "enable_mixed_chunk": bool(seed),
        "schedule_conservativeness": 0.1,
        "cuda_graph": True,
        "cuda_graph_bs": (1, 3),
        "disable_overlap_schedule": False,
        "dist_timeout": 60,
    }
    sampling = {"temperature": 0, "max_new_tokens": 16}
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", check_invariants=True, **options) as engine:
        handles = {}
        for step in range(10):
            for i, arrival in enumerate(arrivals):
                if arrival == step:
                    handles[i] = engine.submit(prompts[i], sampling)
            engine.step()
        engine.run()
        did_what_was_asked(engine)
        assert any(step.retracted for step in engine.history.steps)
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", disable_radix_cache=True) as alone:
        for i, prompt in enumerate(prompts):
            assert handles[i].output().token_ids == alone.generate(prompt, sampling).token_ids


def test_nothing_is_gathered_for_experts_that_tokens_travel_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, QWEN3_MOE, drawn(QWEN3_MOE))
    options = {"tp_size": 2, "dp_size": 2, "ep_size": 2, "moe_a2a_backend": "deepep", "deepep_bf16_dispatch": True}
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", dist_timeout=60, **options) as engine:
        with record_ranks(engine) as run:
            engine.generate([5, 6, 7], {"temperature": 0, "max_new_tokens": 2})
        prefill, decode = ([joint.any.what for joint in run.of_pass(step)] for step in (0, 1))
    experts = ["dispatch: experts", "dispatch: weights", "combine: sums"]
    assert prefill == ["dispatch: counts", "dispatch: rows", *experts]
    assert sorted(decode) == ["combine: results", "dispatch: counts", "dispatch: rows per expert"]


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


def test_what_a_pass_left_after_a_rank_died_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a replayed graph whose collectives were given up leaves something."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    with sglab.Engine(tmp_path, device="cpu", tp_size=2, dist_timeout=30) as engine:
        run = RankModel.run

        def dying(self: RankModel, message: Message) -> list[Found]:
            found = run(self, message)
            assert engine.ranks is not None
            engine.ranks.processes[0].kill()
            engine.ranks.processes[0].wait()
            return found

        monkeypatch.setattr(RankModel, "run", dying)
        with pytest.raises(RequestAbortedError, match=r"rank 1: expected an answer, got the end of its process"):
            engine.generate([1, 2, 3], {"temperature": 0, "max_new_tokens": 1})


def test_what_ranks_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    for options, message in (
        ({"tp_size": 4, "dp_size": 3}, "dp_size: expected a divisor of tp_size 4, got 3"),
        ({"tp_size": 2, "dp_size": 2, "cuda_graph": True}, "cuda_graph: expected its default with dp_size above 1"),
        (
            {"tp_size": 2, "enable_two_batch_overlap": True, "speculative_algorithm": "NGRAM"},
            "speculative_algorithm: expected its default with enable_two_batch_overlap",
        ),
        (
            {"tp_size": 2, "ep_size": 2, "moe_a2a_backend": "deepep"},
            r"equal and above 1, got 'deepep' with \(2, 1, 2\)",
        ),
        (
            {"tp_size": 2, "dp_size": 2, "ep_size": 2, "moe_a2a_backend": "deepep", "dist_timeout": 20},
            "moe_a2a_backend: expected None with a model without experts that tokens can travel to, got Llama",
        ),
        ({"tp_size": 2, "max_total_tokens": 1, "dist_timeout": 20}, "max_total_tokens: expected two pages"),
        ({"tp_size": 3, "dist_timeout": 20}, "output_size: expected a multiple of the 3 ranks, got 128"),
    ):
        with pytest.raises(BadArgumentError, match=message):
            sglab.Engine(tmp_path, device="cpu", **options)
    assert not torch.distributed.is_initialized()
