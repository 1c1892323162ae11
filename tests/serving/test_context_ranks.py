"""Engines whose ranks share each request's context (`dcp_size`): the tokens of one process, or a refusal by name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.serving.ranks import Ranks
from sglab.workbench import record_ranks
from tests.support import quantized as q
from tests.support.likelihoods import assert_same_likelihoods
from tests.support.ranks import fork_follower
from tests.support.tiny_configs import DEEPSEEK, LLAMA, QWEN3_MOE, drawn

GREEDY = {"temperature": 0, "max_new_tokens": 6}
LATENT_512 = {**DEEPSEEK, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "max_position_embeddings": 512}
"""What kernels of absorbed MLA are made for."""


INDEXED = {
    **LATENT_512,
    "architectures": ["DeepseekV32ForCausalLM"],
    "index_topk": 16,
    "index_head_dim": 128,
    "index_n_heads": 4,
}


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranks, "_start", fork_follower)


def tokens(path: Path, prompts: list[list[int]], **options: Any) -> list[list[int]]:
    with sglab.Engine(path, device="cpu", dtype="float32", check_invariants=True, **options) as engine:
        found = [output.token_ids for output in engine.generate(prompts, GREEDY)]
        assert any(step.graph_bs for step in engine.history.steps) == bool(engine.config.cuda_graph)
        return found


@pytest.mark.parametrize(("config", "options"), [
    pytest.param(LLAMA, {"tp_size": 2, "dcp_size": 2, "chunked_prefill_size": 8}, id="llama, chunks"),
    pytest.param(
        LLAMA, {"tp_size": 4, "dcp_size": 2, "page_size": 2, "dcp_comm_backend": "a2a"}, id="a KV head for two ranks"
    ),
    pytest.param(LLAMA, {"tp_size": 4, "dcp_size": 4, "disable_overlap_schedule": False}, id="four ranks, overlap"),
    pytest.param(
        QWEN3_MOE, {"tp_size": 4, "dp_size": 2, "dcp_size": 2, "enable_mixed_chunk": True, "chunked_prefill_size": 8},
        id="two groups, experts, mixed chunks",
    ),
    pytest.param(
        LLAMA, {"tp_size": 2, "dcp_size": 2, "cuda_graph": True, "cuda_graph_bs": (1, 4)}, id="graphs, llama"
    ),
    pytest.param(
        DEEPSEEK, {"tp_size": 2, "dcp_size": 2, "page_size": 4, "cuda_graph": True, "cuda_graph_bs": (3,)},
        id="graphs, mla, pages",
    ),
])  # fmt: skip
def test_tokens_are_those_of_one_process(config: dict[str, Any], options: dict[str, Any], tmp_path: Path) -> None:
    q.write_checkpoint(tmp_path, config, drawn(config))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (9, 1, 21)]
    assert tokens(tmp_path, prompts, dist_timeout=60, **options) == tokens(tmp_path, prompts)


@pytest.mark.parametrize(
    ("backend", "config", "pool"),
    [
        ("intel_xpu", {**LLAMA, "max_position_embeddings": 512}, "auto"),
        ("flashinfer", LATENT_512, "auto"),
        ("trtllm_mla", LATENT_512, "auto"),
        ("cutedsl_mla", LATENT_512, "auto"),
        ("aiter", LATENT_512, "auto"),
        ("dsa", INDEXED, "auto"),
        ("ascend", INDEXED, "auto"),
        ("triton", LATENT_512, "fp8_e5m2"),
    ],
)
def test_what_rounds_finds_the_same_likelihoods(
    backend: str, config: dict[str, Any], pool: str, tmp_path: Path
) -> None:
    """Of a prompt whose prefix is cached, and of every token after it as long as both chose the same ones."""
    q.write_checkpoint(tmp_path, config, drawn(config))
    shared = torch.randint(0, 96, (130,)).tolist()
    prompt, found = [*shared, 5, 6, 7], []
    every = list(range(config["vocab_size"]))
    wanted: dict[str, Any] = {"return_logprob": True, "logprob_start_len": 129, "token_ids_logprob": every}
    for ranks in ({}, {"tp_size": 2, "dcp_size": 2, "dist_timeout": 60}):
        options = {"attention_backend": backend, "kv_cache_dtype": pool, "max_total_tokens": 768, **ranks}
        options |= {"page_size": 16} if backend == "ascend" else {}
        with sglab.Engine(tmp_path, device="cpu", dtype="bfloat16", check_invariants=True, **options) as engine:
            engine.generate(shared, {"temperature": 0, "max_new_tokens": 1})
            out = engine.generate(prompt, {"temperature": 0, "max_new_tokens": 3, "ignore_eos": True}, **wanted)
            assert engine.config.dcp_size == ranks.get("dcp_size", 1)
            assert out.cached_tokens >= 128
            found.append(out)
    assert_same_likelihoods(*found, atol=0.1, rtol=0.05)


@pytest.mark.parametrize("seed", [0, 3])
def test_any_schedule(seed: int, tmp_path: Path) -> None:
    """Arrivals, chunks, pages and a pool that forces retraction are drawn; graphs and overlap are on."""
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    draw = random.Random(seed)
    page = draw.choice([1, 2])
    prompts = [[draw.randrange(96) for _ in range(draw.randint(6, 12))] for _ in range(8)]
    arrivals = [draw.randint(0, 2) for _ in prompts]
    options = {
        "tp_size": 2,
        "dcp_size": 2,
        "page_size": page,
        "max_total_tokens": 32,
        "chunked_prefill_size": 2 * page * draw.randint(1, 3),
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
        assert any(step.retracted for step in engine.history.steps)
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", disable_radix_cache=True) as alone:
        for i, prompt in enumerate(prompts):
            assert handles[i].output().token_ids == alone.generate(prompt, sampling).token_ids


@pytest.mark.parametrize(("comm", "joins"), [("ag_rs", ["all_gather", "reduce_scatter"]), ("a2a", ["all_to_all"])])
def test_what_ranks_exchange_is_recorded(comm: str, joins: list[str], tmp_path: Path) -> None:
    """A decode gathers queries and joins results; a prompt without a prefix asks nothing of the others. Of two kinds of
    gathering the last is that of LSEs."""
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    options = {"tp_size": 2, "dcp_size": 2, "dcp_comm_backend": comm, "dist_timeout": 60}
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", **options) as engine:
        with record_ranks(engine) as run:
            engine.generate([5, 6, 7], {"temperature": 0, "max_new_tokens": 2})
        moved = {joint.any.kind: joint.moved for joint in run.of_pass(1) if joint.any.module_class == "RadixAttention"}
        prefill, decode = ([joint.any for joint in run.of_pass(step)] for step in (0, 1))
    inside = [[one.kind for one in each if one.module_class == "RadixAttention"] for each in (prefill, decode)]
    assert inside == [[], ["all_gather", *joins]]
    heads, results = LLAMA["num_attention_heads"], 4 * 16  # bytes of a head's
    of_a_rank = {
        "ag_rs": {"all_gather": 4 * heads, "reduce_scatter": 2 * results},
        "a2a": {"all_to_all": 2 * results + 8},
    }
    assert {kind: moved[kind] for kind in of_a_rank[comm]} == of_a_rank[comm]


def test_each_rank_has_half_of_the_rows_and_all_ranks_the_slots(tmp_path: Path) -> None:
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    options = {"tp_size": 2, "dcp_size": 2, "page_size": 4, "max_total_tokens": 64, "dist_timeout": 60}
    with sglab.Engine(tmp_path, device="cpu", dtype="float32", **options) as engine:
        pool, allocator = engine.runner.token_to_kv_pool, engine.runner.token_to_kv_pool_allocator
        assert (pool.size, pool.page_size) == (64, 4) and (allocator.size, allocator.page_size) == (128, 8)
        assert pool.get_key_buffer(0).shape[1] == LLAMA["num_key_value_heads"]
        engine.generate(list(range(40)), GREEDY)  # more than a rank has slots for, with its output
        assert engine.tree_cache.page_size == 8


def test_what_cannot_share_a_context_is_refused(tmp_path: Path) -> None:
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    two = {"tp_size": 2, "dcp_size": 2}
    for options, message in (
        ({"dcp_size": 2}, "dcp_size: expected a divisor of the 1 ranks that share a request, got 2"),
        ({"tp_size": 4, "dp_size": 4, "dcp_size": 2}, "dcp_size: expected a divisor of the 1 ranks"),
        ({"tp_size": 2, "dcp_size": 0}, "dcp_size: expected"),
        ({**two, "dcp_comm_backend": "fi_a2a"}, "dcp_comm_backend: expected .*ag_rs"),
        ({"tp_size": 2, "dcp_comm_backend": "a2a"}, "dcp_comm_backend: expected None with dcp_size 1, got a2a"),
        (
            {**two, "speculative_algorithm": "NGRAM"},
            "speculative_algorithm: expected its default with dcp_size above 1",
        ),
        ({**two, "enable_hierarchical_cache": True}, "enable_hierarchical_cache: expected its default with dcp_size"),
        ({**two, "enable_two_batch_overlap": True}, "enable_two_batch_overlap: expected its default with dcp_size"),
        (
            {**two, "enable_piecewise_cuda_graph": True},
            "enable_piecewise_cuda_graph: expected its default with dcp_size",
        ),
        ({**two, "attention_backend": "fa3"}, "dcp_size: expected 1 for fa3, got 2"),
        (
            {**two, "attention_backend": "intel_xpu", "cuda_graph": True, "dtype": "bfloat16"},
            "cuda_graph: expected no CUDA graph for intel_xpu with dcp_size 2",
        ),
        (
            {**two, "enable_deterministic_inference": True},
            "enable_deterministic_inference: expected False for triton with",
        ),
        ({**two, "kv_cache_dtype": "fp4_mx_block16"}, "kv_cache_dtype: expected .* for triton with dcp_size 2"),
        ({**two, "page_size": 4, "chunked_prefill_size": 4}, "chunked_prefill_size: expected at least page_size 8"),
    ):
        with pytest.raises(BadArgumentError, match=message):
            sglab.Engine(tmp_path, device="cpu", dist_timeout=20, **{"dtype": "float32", **options})
        assert not torch.distributed.is_initialized()
