"""Every Triton kernel compiles for every generation of GPU that it is meant for, as it is really launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from sglab.kernels import (
    create_flashinfer_kv_indices,
    create_flashmla_kv_indices,
    cutlass_mla_decode,
    decode_attention_fwd,
    dequantize_kv_rows,
    extend_attention_fwd,
    fused_experts,
    gated_delta_rule,
    get_num_kv_splits,
    merge_state,
    merge_state_in_place,
    merge_state_v2,
    merge_states,
    quantize_kv_rows,
    set_mla_kv_buffer,
)
from sglab.kernels.block_kv import FORMATS, SCALE_LAYOUTS, scale_shape
from sglab.kernels.fused_moe import ExpertQuantization
from tests.support.kernels.sass import mixed_halves

triton = pytest.importorskip("triton")

SHARED_MEMORY = {80: 166_912, 90: 232_448, 100: 232_448}
"""Bytes of shared memory that a CTA may have, by compute capability."""


@contextmanager
def captured_launches(capability: int) -> Iterator[list[tuple[Any, Any]]]:
    """Collects (kernel, specialization) of every launch instead of running it."""
    from sglab.triton.kernel import _kernel_class

    launches = []

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        specializer = self._specializer(capability)
        launches.append((self, specializer.specialization(specializer.bind(args, kwargs))))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_kernel_class(), "run", run)
        yield launches


def compiled(kernel: Any, specialization: Any, capability: int) -> Any:
    """Triton's whole pipeline, ptxas included."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(kernel, specialization.signature, specialization.constexprs, specialization.attrs)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(specialization.options))


def index_kernels(dtype: torch.dtype) -> None:
    table, rows, lens = torch.zeros(2, 300).int(), torch.tensor([0, 1]), torch.tensor([3, 2])
    indptr, start = torch.tensor([0, 3, 5]), torch.tensor([0, 1])
    for kv_start_idx in (None, start):
        create_flashinfer_kv_indices(table, rows, lens, indptr, kv_start_idx, implementation="triton")
    create_flashmla_kv_indices(table, rows, lens, start, page_size=64, implementation="triton", check_values=False)
    get_num_kv_splits(torch.zeros(2).int(), lens, 32, 8, 8, 132, implementation="triton")


def mla_kv_buffer(dtype: torch.dtype) -> None:
    nope, rope = torch.zeros(2, 512, dtype=dtype), torch.zeros(2, 64, dtype=dtype)
    set_mla_kv_buffer(torch.zeros(9, 576, dtype=dtype), torch.tensor([1, 2]), nope, rope, implementation="triton")


def merges(dtype: torch.dtype) -> None:
    v, s = torch.zeros(2, 4, 128, dtype=dtype), torch.zeros(2, 4)
    merge_state(v, s, v, s, implementation="triton")
    merge_state_in_place(v, s, v.clone(), s.clone(), torch.tensor([True, False]), implementation="triton")
    for guarded in (True, False):
        merge_state_v2(v, s, v, s, guarded=guarded, implementation="triton")
    merge_states(v.view(2, 2, 2, 128), s.view(2, 2, 2), implementation="triton")


def decode(dtype: torch.dtype) -> None:
    """MHA, GQA, and MLA with 16 and 128 heads."""
    for heads, kv_heads, qk_dim, v_dim in ((8, 8, 64, 64), (32, 8, 128, 128), (16, 1, 576, 512), (128, 1, 576, 512)):
        k = torch.zeros(9, kv_heads, qk_dim, dtype=dtype)
        q, o = torch.zeros(1, heads, qk_dim, dtype=dtype), torch.zeros(1, heads, v_dim, dtype=dtype)
        indptr, indices, splits = torch.tensor([0, 3]).int(), torch.tensor([4, 2, 3]), torch.tensor([1]).int()
        partials, lse = torch.zeros(1, heads, 8, v_dim), torch.zeros(1, heads, 8)
        decode_attention_fwd(
            *(q, k, k[..., :v_dim], o, indptr, indices, partials, lse, splits, 8, 0.1), implementation="triton"
        )


