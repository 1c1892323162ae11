"""Engines on several GPUs of one machine, over NCCL: the same tokens as on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sglab
from sglab.serving import RequestAbortedError
from sglab.serving.ranks import RankDiedError, Ranks
from tests.support import quantized as q
from tests.support.tiny_configs import DEEPSEEK, LLAMA, QWEN3_MOE, drawn, with_draft_layer

GREEDY = {"temperature": 0, "max_new_tokens": 8}

pytestmark = pytest.mark.gpu


def tokens(path: Path, prompts: list[list[int]], **options: Any) -> list[list[int]]:
    with sglab.Engine(path, device="cuda", dtype="float32", check_invariants=True, **options) as engine:
        found = [output.token_ids for output in engine.generate(prompts, GREEDY)]
        steps, config = engine.history.steps, engine.config
        assert any(step.drafted for step in steps) == bool(config.speculative_algorithm)
        if not config.speculative_algorithm:
            assert any(step.graph_bs for step in steps) == config.graphs("cuda")
        if config.enable_piecewise_cuda_graph:
            assert engine.worker.piecewise_runner is not None and engine.worker.piecewise_runner.replays
        return found


TREE = {"speculative_num_steps": 3, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 6}
HOST = {"enable_hierarchical_cache": True, "hicache_ratio": 4.0, "max_total_tokens": 64, "max_running_requests": 1}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("config", "options"), [
    pytest.param(LLAMA, {}, id="llama"),
    pytest.param(LLAMA, {"cuda_graph": True, "cuda_graph_bs": (1, 4, 16)}, id="llama, graphs"),
    pytest.param(
        LLAMA,
        {"enable_piecewise_cuda_graph": True, "piecewise_cuda_graph_tokens": (8, 16), "chunked_prefill_size": 16},
        id="llama, piecewise",
    ),
    pytest.param(LLAMA, {"disable_overlap_schedule": False}, id="llama, planned ahead"),
    pytest.param(LLAMA, {"cuda_graph": False, "enable_two_batch_overlap": True}, id="llama, two batches"),
    pytest.param(LLAMA, {"cuda_graph": False, "dp_size": 2}, id="llama, two groups"),
    pytest.param(LLAMA, {"dcp_size": 2, "cuda_graph_bs": (1, 4, 16)}, id="llama, contexts on two, graphs"),
    pytest.param(
        LLAMA, {"dcp_size": 0, "dcp_comm_backend": "ag_rs", "chunked_prefill_size": 8}, id="llama, contexts on all"
    ),
    pytest.param(DEEPSEEK, {"dcp_size": 0, "page_size": 16}, id="mla, contexts on all, pages"),
    pytest.param(LLAMA, {"speculative_algorithm": "NGRAM"}, id="llama, n-grams"),
    pytest.param(LLAMA, {"speculative_algorithm": "STANDALONE", **TREE}, id="llama, drafts of its own"),
    pytest.param(LLAMA, HOST, id="llama, cold rows on the host"),
    pytest.param(QWEN3_MOE, {"ep_size": 2}, id="experts on two"),
    pytest.param(DEEPSEEK, {"ep_size": 2}, id="mla"),
    pytest.param(DEEPSEEK, {"ep_size": 2, "speculative_algorithm": "EAGLE", **TREE}, id="mla, a draft layer"),
    pytest.param(
        DEEPSEEK,
        {"cuda_graph": False, "dp_size": 0, "ep_size": 0, "moe_a2a_backend": "deepep", "deepep_bf16_dispatch": True},
        id="mla, tokens travel",
    ),
])  # fmt: skip
def test_tokens_are_those_of_one_gpu(
    ranks: int, config: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    """A size of 0 stands for all ranks."""
    if torch.cuda.device_count() < ranks:
        pytest.skip(f"needs {ranks} NVIDIA GPUs; there are {torch.cuda.device_count()}")
    q.write_checkpoint(tmp_path, config, with_draft_layer(config) if config is DEEPSEEK else drawn(config))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 4, 21, 24, 24)]
    several = {name: ranks if value == 0 and name.endswith("_size") else value for name, value in options.items()}
    if options.get("speculative_algorithm") in ("STANDALONE", "EAGLE"):
        several["draft_model"] = tmp_path
    found = tokens(tmp_path, prompts * 2, tp_size=ranks, dist_timeout=120, **several)
    assert found == tokens(tmp_path, prompts, cuda_graph=False) * 2


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("config", "options"), [
    pytest.param(LLAMA, {"attn_cp_size": 0}, id="llama, on all"),
    pytest.param(LLAMA, {"attn_cp_size": 2, "chunked_prefill_size": 16, "cuda_graph_bs": (1, 4)}, id="llama, on two"),
    pytest.param(QWEN3_MOE, {"attn_cp_size": 0, "ep_size": 2, "cuda_graph": False}, id="experts, on all"),
    pytest.param(DEEPSEEK, {"attn_cp_size": 0, "page_size": 16}, id="mla, on all, pages"),
])  # fmt: skip
def test_prompts_that_ranks_share_have_the_likelihoods_of_one_gpu(
    ranks: int, config: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    """In float16, which such backends take: rounding may decide between two tokens, so prompts are compared."""
    if torch.cuda.device_count() < ranks:
        pytest.skip(f"needs {ranks} NVIDIA GPUs; there are {torch.cuda.device_count()}")
    q.write_checkpoint(tmp_path, config, drawn(config))
    prompts, found = [torch.randint(0, 96, (n,)).tolist() for n in (19, 1, 41)], []
    several = {name: ranks if value == 0 and name.endswith("_size") else value for name, value in options.items()}
    alone = {"cuda_graph": False, "page_size": options.get("page_size", 1)}
    for given in (alone, {"tp_size": ranks, "dist_timeout": 120, **several}):
        common: dict[str, Any] = {"device": "cuda", "dtype": "float16", "attention_backend": "fa3"}
        with sglab.Engine(tmp_path, check_invariants=True, **common, **given) as engine:
            outs = engine.generate(prompts, GREEDY, return_logprob=True, logprob_start_len=0)
            found.append([value for out in outs for value in (out.input_logprobs or [])[1:]])
    torch.testing.assert_close(*map(torch.tensor, found), atol=0.03, rtol=0.02)


@pytest.mark.parametrize("ranks", [2])
@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("within", [False, True], ids=["between passes", "within a pass"])
def test_a_rank_that_dies(
    within: bool, graphs: bool, ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if torch.cuda.device_count() < ranks:
        pytest.skip(f"needs {ranks} NVIDIA GPUs; there are {torch.cuda.device_count()}")
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    options = {"cuda_graph": graphs, "cuda_graph_bs": (1, 4) if graphs else None}
    died = "rank 1: expected an answer, got the end of its process"
    with sglab.Engine(
        tmp_path, device="cuda", dtype="float32", tp_size=ranks, dist_timeout=60, page_size=1, **options
    ) as engine:
        assert engine.ranks is not None
        engine.generate([1, 2, 3], GREEDY)
        if within:
            monkeypatch.setattr(Ranks, "broadcast", lambda self, message: self.processes[0].kill())
        else:
            engine.ranks.processes[0].kill()
            engine.ranks.processes[0].wait()
        with pytest.raises((RequestAbortedError, RankDiedError), match=died):
            engine.generate([1, 2, 3], GREEDY)
    sglab.Engine(tmp_path, device="cuda", dtype="float32").generate([1, 2, 3], GREEDY)
