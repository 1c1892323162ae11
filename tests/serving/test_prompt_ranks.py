"""Engines whose ranks share each prompt's new tokens (`attn_cp_size`): one process's tokens, or a refusal by name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import sglab
from sglab.attention.registry import ATTENTION_BACKENDS
from sglab.engine import BadArgumentError
from sglab.serving.output import Output
from sglab.serving.ranks import Ranks
from sglab.workbench import record_ranks
from tests.support import quantized as q
from tests.support.float32_backends import BACKENDS, fork_follower
from tests.support.likelihoods import assert_same_likelihoods
from tests.support.tiny_configs import DEEPSEEK, LLAMA, QWEN3_MOE, drawn

GREEDY = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}
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
    torch.manual_seed(0)
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    for name, backend in BACKENDS.items():
        monkeypatch.setitem(ATTENTION_BACKENDS, name, backend)


def outputs(path: Path, prompts: list[list[int]], dtype: str, **options: Any) -> list[Output]:
    with sglab.Engine(path, device="cpu", dtype=dtype, check_invariants=True, **options) as engine:
        found = engine.generate(prompts, GREEDY, return_logprob=True, logprob_start_len=0)
        assert any(step.graph_bs for step in engine.history.steps) == bool(engine.config.cuda_graph)
        return found


@pytest.mark.parametrize(("config", "options"), [
    pytest.param(LLAMA, {"tp_size": 2, "attn_cp_size": 2}, id="llama"),
    pytest.param(
        LLAMA, {"tp_size": 4, "attn_cp_size": 2, "page_size": 4, "disable_overlap_schedule": False,
                "chunked_prefill_size": 16},
        id="heads on two, overlap, pages, chunks",
    ),
    pytest.param(
        QWEN3_MOE, {"tp_size": 4, "attn_cp_size": 4, "ep_size": 2, "enable_mixed_chunk": True,
                    "chunked_prefill_size": 16},
        id="four ranks, experts, mixed chunks",
    ),
    pytest.param(
        LLAMA, {"tp_size": 2, "attn_cp_size": 2, "cuda_graph": True, "cuda_graph_bs": (1, 4)}, id="graphs, llama"
    ),
    pytest.param(DEEPSEEK, {"tp_size": 2, "attn_cp_size": 2, "chunked_prefill_size": 16}, id="mla, chunks"),
    pytest.param(
        INDEXED, {"tp_size": 2, "attn_cp_size": 2, "chunked_prefill_size": 30, "page_size": 1}, id="dsa, an indexer"
    ),
    pytest.param(
        INDEXED, {"tp_size": 4, "attn_cp_size": 2, "enable_mixed_chunk": True, "chunked_prefill_size": 20,
                  "page_size": 1},
        id="dsa, heads on two, mixed chunks",
    ),
])  # fmt: skip
def test_tokens_are_those_of_one_process(config: dict[str, Any], options: dict[str, Any], tmp_path: Path) -> None:
    """And log probabilities of all of the prompts; one of a token is everyone's, with those beside it in a zigzag."""
    q.write_checkpoint(tmp_path, config, drawn(config))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (19, 1, 41)]
    options = {**options, "attention_backend": "exact_dsa" if config is INDEXED else "exact_fa3"}
    given = {name: options[name] for name in ("attention_backend", "page_size") if name in options}
    alone = outputs(tmp_path, prompts, "float32", **given)
    spread = outputs(tmp_path, prompts, "float32", dist_timeout=60, **options)
    for one, other in zip(alone, spread, strict=True):
        assert one.token_ids == other.token_ids
        assert one.input_logprobs is not None and other.input_logprobs is not None
        for mine, theirs in ((one.input_logprobs[1:], other.input_logprobs[1:]), (one.logprobs, other.logprobs)):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("backend", "config", "page"),
    [
        ("fa3", LLAMA, 1),
        ("fa3", LATENT_512, 1),
        ("fa4", LLAMA, 1),
        ("trtllm_mha", LLAMA, 16),
        ("ascend", LLAMA, 16),
        ("dsa", INDEXED, 64),
    ],
)
def test_backends_in_16_bits(backend: str, config: dict[str, Any], page: int, tmp_path: Path) -> None:
    """Likelihoods of a prompt whose prefix is cached, and of every token after it as long as both chose the same."""
    config = {**config, "max_position_embeddings": 512}
    q.write_checkpoint(tmp_path, config, drawn(config))
    shared = torch.randint(0, 96, (130,)).tolist()
    prompt, found = [*shared, *range(40)], []
    every = list(range(config["vocab_size"]))
    wanted: dict[str, Any] = {"return_logprob": True, "logprob_start_len": 129, "token_ids_logprob": every}
    for ranks in ({}, {"tp_size": 2, "attn_cp_size": 2, "dist_timeout": 60}):
        options = {"attention_backend": backend, "max_total_tokens": 768, "page_size": page, **ranks}
        with sglab.Engine(tmp_path, device="cpu", dtype="float16", check_invariants=True, **options) as engine:
            engine.generate(shared, {"temperature": 0, "max_new_tokens": 1})
            out = engine.generate(prompt, {"temperature": 0, "max_new_tokens": 3, "ignore_eos": True}, **wanted)
            assert out.cached_tokens >= 128
            found.append(out)
    assert_same_likelihoods(*found, atol=0.03, rtol=0.02)


