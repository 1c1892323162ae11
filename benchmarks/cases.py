"""The comparisons: every function sets one up on fresh random tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from timing import Case
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from sglab import kernels
from sglab.planning import set_split_kv_cluster_aware

Merge = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def randn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, device="cuda")


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def indptr(batch: int, length: int) -> torch.Tensor:
    return ints([length * i for i in range(batch + 1)])


def sms() -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count


def flashinfer_indices(batch: int, length: int) -> Case:
    table = torch.randint(1, 10**6, (batch, length), dtype=torch.int32, device="cuda")
    rows, lens, starts = torch.arange(batch, device="cuda"), ints([length] * batch), indptr(batch, length)
    out = torch.empty(batch * length, dtype=torch.int32, device="cuda")
    return Case(
        f"create_flashinfer_kv_indices B={batch} S={length}",
        lambda: kernels.create_flashinfer_kv_indices(table, rows, lens, starts, None, out),
        lambda: table.index_select(0, rows).flatten(),
        nbytes=8 * out.numel(),
    )


def flashmla_indices(batch: int, length: int) -> Case:
    table = torch.randint(1, 10**6, (batch, length), dtype=torch.int32, device="cuda")
    rows, lens = torch.arange(batch, device="cuda"), ints([length] * batch)
    out = torch.empty(batch, length // 64, dtype=torch.int32, device="cuda")
    return Case(
        f"create_flashmla_kv_indices B={batch} S={length} page=64",
        lambda: kernels.create_flashmla_kv_indices(table, rows, lens, None, out, page_size=64),
        lambda: table[:, ::64].index_select(0, rows) // 64,
        nbytes=8 * out.numel(),
    )


def mla_kv_buffer(tokens: int) -> Case:
    pool, nope, rope = randn(200_000, 576), randn(tokens, 512), randn(tokens, 64)
    loc = torch.randperm(199_999, device="cuda")[:tokens] + 1

    def ours() -> torch.Tensor:
        kernels.set_mla_kv_buffer(pool, loc, nope, rope)
        return pool

    def peer() -> torch.Tensor:
        pool[loc, :512] = nope
        pool[loc, 512:] = rope
        return pool

    return Case(f"set_mla_kv_buffer tokens={tokens}", ours, peer, nbytes=2 * tokens * 576 * 2)


def _torch_merge(
    v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    s = torch.logaddexp2(s_a, s_b)
    v = torch.exp2(s_a - s)[..., None] * v_a + torch.exp2(s_b - s)[..., None] * v_b
    return v.to(v_a.dtype), s


def _torch_merge_states(v: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weights = (s * 0.6931471805599453).softmax(1)
    return torch.einsum("tnh,tnhd->thd", weights, v), s.logsumexp(1)


def merge_pair(tokens: int, heads: int, dim: int, dtype: torch.dtype, merge: Merge = kernels.merge_state) -> Case:
    v_a, v_b = randn(tokens, heads, dim, dtype=dtype), randn(tokens, heads, dim, dtype=dtype)
    s_a, s_b = (randn(tokens, heads, dtype=torch.float32) for _ in range(2))
    return Case(
        f"{merge.__name__} T={tokens} H={heads} D={dim} {dtype}".replace("torch.", ""),
        lambda: merge(v_a, s_a, v_b, s_b)[0],
        lambda: _torch_merge(v_a, s_a, v_b, s_b)[0],
        nbytes=3 * (v_a.nbytes + s_a.nbytes),
        tolerance=1e-5 if dtype == torch.float32 else 1e-2,
    )


def merge_many(tokens: int, states: int, heads: int, dim: int) -> Case:
    v, s = (randn(tokens, states, heads, *rest, dtype=torch.float32) for rest in ((dim,), ()))
    return Case(
        f"merge_states T={tokens} n={states} H={heads} D={dim} float32",
        lambda: kernels.merge_states(v, s)[0],
        lambda: _torch_merge_states(v, s)[0],
        nbytes=(v.nbytes + s.nbytes) * (states + 1) / states,
        tolerance=1e-5,
    )


def decode(batch: int, length: int, heads: int, kv_heads: int, dim: int, max_splits: int = 16) -> Case:
    slots = torch.randperm(batch * length, device="cuda")
    k, v = randn(batch * length, kv_heads, dim), randn(batch * length, kv_heads, dim)
    q, o = randn(batch, heads, dim), randn(batch, heads, dim)
    starts, splits = indptr(batch, length), ints([0] * batch)
    kernels.get_num_kv_splits(splits, ints([length] * batch), heads, kv_heads, max_splits, sms())
    partials = torch.empty(batch, heads, max_splits, dim, device="cuda")
    lse = torch.empty(batch, heads, max_splits, device="cuda")
    dense_k, dense_v = (x[slots].view(batch, length, kv_heads, dim).transpose(1, 2) for x in (k, v))

    def ours() -> torch.Tensor:
        kernels.decode_attention_fwd(q, k, v, o, starts, slots, partials, lse, splits, max_splits, dim**-0.5)
        return o

    return Case(
        f"B={batch} S={length} H={heads}/{kv_heads} D={dim} splits={int(splits[0])}",
        ours,
        lambda: scaled_dot_product_attention(q[:, :, None], dense_k, dense_v, enable_gqa=True)[:, :, 0],
        nbytes=k.nbytes + v.nbytes + q.nbytes + o.nbytes,
        flop=4.0 * batch * heads * length * dim,
        tolerance=2e-2,
    )


def mla(batch: int, length: int, heads: int) -> Case:
    pages = batch * length // 64
    cache, lens = randn(pages, 64, 576), ints([length] * batch)
    table = torch.randperm(pages, device="cuda").int().view(batch, -1)
    q = randn(batch, heads, 576)
    q_nope, q_pe = q[..., :512], q[..., 512:]
    splits = set_split_kv_cluster_aware(length, batch, sms()).split_kv
    size = kernels.cutlass_mla_get_workspace_size(length, batch, num_kv_splits=splits)
    workspace = torch.empty(size, dtype=torch.uint8, device="cuda")
    dense, scale = cache[table.long()].view(batch, length, 576), 192**-0.5
    return Case(
        f"B={batch} S={length} H={heads} splits={splits}",
        lambda: kernels.cutlass_mla_decode(q_nope, q_pe, cache, lens, table, workspace, scale, splits),
        lambda: ((q @ dense.mT) * scale).softmax(-1) @ dense[..., :512],
        nbytes=cache.nbytes + q.nbytes + q_nope.nbytes,
        flop=2.0 * batch * heads * length * 1088,
        tolerance=5e-2,  # the peer rounds its logits to bfloat16
    )


def extend(batch: int, prefix: int, new: int, heads: int, kv_heads: int, dim: int) -> Case:
    tokens = batch * new
    q, o, k, v = (randn(tokens, h, dim) for h in (heads, heads, kv_heads, kv_heads))
    slots = torch.randperm(batch * prefix, device="cuda")
    k_buffer, v_buffer = (randn(batch * prefix + 1, kv_heads, dim) for _ in range(2))
    qo_indptr, kv_indptr = indptr(batch, new), indptr(batch, prefix)

    def dense(buffer: torch.Tensor, extension: torch.Tensor) -> torch.Tensor:
        cached = buffer[slots].view(batch, prefix, kv_heads, dim)
        return torch.cat([cached, extension.view(batch, new, kv_heads, dim)], 1).transpose(1, 2)

    keys, values, queries = dense(k_buffer, k), dense(v_buffer, v), q.view(batch, new, heads, dim).transpose(1, 2)
    mask = causal_lower_right(new, prefix + new)

    def ours() -> torch.Tensor:
        kernels.extend_attention_fwd(q, k, v, o, k_buffer, v_buffer, qo_indptr, kv_indptr, slots, None, True, None, new)
        return o.view(batch, new, heads, dim).transpose(1, 2)

    return Case(
        f"B={batch} prefix={prefix} new={new} H={heads}/{kv_heads} D={dim}",
        ours,
        lambda: scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True),
        nbytes=2.0 * keys.nbytes + 2 * q.nbytes,
        flop=4.0 * batch * heads * dim * new * (prefix + new / 2),
        tolerance=2e-2,
    )
