"""KV pools with a scale for each block of a row: through hybrids and graphs, moved, spoilt, and refused."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.attention import UnsupportedError, create_attention_backend
from sglab.attention.combined import HybridAttnBackend
from sglab.engine import (
    BadArgumentError,
    BlockScaledMHATokenToKVPool,
    FP4MLATokenToKVPool,
    GraphBatch,
    MHATokenToKVPool,
)
from sglab.engine.errors import NonFiniteKVError
from sglab.workbench import Batch, decode_batch, extend_batch, max_error
from tests.support.attention import float64_attention, quantize_pool

SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 64, "dtype": "bfloat16"}


def attended(backend: Any, batch: Batch, **options: Any) -> torch.Tensor:
    backend.prepare(batch.forward_batch)
    k, v = batch.k.to(batch.dtype), batch.v.to(batch.dtype)
    out = backend.forward(batch.q, k, v, batch.layer, batch.forward_batch, save_kv_cache=False, **options)
    return out.view(-1, batch.num_heads, batch.layer.v_head_dim)


@pytest.mark.parametrize(
    ("prompts", "decoding", "kv_format"),
    [("flashinfer", "trtllm_mha", "nvfp4"), ("fa4", "triton", "fp4_mx_block16"), ("fa4", "fa4", "mxfp8")],
)
def test_prompts_and_decoding_read_one_pool(prompts: str, decoding: str, kv_format: str) -> None:
    """SGLang's pairs: nvfp4 is decoded by TensorRT-LLM's kernels alone, fp4_mx_block16 not by FlashAttention 4's."""
    shape = {**SHAPE, "page_size": 128, "head_dim": 128} if kv_format == "mxfp8" else {**SHAPE, "page_size": 16}
    implementation = "reference" if decoding == "triton" else "auto"
    for batch in (decode_batch([19, 40], **shape), extend_batch([19, 40], [7, 0], **shape)):
        quantize_pool(batch, torch.uint8, kv_format=kv_format)
        hybrid = HybridAttnBackend.of(prompts, decoding, replace(batch.runner, kernel_implementation=implementation))
        assert max_error(attended(hybrid, batch), float64_attention(batch)) <= 2.5e-2
    if prompts != decoding:
        batch = decode_batch([19], **shape)
        quantize_pool(batch, torch.uint8, kv_format=kv_format)
        words = f"kv_cache_dtype: expected .*{kv_format} in prompts for {prompts}, got {kv_format} in DECODE. Use .*"
        with pytest.raises(UnsupportedError, match=words + decoding):
            attended(create_attention_backend(prompts, batch.runner), batch)


@pytest.mark.parametrize(
    ("name", "kind", "kv_format"),
    [
        ("triton", "mha", "fp4_mx_block16"),
        ("trtllm_mha", "mha", "nvfp4"),
        ("fa4", "mha", "mxfp8"),
        ("trtllm_mla", "mla", "fp4_mx_block16"),
        ("flashinfer", "mla", "fp4_mx_block16"),
    ],
)
def test_a_graph_reads_what_the_pool_holds_at_its_replay(name: str, kind: str, kv_format: str) -> None:
    """Indices of a graph are as long as its largest pass: then the whole pool is read."""
    shape = {**SHAPE, "page_size": 64, "max_context_len": 128, "pool_tokens": 512}
    if kind == "mla":
        shape = {"kind": "mla", "num_heads": 4, "dtype": "bfloat16", "page_size": 64, "max_context_len": 128}
    if kv_format == "mxfp8":
        shape |= {"page_size": 128, "head_dim": 128}
    batch = decode_batch([70, 33], **shape)
    quantize_pool(batch, torch.uint8, kv_format=kv_format)
    implementation = "reference" if name == "triton" else "auto"
    backend: Any = create_attention_backend(name, replace(batch.runner, kernel_implementation=implementation))
    backend.init_graph(4, 4)
    graph_batch = GraphBatch.of(batch.forward_batch)
    backend.prepare_capture(graph_batch)
    backend.prepare_replay(graph_batch)
    k, v = batch.k.to(batch.dtype), batch.v.to(batch.dtype)
    out = backend.forward(batch.q, k, v, batch.layer, batch.forward_batch, save_kv_cache=False)
    expected = float64_attention(batch)
    assert max_error(out.view(expected.shape), expected) <= 2.5e-2


