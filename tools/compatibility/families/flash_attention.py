"""FlashAttention 4: attention in CuTe DSL for SM90 and SM100, forward and backward."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from sglab.gpu.architecture import B200_SMS
from tools.compatibility.case import Case
from tools.compatibility.cute_dsl_host import launches_on
from tools.compatibility.families import Family, installed
from tools.compatibility.meter import Meter
from tools.compatibility.operators import SHORT, normal, operator

BF16, FP16 = torch.bfloat16, torch.float16
TOLERANCE = 2
LATENT, ROPE = 512, 64
QUERIES, KEYS = [70, 40], [90, 130]
"""Tokens of packed requests."""


def family() -> Family:
    version = f"{installed('flash-attn-4')}, {installed('nvidia-cutlass-dsl')}"
    cases = [case for arch in ("sm_90a", "sm_100a") for case in _cases(arch)]
    return Family("FlashAttention 4 (CuTe DSL)", version, [*cases, *_latent()])


@contextlib.contextmanager
def _gpu(meter: Meter) -> Iterator[None]:
    """Host code that asks for a GPU gets the one that is emulated."""
    capability = divmod(meter.arch.capability, 10)
    properties = SimpleNamespace(major=capability[0], minor=capability[1], multi_processor_count=B200_SMS, name="")
    wanted = {
        "CUTE_DSL_ARCH": str(meter.arch),
        "FLASH_ATTENTION_ARCH": f"sm_{meter.arch.capability}",
        "FLASH_ATTENTION_NUM_SMS": str(B200_SMS),
    }
    with (
        patch.dict(os.environ, wanted),
        patch.object(torch.cuda, "is_available", lambda: True),
        patch.object(torch.cuda, "current_device", lambda: 0),
        patch.object(torch.cuda, "get_device_properties", lambda *_: properties),
        patch.object(torch.cuda, "get_device_capability", lambda *_: capability),
        launches_on(meter),
    ):
        yield


def _case(arch: str, kernel: str, make: Any, call: Any, reference: Any, gradients: bool = False) -> Case:
    case = operator(f"{kernel}, {arch}", make, call, reference, TOLERANCE, gradients, _gpu)
    return replace(case, arch=arch)


def _cases(arch: str) -> list[Case]:
    def dense(kernel: str, shape: Any, dtype: torch.dtype = BF16, gradients: bool = False, **how: Any) -> Case:
        def call(q: Any, k: Any, v: Any) -> Any:
            from flash_attn.cute.interface import flash_attn_func

            return flash_attn_func(q, k, v, **how)[0]

        known = {name: one for name, one in how.items() if name in ("causal", "softcap", "window_size")}
        return _case(
            arch,
            f"{kernel}, {SHORT[dtype]}",
            lambda: _inputs(*shape, dtype=dtype),
            call,
            lambda q, k, v: attention(q, k, v, **known),
            gradients,
        )

    plain = (2, 130, 200, 4, 2, 128)
    square = (1, 160, 160, 4, 2, 64)
    cases = [
        *(dense("attention, heads of 128", plain, dtype) for dtype in (BF16, FP16)),
        *(dense(f"attention, heads of {dim}", (2, 130, 200, 2, 2, dim)) for dim in (64, 96, 256)),
        dense("attention, heads of 192 and 128", (1, 130, 200, 2, 2, 192, 128)),
        dense("causal attention", plain, causal=True),
        dense("attention with a window", plain, window_size=(40, 20)),
        dense("attention with soft-capped scores", plain, softcap=5.0),
        *(dense(f"attention backward, heads of {dim}", (1, 130, 200, 4, 2, dim), gradients=True) for dim in (64, 128)),
        dense("causal attention backward", square, gradients=True, causal=True),
        dense("attention backward in one order", square, gradients=True, causal=True, deterministic=True),
        _packed(arch),
        _packed(arch, gradients=True),
        *(_paged(arch, page) for page in (16, 128)),
        _sinks(arch),
        _combine(arch),
    ]
    if arch == "sm_100a":
        cases.append(dense("attention, keys in three splits", (1, 20, 700, 4, 2, 128), num_splits=3))
        cases.append(dense("attention backward, heads of 192 and 128", (1, 130, 200, 2, 2, 192, 128), gradients=True))
    return cases


def _inputs(
    batch: int, queries: int, keys: int, heads: int, kv_heads: int, dim: int, dim_v: int = 0, dtype: torch.dtype = BF16
) -> list[torch.Tensor]:
    q, k = normal(batch, queries, heads, dim, dtype=dtype), normal(batch, keys, kv_heads, dim, dtype=dtype)
    return [q, k, normal(batch, keys, kv_heads, dim_v or dim, dtype=dtype)]


def _packed(arch: str, gradients: bool = False) -> Case:
    """Requests one after the other in one tensor."""
    heads, kv_heads, dim = 4, 2, 128

    def make() -> list[torch.Tensor]:
        sizes = ((sum(QUERIES), heads), (sum(KEYS), kv_heads), (sum(KEYS), kv_heads))
        return [normal(*size, dim, dtype=BF16) for size in sizes]

    def call(q: Any, k: Any, v: Any) -> Any:
        from flash_attn.cute.interface import flash_attn_varlen_func

        ends = {"cu_seqlens_q": _ends(QUERIES), "cu_seqlens_k": _ends(KEYS)}
        most = {"max_seqlen_q": max(QUERIES), "max_seqlen_k": max(KEYS)}
        return flash_attn_varlen_func(q, k, v, **ends, **most, causal=True)[0]

    def reference(q: Any, k: Any, v: Any) -> Any:
        parts = zip(q.split(QUERIES), k.split(KEYS), v.split(KEYS), strict=True)
        return torch.cat([attention(*(one[None] for one in part), causal=True)[0] for part in parts])

    return _case(arch, f"packed requests{' backward' if gradients else ''}, bf16", make, call, reference, gradients)


def _paged(arch: str, page: int) -> Case:
    lengths, kv_heads, dim = [300, 150], 2, 128
    width = -(-max(lengths) // page)

    def make() -> list[torch.Tensor]:
        pages = len(lengths) * width + 3
        table = torch.randperm(pages)[: len(lengths) * width].view(len(lengths), width).int()
        pools = [normal(pages, page, kv_heads, dim, dtype=BF16) for _ in range(2)]
        return [normal(len(lengths), 3, 8, dim, dtype=BF16), *pools, table]

    def call(q: Any, k: Any, v: Any, table: Any) -> Any:
        from flash_attn.cute.interface import flash_attn_varlen_func

        used = torch.tensor(lengths, dtype=torch.int32)
        return flash_attn_varlen_func(q, k, v, seqused_k=used, page_table=table, causal=True)[0]

    def reference(q: Any, k: Any, v: Any, table: Any) -> Any:
        def rows(pool: Any, i: int) -> Any:
            return pool[table[i].long()].flatten(0, 1)[None, : lengths[i]]

        return torch.cat([attention(q[i : i + 1], rows(k, i), rows(v, i), causal=True) for i in range(len(lengths))])

    return _case(arch, f"pages of {page}, bf16", make, call, reference)


def _sinks(arch: str) -> Case:
    def make() -> list[torch.Tensor]:
        return [*_inputs(1, 130, 200, 4, 2, 64), normal(4, dtype=BF16)]

    def call(q: Any, k: Any, v: Any, sink: Any) -> Any:
        from flash_attn.cute.interface import flash_attn_func

        return flash_attn_func(q, k, v, learnable_sink=sink)[0]

    return _case(arch, "attention with sinks, bf16", make, call, lambda q, k, v, sink: attention(q, k, v, sink=sink))


def _combine(arch: str) -> Case:
    def make() -> list[torch.Tensor]:
        return [normal(5, 2, 30, 4, 128), normal(5, 2, 30, 4)]

    def call(out: Any, lse: Any) -> Any:
        from flash_attn.cute.interface import flash_attn_combine

        return flash_attn_combine(out, lse.transpose(-1, -2).contiguous().transpose(-1, -2), out_dtype=BF16)

    def reference(out: Any, lse: Any) -> Any:
        return (lse.softmax(0)[..., None] * out).sum(0), lse.logsumexp(0)

    return _case(arch, "splits added up", make, call, reference)


def _latent() -> list[Case]:
    """MLA with absorbed weights: the latent rows are keys and values."""

    def case(kernel: str, tokens: int, heads: int, make_more: Callable[[], Any] = lambda: None, **how: Any) -> Case:
        def make() -> list[Any]:
            shapes = ((tokens, heads, ROPE), (400, 1, ROPE), (400, 1, LATENT), (tokens, heads, LATENT))
            return [*(normal(1, *shape, dtype=BF16) for shape in shapes), make_more()]

        def call(q: Any, k: Any, v: Any, qv: Any, chosen: Any) -> Any:
            from flash_attn.cute.interface import flash_attn_func

            return flash_attn_func(q, k, v, qv=qv, gather_kv_indices=chosen, **how)[0]

        def reference(q: Any, k: Any, v: Any, qv: Any, chosen: Any) -> Any:
            wide, keys = torch.cat((q, qv), -1), torch.cat((k, v), -1)
            hidden = None
            if chosen is not None:
                hidden = torch.ones(tokens, 400, dtype=torch.bool).scatter(1, chosen[0].long(), False)
            return attention(wide, keys, v, causal=how.get("causal", False), hidden=hidden)

        return _case("sm_100a", f"{kernel}, bf16", make, call, reference)

    def chosen() -> torch.Tensor:
        return torch.stack([torch.randperm(400)[:256] for _ in range(3)])[None].int()

    return [
        case("MLA, 128 heads", 2, 128),
        case("MLA, 128 heads, causal", 3, 128, causal=True),
        case("MLA, 64 heads", 2, 64),
        case("MLA, 16 heads", 2, 16),
        case("sparse MLA, 128 heads", 3, 128, chosen),
        case("sparse MLA, 64 heads", 3, 64, chosen),
    ]


def _ends(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).int()


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    window_size: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sink: torch.Tensor | None = None,
    hidden: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention in plain torch; the last query stands at the last key.

    Args:
        q: (batch, queries, heads, dim); k, v: (batch, keys, KV heads, dim).
        sink: a score for each head that takes weight and gives nothing.
        hidden: (queries, keys), which no query sees.
    """
    group = q.shape[2] // k.shape[2]
    k, v = (each.repeat_interleave(group, 2) for each in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    queries, keys = scores.shape[-2:]
    distance = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    unseen = torch.zeros(queries, keys, dtype=torch.bool) if hidden is None else hidden
    if causal:
        unseen = unseen | (distance > 0)
    if window_size is not None:
        unseen = unseen | (distance < -window_size[0]) | (distance > window_size[1])
    scores = scores.masked_fill(unseen, -torch.inf)
    if sink is not None:
        extra = sink[:, None, None].expand(*scores.shape[:-1], 1)
        return torch.einsum("bhqk,bkhd->bqhd", torch.cat((scores, extra), -1).softmax(-1)[..., :-1], v)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
