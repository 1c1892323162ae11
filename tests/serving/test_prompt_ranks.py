"""Engines whose ranks share each prompt's new tokens (`attn_cp_size`): one process's tokens, or a refusal by name."""

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
from tests.support.ranks import fork_follower
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
    monkeypatch.setattr(Ranks, "_start", fork_follower)


@pytest.mark.parametrize(("config", "options"), [
    pytest.param(LLAMA, {"tp_size": 2, "attn_cp_size": 2}, id="llama"),
    pytest.param(LLAMA, {"tp_size": 2, "attn_cp_size": 2, "chunked_prefill_size": 16}, id="llama, chunks"),
    pytest.param(
        LLAMA, {"tp_size": 4, "attn_cp_size": 2, "page_size": 4, "disable_overlap_schedule": False},
        id="heads on two, overlap, pages",
    ),
    pytest.param(LLAMA, {"tp_size": 4, "attn_cp_size": 4, "attention_backend": "fa4"}, id="four ranks, fa4"),
    pytest.param(
        LLAMA, {"tp_size": 2, "attn_cp_size": 2, "attention_backend": "trtllm_mha", "page_size": 16}, id="trtllm_mha"
    ),
    pytest.param(LLAMA, {"tp_size": 2, "attn_cp_size": 2, "attention_backend": "ascend"}, id="ascend"),
    pytest.param(
        QWEN3_MOE, {"tp_size": 4, "attn_cp_size": 2, "ep_size": 2, "enable_mixed_chunk": True,
                    "chunked_prefill_size": 16},
        id="experts, mixed chunks",
    ),
    pytest.param(
        LLAMA, {"tp_size": 2, "attn_cp_size": 2, "cuda_graph": True, "cuda_graph_bs": (1, 4)}, id="graphs, llama"
    ),
    pytest.param(DEEPSEEK, {"tp_size": 2, "attn_cp_size": 2}, id="mla"),
    pytest.param(INDEXED, {"tp_size": 2, "attn_cp_size": 2, "chunked_prefill_size": 50}, id="dsa, an indexer"),
    pytest.param(
        INDEXED, {"tp_size": 4, "attn_cp_size": 2, "enable_mixed_chunk": True, "chunked_prefill_size": 20},
        id="dsa, mixed chunks",
    ),
])  # fmt: skip
def test_what_ranks_compute_is_what_one_process_computes(
    config: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    """Log probabilities of whole prompts and of what follows; a prompt that is too short is everyone's."""
    q.write_checkpoint(tmp_path, config, drawn(config))
    prompts = [torch.randint(0, 96, (n,)).tolist() for n in (19, 1, 41)]
    alone = {name: options[name] for name in ("attention_backend", "page_size") if name in options}
    alone = {"attention_backend": "dsa" if config is INDEXED else "fa3", **alone}
    found = []
    for given in (alone, {**options, "dist_timeout": 60}):
        with sglab.Engine(tmp_path, device="cpu", dtype="float16", check_invariants=True, **given) as engine:
            outs = engine.generate(prompts, GREEDY, return_logprob=True, logprob_start_len=0)
            found.append(outs)
            assert any(step.graph_bs for step in engine.history.steps) == bool(engine.config.cuda_graph)
    for one, spread in zip(*found, strict=True):
        assert one.token_ids == spread.token_ids
        for mine, theirs in ((one.input_logprobs[1:], spread.input_logprobs[1:]), (one.logprobs, spread.logprobs)):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), atol=1e-2, rtol=1e-2)


def test_a_cached_prefix_is_read_by_every_rank(tmp_path: Path) -> None:
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    shared = torch.randint(0, 96, (30,)).tolist()
    prompt, found = [*shared, *range(12)], []
    for ranks in ({}, {"tp_size": 2, "attn_cp_size": 2, "dist_timeout": 60}):
        with sglab.Engine(tmp_path, device="cpu", dtype="float16", attention_backend="fa3", **ranks) as engine:
            engine.generate(shared, {"temperature": 0, "max_new_tokens": 1})
            out = engine.generate(prompt, GREEDY)
            assert out.cached_tokens >= 29
            found.append(out.token_ids)
    assert found[0] == found[1]


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
    with sglab.Engine(tmp_path, device="cpu", dtype="float16", check_invariants=True, **options) as engine:
        handles = {}
        for step in range(10):
            for i, arrival in enumerate(arrivals):
                if arrival == step:
                    handles[i] = engine.submit(prompts[i], sampling)
            engine.step()
        engine.run()
        assert any(step.retracted for step in engine.history.steps)
    with sglab.Engine(
        tmp_path, device="cpu", dtype="float16", attention_backend="fa3", disable_radix_cache=True
    ) as alone:
        for i, prompt in enumerate(prompts):
            assert handles[i].output().token_ids == alone.generate(prompt, sampling).token_ids


def test_what_ranks_exchange_is_recorded(tmp_path: Path) -> None:
    """In a prompt a layer gathers keys and values in one message, and the tokens before its MLP; a decode has only the
    sums of the MLP."""
    q.write_checkpoint(tmp_path, LLAMA, drawn(LLAMA))
    options = {"tp_size": 2, "attn_cp_size": 2, "dist_timeout": 60}
    with sglab.Engine(tmp_path, device="cpu", dtype="float16", **options) as engine:
        with record_ranks(engine) as run:
            engine.generate([5, 6, 7, 8, 9], {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True})
        prefill, decode = ([joint.any for joint in run.of_pass(step)] for step in (0, 1))
        heads, tokens = LLAMA["num_key_value_heads"], 3  # of the rank that has most
        moved = [joint.moved for joint in run.of_pass(0) if joint.any.module_class == "RadixAttention"]
    inside = [[one.kind for one in each if one.module_class == "RadixAttention"] for each in (prefill, decode)]
    layers = LLAMA["num_hidden_layers"]
    assert inside[0] == ["all_gather"] * len(inside[0]) and not inside[1] and inside[0]
    head_dim = LLAMA["hidden_size"] // LLAMA["num_attention_heads"]
    assert set(moved) == {2 * 2 * head_dim * heads * tokens}
    assert [one.kind for one in decode] == ["all_reduce"] * len(decode)
    assert len(decode) in (1, layers)


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
        ({**two, "chunked_prefix_threshold": 0}, "chunked_prefix_threshold: expected its default with attn_cp_size"),
        ({**two, "attention_backend": "triton"}, "attn_cp_size: expected 1 for triton, got 2"),
        (
            {**two, "enable_deterministic_inference": True},
            "enable_deterministic_inference: expected False for fa3 with attn_cp_size 2",
        ),
        ({**two, "dtype": "float32"}, "q: expected float16 or bfloat16 for fa3"),
    ):
        with (
            pytest.raises(BadArgumentError, match=message),
            sglab.Engine(tmp_path, device="cpu", dist_timeout=20, **{"dtype": "float16", **options}) as engine,
        ):
            engine.generate([1] * 8, GREEDY)
        assert not torch.distributed.is_initialized()