@pytest.mark.parametrize("native", [False, True])
def test_rows_move_with_their_scales(native: bool) -> None:
    pool = BlockScaledMHATokenToKVPool(64, 8, "nvfp4", 2, 64, 2, native_scales=native)
    batch = decode_batch([3], **SHAPE, page_size=8)
    rows = torch.randn(4, 2, 64) * torch.tensor([1e-3, 1.0, 50.0, 1e3])[:, None, None]
    source, to = torch.tensor([9, 14, 30, 71]), torch.tensor([40, 8, 51, 62])
    for layer_id in (0, 1):
        pool.set_kv_buffer(replace(batch.layer, layer_id=layer_id), source, rows * (layer_id + 1), -rows)
    before = [pool.read(layer_id, source, torch.float32) for layer_id in (0, 1)]
    pool.move_kv_cache(to, source)
    for layer_id in (0, 1):
        for old, new in zip(before[layer_id], pool.read(layer_id, to, torch.float32), strict=True):
            assert torch.equal(old, new)
            assert bool(old.any())


def test_a_nan_that_was_stored_reaches_the_output_and_is_found() -> None:
    batch = decode_batch([9, 5], **SHAPE, page_size=16)
    quantize_pool(batch, torch.uint8, kv_format="fp4_mx_block16")
    pool = batch.runner.token_to_kv_pool
    k = torch.full((1, 2, 64), 0.5)
    k[0, 1, 3] = torch.nan
    pool.set_kv_buffer(batch.layer, batch.slots(0)[4:5], k, torch.ones_like(k))
    out = attended(create_attention_backend("torch_native", replace(batch.runner, check_metadata=False)), batch)
    assert out[0, 2:].isnan().any()
    assert out[0, :2].isfinite().all()
    with pytest.raises(NonFiniteKVError, match="K buffer of layer 0"):
        batch.check()


def test_what_a_pool_does_not_hold_is_refused() -> None:
    for words, make in {
        "kv_format: expected one of nvfp4, fp4_mx_block16, mxfp8, got 'mxfp4'": ("mxfp4", 16, 64, {}),
        "page_size: expected 128 for mxfp8, got 64": ("mxfp8", 64, 128, {}),
        "head_dim, v_head_dim: expected 128 for mxfp8, got (64, 64)": ("mxfp8", 128, 64, {}),
        "head_dim: expected a multiple of 16 for fp4_mx_block16, got 24": ("fp4_mx_block16", 16, 24, {}),
        "page_size: expected a multiple of 4 for native scales, got 2": ("nvfp4", 2, 64, {"native_scales": True}),
        "kv_format: expected one of nvfp4, got 'mxfp8'": ("mxfp8", 128, 128, {"native_scales": True}),
    }.items():
        kv_format, page, dim, more = make
        with pytest.raises(BadArgumentError) as refused:
            BlockScaledMHATokenToKVPool(256, page, kv_format, 2, dim, 1, **more)
        assert words in str(refused.value)
    with pytest.raises(BadArgumentError, match="kv_format: expected one of fp4_mx_block16, got 'nvfp4'"):
        FP4MLATokenToKVPool(64, 16, "nvfp4", 512, 64, 1)
    pool = BlockScaledMHATokenToKVPool(64, 16, "nvfp4", 2, 64, 1)
    layer = decode_batch([3], **SHAPE, page_size=16).layer
    rows = torch.ones(1, 2, 64)
    pool.set_kv_buffer(layer, torch.tensor([17]), rows, rows, 0.5, 0.5)
    before = pool.read(0, None, torch.float32)[0].clone()
    with pytest.raises(BadArgumentError, match=r"layer\.k_scale, layer\.v_scale: expected 0\.5, as before, got 0\.25"):
        pool.set_kv_buffer(layer, torch.tensor([18]), rows, rows, 0.5, 0.25)
    assert torch.equal(before, pool.read(0, None, torch.float32)[0])
    with pytest.raises(BadArgumentError, match="token_to_kv_pool: expected one with scales for blocks"):
        MHATokenToKVPool(64, 16, torch.float32, 2, 64, 1).read(0, None, torch.float32)
