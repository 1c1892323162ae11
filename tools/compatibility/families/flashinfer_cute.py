"""FlashInfer's attention for SM100 in CuTe DSL: MLA decode, prefill, grouped-query decode; no nvcc takes part."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from sglab.gpu.architecture import B200_SMS
from tools.compatibility.case import Case, Check
from tools.compatibility.cute_dsl_host import launches_on
from tools.compatibility.families import Family, installed
from tools.compatibility.meter import Meter

Tensors = tuple[torch.Tensor, ...]
Output = tuple[torch.Tensor, torch.Tensor]
"""What the kernel gave, and what is right."""

LATENT, ROPE = 512, 64
HEADS, KV_HEADS, DIM = 8, 2, 128
BF16, FP16, E4M3 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
NAMES = {BF16: "bf16", FP16: "fp16", E4M3: "e4m3"}
TOLERANCE = {BF16: 1e-2, FP16: 2e-3, E4M3: 4e-2}
"""Of the largest output. The weights of the softmax are rounded to the dtype of the inputs."""


def family() -> Family:
    version = f"{installed('flashinfer-python')}, {installed('nvidia-cutlass-dsl')}"
    return Family("FlashInfer (CuTe DSL)", version, [*_mla_cases(), *_prefill_cases(), *_decode_cases()])


def _case(kernel: str, dtype: torch.dtype, call: Callable[[], Output]) -> Case:
    def run(meter: Meter) -> list[Check]:
        with _b200(meter):
            got, expected = call()
        return [Check(got.double(), expected, 0.0, TOLERANCE[dtype] * float(expected.abs().max()))]

    return Case(f"{kernel}, {NAMES[dtype]}", run)


@contextlib.contextmanager
def _b200(meter: Meter) -> Iterator[None]:
    """Host code that asks torch for a GPU's properties gets a B200's."""
    properties = SimpleNamespace(major=10, minor=0, multi_processor_count=B200_SMS, name="NVIDIA B200")
    with (
        patch.object(torch.cuda, "is_available", lambda: True),
        patch.object(torch.cuda, "get_device_properties", lambda *_: properties),
        patch.object(torch.cuda, "get_device_capability", lambda *_: (10, 0)),
        launches_on(meter),
    ):
        yield


def _mla_cases() -> list[Case]:
    def decode(dtype: torch.dtype, tokens: int = 1, page: int = 64, monolithic: bool = False) -> Callable[[], Output]:
        return lambda: _mla(dtype, tokens, page, monolithic)

    return [
        *(_case("MLA decode", dtype, decode(dtype)) for dtype in (BF16, FP16, E4M3)),
        _case("MLA decode, pages of 32", BF16, decode(BF16, page=32)),
        *(_case("MLA decode, monolithic", dtype, decode(dtype, monolithic=True)) for dtype in (BF16, E4M3)),
        _case("MLA decode, monolithic, two tokens of a draft", BF16, decode(BF16, tokens=2, monolithic=True)),
    ]


def _prefill_cases() -> list[Case]:
    def prefill(dtype: torch.dtype, **options: Any) -> Callable[[], Output]:
        return lambda: _prefill(dtype, **options)

    return [
        *(_case("prefill, causal", dtype, prefill(dtype, causal=True)) for dtype in (BF16, FP16, E4M3)),
        _case("prefill", BF16, prefill(BF16, causal=False)),
        _case("prefill, window", BF16, prefill(BF16, causal=True, window_left=40)),
        _case("prefill, paged", BF16, prefill(BF16, causal=True, page=32)),
    ]


def _decode_cases() -> list[Case]:
    def decode(dtype: torch.dtype, page: int | None, reduction: str, splits: int) -> Callable[[], Output]:
        return lambda: _decode(dtype, page, reduction, splits)

    return [
        *(_case("GQA decode", dtype, decode(dtype, None, "none", 1)) for dtype in (BF16, FP16)),
        *(_case("GQA decode, splits", dtype, decode(dtype, None, "kernel", 2)) for dtype in (BF16, E4M3)),
        _case("GQA decode, splits added up by a cluster", BF16, decode(BF16, None, "atomic", 2)),
        _case("GQA decode, paged", BF16, decode(BF16, 64, "none", 1)),
        *(_case("GQA decode, paged, splits", dtype, decode(dtype, 64, "kernel", 2)) for dtype in (BF16, E4M3)),
        _case("GQA decode, pages of 16, splits", FP16, decode(FP16, 16, "kernel", 2)),
    ]


def _mla(dtype: torch.dtype, tokens: int, page: int, monolithic: bool) -> Output:
    from flashinfer.cute_dsl.attention.monolithic import mla_decode
    from flashinfer.cute_dsl.attention.wrappers.batch_mla import BatchMLADecodeCuteDSLWrapper

    heads, lengths, scale = 128, [300, 150], (128 + ROPE) ** -0.5
    table, pages = _table(lengths, page)
    cache = torch.randn(pages, page, LATENT + ROPE).to(dtype)
    q = torch.randn(len(lengths), tokens, heads, LATENT + ROPE).to(dtype)
    lens, workspace = torch.tensor(lengths, dtype=torch.int32), torch.zeros(96 << 20, dtype=torch.int8)
    if monolithic:
        sizes = {"kv_lora_rank": LATENT, "qk_rope_head_dim": ROPE, "max_seq_len": max(lengths), "softmax_scale": scale}
        arguments = {"workspace_buffer": workspace, "block_tables": table, "seq_lens": lens, "enable_pdl": False}
        with patch.object(mla_decode, "get_compute_capability", lambda _: (10, 0)):
            got = mla_decode.cute_dsl_mla_decode(q, cache, **arguments, **sizes, out_dtype=_output(dtype))
    else:
        wrapper = BatchMLADecodeCuteDSLWrapper(workspace)
        wrapper.plan(num_heads=heads, page_size=page, q_dtype=dtype, enable_pdl=False)
        got = wrapper.run(q, cache, table, lens, max(lengths), softmax_scale=scale)
    rows = [cache[table[i].long()].flatten(0, 1)[:length, None] for i, length in enumerate(lengths)]
    each = [_attention(q[i], kv, kv[..., :LATENT], scale, causal=True) for i, kv in enumerate(rows)]
    return got, torch.stack(each)


def _prefill(dtype: torch.dtype, causal: bool, window_left: int = -1, page: int | None = None) -> Output:
    from flashinfer.cute_dsl.attention.wrappers.batch_prefill import BatchPrefillCuteDSLWrapper

    queries, lengths = [100, 37], [130, 200]
    q = torch.randn(sum(queries), HEADS, DIM).to(dtype)
    k, v = (torch.randn(sum(lengths), KV_HEADS, DIM).to(dtype) for _ in range(2))
    q_ptr, kv_ptr = _ends(queries), _ends(lengths)
    wrapper = BatchPrefillCuteDSLWrapper(torch.zeros(1 << 20, dtype=torch.uint8))
    options = {"causal": causal, "q_data_type": dtype, "kv_data_type": dtype, "window_left": window_left}
    if page is None:
        wrapper.plan(q_ptr, kv_ptr, HEADS, KV_HEADS, DIM, **options)
        got = wrapper.run(q, k, v)
    else:
        (k_pages, v_pages), indices, indptr = _paged((k, v), lengths, page)
        last = torch.tensor([(length - 1) % page + 1 for length in lengths], dtype=torch.int32)
        paged = {"paged_kv_indptr": indptr, "paged_kv_indices": indices, "paged_kv_last_page_len": last}
        wrapper.plan(q_ptr, None, HEADS, KV_HEADS, DIM, page_size=page, **paged, **options)
        got = wrapper.run_paged(q, (k_pages, v_pages))
    parts = zip(q.split(queries), k.split(lengths), v.split(lengths), strict=True)
    return got, torch.cat([_attention(*part, DIM**-0.5, causal, window_left) for part in parts])


def _decode(dtype: torch.dtype, page: int | None, reduction: str, splits: int) -> Output:
    from flashinfer.cute_dsl.attention.wrappers import batch_decode

    lengths = [700, 700] if page is None else [700, 130]
    q = torch.randn(len(lengths), 1, HEADS, DIM).to(dtype)
    k, v = (torch.randn(sum(lengths), KV_HEADS, DIM).to(dtype) for _ in range(2))
    workspace = torch.zeros(1 << 20)
    options = {"q_data_type": dtype, "o_data_type": _output(dtype), "kv_splits": splits, "reduction": reduction}
    if page is None:
        wrapper = batch_decode.BatchDecodeCuteDSLWrapper(workspace)
        wrapper.plan(len(lengths), lengths[0], HEADS, KV_HEADS, DIM, **options)
        shape = (len(lengths), lengths[0], KV_HEADS, DIM)
        got = wrapper.run(q, k.view(shape), v.view(shape), enable_pdl=False)
    else:
        (k_pages, v_pages), indices, indptr = _paged((k, v), lengths, page)
        wrapper = batch_decode.BatchDecodePagedCuteDSLWrapper(workspace)
        lens = torch.tensor(lengths, dtype=torch.int32)
        sizes = (HEADS, KV_HEADS, DIM, page)
        wrapper.plan(indptr, indices, lens, *sizes, max_kv_len=max(lengths), **options)
        got = wrapper.run(q, k_pages, v_pages, enable_pdl=False)
    parts = zip(q, k.split(lengths), v.split(lengths), strict=True)
    return got, torch.stack([_attention(*part, DIM**-0.5, causal=True) for part in parts])


def _output(dtype: torch.dtype) -> torch.dtype:
    return BF16 if dtype == E4M3 else dtype


def _ends(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def _table(lengths: list[int], page: int) -> tuple[torch.Tensor, int]:
    """A page table in drawn order, and how many pages the pool has: three are nobody's."""
    width = -(-max(lengths) // page)
    pages = len(lengths) * width + 3
    return torch.randperm(pages)[: len(lengths) * width].view(len(lengths), width).int(), pages


def _paged(rows: Tensors, lengths: list[int], page: int) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Pools (pages, page, heads, dim) with the rows in pages of drawn numbers; the numbers, and where each request's
    begin."""
    counts = [-(-length // page) for length in lengths]
    pages = sum(counts) + 3
    numbers, pools = torch.randperm(pages)[: sum(counts)], []
    for tensor in rows:
        pool = torch.zeros(pages, page, *tensor.shape[1:], dtype=tensor.dtype)
        for own, part in zip(numbers.split(counts), tensor.split(lengths), strict=True):
            flat = torch.zeros(len(own) * page, *tensor.shape[1:], dtype=tensor.dtype)
            flat[: len(part)] = part
            pool[own] = flat.view(len(own), page, *tensor.shape[1:])
        pools.append(pool)
    return pools, numbers.int(), _ends(counts)


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool, window_left: int = -1
) -> torch.Tensor:
    """In float64; the last query stands at the last key.

    Args:
        q: (queries, heads, dim); k, v: (keys, KV heads, dim).
    """
    group = q.shape[1] // k.shape[1]
    k, v = (each.double().repeat_interleave(group, 1) for each in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) * scale
    rows = torch.arange(len(q))[:, None] + len(k) - len(q)
    columns = torch.arange(len(k))
    hidden = (columns > rows) if causal else torch.zeros_like(columns > rows)
    if window_left >= 0:
        hidden |= columns < rows - window_left
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v)
