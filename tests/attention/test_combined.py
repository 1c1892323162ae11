"""Backends made of backends: prompts and decoding apart, micro-batches, layers with linear attention."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import UnsupportedError, create_attention_backend
from sglab.attention.combined import (
    HybridAttnBackend,
    HybridLinearAttnBackend,
    LinearAttnBackend,
    TboAttnBackend,
    attn_backend_wrapper,
)
from sglab.attention.combined.tbo import Cut, compute_cut
from sglab.attention.selection import HARDWARE
from sglab.engine import AttentionType, ForwardMode, GraphBatch, LinearStatePool
from sglab.engine.cache.state_pool import StateConfig
from sglab.workbench import decode_batch, extend_batch, max_error, reference
from tests.support.attention import float64_attention, verify_batch

SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "page_size": 4}


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_each_mode_goes_to_its_backend(mode: Any) -> None:
    decoding, prompts = decode_batch([9, 4], **SHAPE), extend_batch([9, 7], [4, 0], **SHAPE)
    for batch, serving in ((decoding, "torch_native"), (prompts, "fa3")):
        hybrid = HybridAttnBackend.of("fa3", "torch_native", batch.runner, mode)
        assert max_error(sglab.attend(batch, hybrid), reference(batch).o) <= 3e-3
        assert hybrid.serving.name == serving
    batch = extend_batch([12, 7], [9, 4], max_context_len=64, **SHAPE)
    verify = verify_batch(batch, [9, 4], [-1, 0, 0])
    hybrid = HybridAttnBackend.of("fa3", "torch_native", batch.runner, mode)
    hybrid.prepare(verify)
    assert hybrid.serving.name == ("fa3" if mode == "prefill" else "torch_native")
    out = hybrid.forward(batch.q, batch.k, batch.v, batch.layer, verify)
    assert max_error(out.view(-1, 4, 16), float64_attention(batch, parents=[-1, 0, 0])) <= 3e-3


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_a_diffusion_models_blocks_are_captured_over_the_prompts_backend(mode: Any) -> None:
    batch = extend_batch([12, 7], [8, 3], max_context_len=64, **SHAPE)
    batch.layer.attn_type = AttentionType.ENCODER_ONLY
    block = replace(batch.forward_batch, forward_mode=ForwardMode.DLLM_EXTEND)
    runner = replace(batch.runner, kernel_implementation="reference")
    hybrid = HybridAttnBackend.of("flashinfer", "triton", runner, mode)
    hybrid.init_graph(2, 8)
    graph_batch = GraphBatch.of(block)
    hybrid.prepare_capture(graph_batch)
    hybrid.prepare_replay(graph_batch)
    assert hybrid.serving.name == "flashinfer"
    out = hybrid.forward(batch.q, batch.k, batch.v, batch.layer, block)
    assert max_error(out.view(-1, 4, 16), float64_attention(batch)) <= 3e-3


def test_a_hybrids_refusals_are_the_serving_backends() -> None:
    batch = decode_batch([9], **SHAPE)
    batch.layer.logit_cap = 2.0
    with pytest.raises(UnsupportedError, match=r"logit_cap: expected 0 for torch_native, got 2\.0\. Use "):
        sglab.attend(batch, HybridAttnBackend.of("fa3", "torch_native", batch.runner))
    with pytest.raises(UnsupportedError, match="speculative_attention_mode: expected 'prefill' or 'decode', got 'x'"):
        HybridAttnBackend.of("fa3", "triton", batch.runner, "x")  # type: ignore[arg-type]


def test_where_a_pass_is_cut() -> None:
    assert compute_cut(ForwardMode.DECODE, 5, None) == Cut(2, 2)
    assert compute_cut(ForwardMode.TARGET_VERIFY, 5, None, 4) == Cut(2, 8)
    assert compute_cut(ForwardMode.DECODE, 1, None) is None
    assert compute_cut(ForwardMode.EXTEND, 4, [4, 4, 4, 4]) == Cut(2, 8)
    assert compute_cut(ForwardMode.EXTEND, 3, [32, 5, 5]) == Cut(0, 21, two_chunk=True)
    assert compute_cut(ForwardMode.MIXED, 3, [32, 5, 5]) is None


@pytest.mark.parametrize("name", ["fa3", "flashinfer", "torch_native"])
@pytest.mark.parametrize("case", ["decode", "extend", "one long prompt", "verify"])
def test_two_micro_batches_give_the_whole_batchs_answer(name: str, case: str) -> None:
    parents = [-1, 0, 0] if case == "verify" else None
    if case == "decode":
        batch = decode_batch([20, 5, 33], **SHAPE)
    elif case == "extend":
        batch = extend_batch([20, 15, 12], [10, 4, 0], **SHAPE)
    elif case == "verify":
        batch = extend_batch([12, 7], [9, 4], max_context_len=64, **SHAPE)
    else:
        batch = extend_batch([40, 6], [8, 1], **SHAPE)
    whole = batch.forward_batch if parents is None else verify_batch(batch, [9, 4], parents)
    backend = TboAttnBackend.of(name, batch.runner)
    backend.prepare(whole)
    assert backend.micro_batches is not None
    outs, at = [], 0
    for part in backend.micro_batches:
        rows = slice(at, at + len(part.input_ids))
        at = rows.stop
        assert part.attn_backend is not None
        outs.append(part.attn_backend.forward(batch.q[rows], batch.k[rows], batch.v[rows], batch.layer, part))
    expected = float64_attention(batch, parents=parents)
    assert max_error(torch.cat(outs).view(-1, 4, 16), expected) <= 3e-3
    together = backend.forward(batch.q, batch.k, batch.v, batch.layer, whole)
    assert max_error(together.view(-1, 4, 16), expected) <= 3e-3


def test_a_model_with_linear_layers_is_wrapped() -> None:
    batch = extend_batch([9, 7], [4, 0], dtype="float32", **SHAPE)
    plain = create_attention_backend("torch_native", batch.runner)
    assert attn_backend_wrapper(batch.runner, plain) is plain
    pool = LinearStatePool(StateConfig(1, (4, 3), (2, 4, 4)), 8, torch.float32)
    runner = replace(batch.runner, state_pool=pool)
    wrapped = attn_backend_wrapper(runner, plain, [0])
    assert isinstance(wrapped, HybridLinearAttnBackend) and isinstance(wrapped.linear_attn_backend, LinearAttnBackend)
    assert max_error(sglab.attend(batch, wrapped), reference(batch).o) <= 3e-6
    made = wrapped.linear_attn_backend.forward_metadata
    assert made is not None and made.query_start_loc.tolist() == [0, 5, 12]
    assert made.has_initial_states.tolist() == [True, False]
    assert made.mamba_cache_indices.tolist() == batch.forward_batch.req_pool_indices.tolist()
    with pytest.raises(UnsupportedError, match=r"layer_id: expected one of \[0\], the layers with softmax .*, got 3"):
        wrapped.forward(batch.q, batch.k, batch.v, replace(batch.layer, layer_id=3), batch.forward_batch)


def test_gated_delta_net_is_refused_where_sglang_refuses_it() -> None:
    batch = decode_batch([9], **SHAPE)
    pool = LinearStatePool(StateConfig(1, (4, 3), (2, 4, 4)), 8, torch.float32)
    runner = replace(batch.runner, state_pool=pool)
    backend = create_attention_backend("flashinfer", runner)
    options: dict[str, Any] = {"gated_delta_net": True, "hardware": HARDWARE["B200"]}
    with pytest.raises(UnsupportedError, match=r"backend: expected triton or trtllm_mha for .* B200, got flashinfer"):
        attn_backend_wrapper(runner, backend, [0], **options)
    assert isinstance(attn_backend_wrapper(runner, backend, [0], version="0.5.23", **options), HybridLinearAttnBackend)
    mla = decode_batch([9], num_heads=2, page_size=64)
    with pytest.raises(UnsupportedError, match="model: expected MHA beside Gated DeltaNet, got MLA"):
        attn_backend_wrapper(mla.runner, create_attention_backend("flashmla", mla.runner), gated_delta_net=True)