def cutlass_mla(dtype: torch.dtype) -> None:
    if dtype == torch.float32:
        pytest.skip("the operator takes float16 and bfloat16")
    for heads, page_size in ((16, 128), (128, 128), (128, 16)):
        q_nope, q_pe = torch.zeros(1, heads, 512, dtype=dtype), torch.zeros(1, heads, 64, dtype=dtype)
        cache, table = torch.zeros(3, page_size, 576, dtype=dtype), torch.ones(1, 128 // page_size).int()
        workspace, lens = torch.empty(2 * 128 * 2052, dtype=torch.uint8), torch.tensor([3]).int()
        for splits in (1, 2):
            cutlass_mla_decode(*(q_nope, q_pe, cache, lens, table, workspace, 0.1, splits), implementation="triton")


def extend(dtype: torch.dtype) -> None:
    indptr, prefix, slots = torch.tensor([0, 5]).int(), torch.tensor([0, 3]).int(), torch.tensor([1, 2, 3])
    mask, mask_indptr = torch.ones(5 * 8, dtype=torch.bool), torch.tensor([0])
    for qk_dim, v_dim, custom in ((128, 128, True), (192, 128, False), (256, 256, False)):
        q, k, o = (torch.zeros(5, heads, dim, dtype=dtype) for heads, dim in ((8, qk_dim), (2, qk_dim), (8, v_dim)))
        v, cache = k[..., :v_dim].contiguous(), torch.zeros(9, 2, qk_dim, dtype=dtype)
        masks = (mask, True, mask_indptr) if custom else (None, True, None)
        extend_attention_fwd(
            *(q, k, v, o, cache, cache[..., :v_dim], indptr, prefix, slots, *masks, 5), implementation="triton"
        )


def extend_mla(dtype: torch.dtype) -> None:
    indptr, prefix, slots = torch.tensor([0, 5]).int(), torch.tensor([0, 3]).int(), torch.tensor([1, 2, 3])
    q, o = torch.zeros(5, 16, 576, dtype=dtype), torch.zeros(5, 16, 512, dtype=dtype)
    k, cache = torch.zeros(5, 1, 576, dtype=dtype), torch.zeros(9, 1, 576, dtype=dtype)
    extend_attention_fwd(
        *(q, k, k[..., :512], o, cache, cache[..., :512], indptr, prefix, slots, None, True, None, 5),
        implementation="triton",
    )


@pytest.mark.parametrize(
    ("dtype", "capability"),
    [(torch.float16, 80), (torch.float16, 90), (torch.float16, 100), (torch.bfloat16, 90), (torch.float32, 90)],
)
@pytest.mark.parametrize("call", [index_kernels, mla_kv_buffer, merges, decode, cutlass_mla, extend, extend_mla])
def test_compiles(
    call: Callable[[torch.dtype], None], dtype: torch.dtype, capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sglab.kernels.devices.capability", lambda device: (capability // 10, 0))
    with captured_launches(capability) as launches:
        call(dtype)
    assert launches
    for kernel, specialization in launches:
        program = compiled(kernel, specialization, capability)
        assert program.metadata.shared <= SHARED_MEMORY[capability], kernel.__name__
        assert capability != 90 or not mixed_halves(program.asm["cubin"]), kernel.__name__


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("kv_format", FORMATS)
def test_block_scaled_rows_compile(kv_format: str, capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every layout of scales, with and without a count; e4m3 needs compute capability 8.9."""
    monkeypatch.setattr("sglab.kernels.devices.capability", lambda device: (capability // 10, 0))
    made, slots = FORMATS[kv_format], torch.tensor([1, 2])
    with captured_launches(capability) as launches:
        for layout in SCALE_LAYOUTS:
            codes = torch.zeros(128, 2, made.row_bytes(128), dtype=torch.uint8)
            scales = torch.zeros(scale_shape(layout, 128, 2, made.scales(128), 128), dtype=torch.uint8)
            options: dict[str, Any] = {"layout": layout, "page_size": 128, "implementation": "triton"}
            rows = torch.zeros(2, 2, 128, dtype=torch.bfloat16)
            quantize_kv_rows(rows, codes, scales, slots, kv_format, **options)
            for count in (None, torch.tensor([1])):
                dequantize_kv_rows(codes, scales, slots, kv_format, 128, count=count, **options)
    assert len(launches) == 3 * len(SCALE_LAYOUTS)
    for kernel, specialization in launches:
        compiled(kernel, specialization, capability)


@pytest.mark.parametrize(("dtype", "capability"), [(torch.float16, 80), (torch.bfloat16, 90), (torch.bfloat16, 100)])
@pytest.mark.parametrize("gates", [(70, 2), (70, 2, 128)])
def test_chunks_of_the_delta_rule_compile(gates: tuple[int, ...], dtype: torch.dtype, capability: int) -> None:
    """Gated DeltaNet and KDA with 128 dims, as Qwen3-Next and Kimi Linear have them."""
    q, v = torch.zeros(70, 1, 128, dtype=dtype), torch.zeros(70, 2, 128, dtype=dtype)
    rows, cu, states = torch.tensor([1]), torch.tensor([0, 70]), torch.zeros(2, 2, 128, 128)
    given = q, q, v, torch.zeros(gates), torch.zeros(70, 2), states, rows, cu
    with captured_launches(capability) as launches:
        gated_delta_rule(*given, implementation="triton_chunks")
    assert len(launches) == 3
    for kernel, specialization in launches:
        program = compiled(kernel, specialization, capability)
        assert program.metadata.shared <= SHARED_MEMORY[capability], kernel.__name__
        assert capability != 90 or not mixed_halves(program.asm["cubin"]), kernel.__name__


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("per_dim", [False, True])
@pytest.mark.parametrize(("K", "V"), [(16, 24), (32, 64), (64, 64), (128, 16), (256, 256)])
def test_ptxas_keeps_the_addresses_of_the_delta_rule(K: int, V: int, per_dim: bool, dtype: torch.dtype) -> None:
    """On Hopper with other dims than the models have: W and U were multiplied from beyond shared memory."""
    q, v, g = torch.zeros(70, 2, K, dtype=dtype), torch.zeros(70, 4, V, dtype=dtype), torch.zeros(70, 4)
    gates = g[..., None].expand(-1, -1, K).contiguous() if per_dim else g
    rows, cu, states = torch.tensor([1]), torch.tensor([0, 70]), torch.zeros(2, 4, K, V)
    with captured_launches(90) as launches:
        gated_delta_rule(q, q, v, gates, g, states, rows, cu, implementation="triton_chunks")
    assert len(launches) == 3
    for kernel, specialization in launches:
        assert not mixed_halves(compiled(kernel, specialization, 90).asm["cubin"]), kernel.__name__


@pytest.mark.parametrize("kind", ["fp8_block", "w4a8", "mxfp4"])
def test_quantised_experts_compile_to_wgmma(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.kernels.fused_moe.quantized_triton.multiplies", lambda x: True)
    stored = {"fp8_block": torch.float8_e4m3fn, "w4a8": torch.int8, "mxfp4": torch.uint8}[kind]
    packing, block = (1, (128, 128)) if kind == "fp8_block" else (2, (1, 32 if kind == "mxfp4" else 128))
    blocks = 256 // block[0], 256 // block[1]
    scale = torch.zeros(2, *blocks, dtype=torch.uint8 if kind == "mxfp4" else torch.float32)
    half = torch.zeros(2, blocks[0], blocks[1] // 2, dtype=scale.dtype)
    static = torch.ones(1) if kind == "w4a8" else None
    quantization = ExpertQuantization(kind, scale, half, block, static, static)  # type: ignore[arg-type]
    w1, w2 = (torch.zeros(2, 256, size // packing, dtype=stored) for size in (256, 128))
    ids, hidden = torch.zeros(64, 1, dtype=torch.int64), torch.zeros(64, 256, dtype=torch.bfloat16)
    with captured_launches(90) as launches:
        fused_experts(hidden, w1, w2, torch.ones(64, 1), ids, quantization=quantization, implementation="triton")
    kernel, specialization = next(each for each in launches if each[0].__name__ == "quantized_moe_kernel")
    product = "bf16.bf16" if kind == "mxfp4" else "e4m3.e4m3"
    assert f"f32.{product}" in compiled(kernel, specialization, 90).asm["ptx"]