@pytest.mark.parametrize("seed", [0, 3])
def test_any_schedule(seed: int, tmp_path: Path) -> None:
    """Arrivals, chunks, pages and a pool that forces retraction are drawn; graphs and overlap are on."""
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    draw = random.Random(seed)
    page = draw.choice([1, 2])
    prompts = [[draw.randrange(96) for _ in range(draw.randint(6, 12))] for _ in range(8)]
    arrivals = [draw.randint(0, 2) for _ in prompts]
    options = {
        "attention_backend": "exact_fa3",
        "tp_size": 2,
        "attn_cp_size": 2,
        "page_size": page,
        "max_total_tokens": 64,
        "chunked_prefill_size": 2 * page * draw.randint(2, 4),
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
    with sglab.Engine(
        tmp_path, device="cpu", dtype="float32", attention_backend="exact_fa3", disable_radix_cache=True
    ) as alone:
        for i, prompt in enumerate(prompts):
            assert handles[i].output().token_ids == alone.generate(prompt, sampling).token_ids


def test_what_ranks_exchange_is_recorded(tmp_path: Path) -> None:
    """In a prompt a layer gathers keys and values in one message; a decode has only the sums of its MLPs."""
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    options = {"tp_size": 2, "attn_cp_size": 2, "dist_timeout": 60}
    with sglab.Engine(tmp_path, device="cpu", dtype="float16", **options) as engine:
        with record_ranks(engine) as run:
            engine.generate([5, 6, 7, 8, 9], {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True})
        prefill, decode = ([joint.any for joint in run.of_pass(step)] for step in (0, 1))
        moved = [joint.moved for joint in run.of_pass(0) if joint.any.module_class == "RadixAttention"]
    inside = [[one.kind for one in each if one.module_class == "RadixAttention"] for each in (prefill, decode)]
    assert set(inside[0]) == {"all_gather"} and not inside[1]
    heads, head_dim, tokens = int(str(LLAMA["num_key_value_heads"])), 16, 3  # tokens of the rank that has most
    assert set(moved) == {2 * 2 * head_dim * heads * tokens}
    assert {one.kind for one in decode} == {"all_reduce"}


def test_what_cannot_share_a_prompt_is_refused(tmp_path: Path) -> None:
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    two = {"tp_size": 2, "attn_cp_size": 2}
    for options, message in (
        ({"attn_cp_size": 2}, "attn_cp_size: expected a divisor of tp_size 1, got 2"),
        ({"tp_size": 2, "attn_cp_size": 0}, "attn_cp_size: expected"),
        ({**two, "dp_size": 2}, "dp_size: expected its default with attn_cp_size above 1, got 2"),
        ({**two, "dcp_size": 2}, "dcp_size: expected its default with attn_cp_size above 1, got 2"),
        ({**two, "speculative_algorithm": "NGRAM"}, "speculative_algorithm: expected its default with attn_cp_size"),
        ({**two, "enable_hierarchical_cache": True}, "enable_hierarchical_cache: expected its default with attn_cp"),
        ({**two, "enable_two_batch_overlap": True}, "enable_two_batch_overlap: expected its default with attn_cp_size"),
        ({**two, "enable_piecewise_cuda_graph": True}, "enable_piecewise_cuda_graph: expected its default with attn_"),
        ({**two, "chunked_prefix_threshold": 1}, "chunked_prefix_threshold: expected its default with attn_cp_size"),
        ({**two, "attention_backend": "triton"}, "attn_cp_size: expected 1 for triton, got 2"),
        (
            {**two, "enable_deterministic_inference": True},
            "enable_deterministic_inference: expected False for fa3 with attn_cp_size 2",
        ),
        ({**two, "dtype": "float32"}, "dtype: expected float16 or bfloat16 for fa3 with attn_cp_size 2, got float32"),
    ):
        with pytest.raises(BadArgumentError, match=message):
            sglab.Engine(tmp_path, device="cpu", dist_timeout=20, **{"dtype": "float16", **options})
        assert not torch.distributed.is_initialized()
