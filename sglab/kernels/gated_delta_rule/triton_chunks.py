# mypy: disable-error-code="no-untyped-def"
"""The gated delta rule chunk by chunk: all tokens of a chunk are matrix products, and only the chunks follow in turn.

Three launches: scores within the chunks, their systems solved (both for all chunks at once), and the walk over each
request's chunks, which alone holds the state. Source: Yang et al., Gated Delta Networks (2024), Kimi Linear (2025).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglab.kernels.gated_delta_rule.chunk_scores import BLOCK, gated_delta_scores_kernel, kda_scores_kernel
from sglab.kernels.gated_delta_rule.chunk_solve import gated_delta_solve_kernel
from sglab.kernels.gated_delta_rule.contract import DeltaArguments
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def gated_delta_walk_kernel(
    reads_ptr,
    queries_ptr,
    keys_ptr,
    values_ptr,
    attention_ptr,
    decay_ptr,
    state_ptr,
    slots_ptr,
    cu_ptr,
    initial_ptr,
    out_ptr,
    heads,
    stride_ot,
    stride_oh,
    stride_state,
    K: tl.constexpr,
    K_BLOCK: tl.constexpr,
    V: tl.constexpr,
    V_BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr,
    KEEP_STATES: tl.constexpr,
):
    """Some columns of a head's state, transposed: products have V_BLOCK rows, which sm_100 does not round to tf32."""
    request, head = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    row, dim = tl.arange(0, CHUNK), tl.arange(0, K_BLOCK)
    column = tl.program_id(0) * V_BLOCK + tl.arange(0, V_BLOCK)
    wide, inside = (dim < K)[None, :], (column < V)[:, None]
    first, end = tl.load(cu_ptr + request).to(tl.int64), tl.load(cu_ptr + request + 1).to(tl.int64)
    slot = tl.load(slots_ptr + request).to(tl.int64)
    out = out_ptr + head * stride_oh + column[:, None]
    own = state_ptr + slot * stride_state + head * K * V + dim[None, :] * V + column[:, None]
    counts = wide & inside & (slot >= 0)
    if initial_ptr is not None:
        counts = counts & (tl.load(initial_ptr + request) != 0)
    h = tl.load(own, mask=counts, other=0.0)
    chunk = first // CHUNK + request
    for start in range(first, end, CHUNK):
        at = chunk * heads + head
        chunk += 1
        tall = (at * CHUNK + row[:, None]) * K + dim[None, :]
        reads = tl.load(reads_ptr + tall, mask=wide, other=0.0)
        values = tl.load(values_ptr + (at * CHUNK + row[None, :]) * V + column[:, None], mask=inside, other=0.0)
        rounded = h.to(COMPUTE)
        change = values.to(tl.float32) - tl.dot(rounded, tl.trans(reads), input_precision=PRECISION)
        change = change.to(COMPUTE)
        queries = tl.load(queries_ptr + tall, mask=wide, other=0.0)
        attention = tl.load(attention_ptr + (at * CHUNK + row[None, :]) * CHUNK + row[:, None])
        o = tl.dot(rounded, tl.trans(queries), input_precision=PRECISION)
        o = tl.dot(change, attention, o, input_precision=PRECISION)
        token = start + row[None, :]
        o = tl.where(slot >= 0, o, 0.0).to(out_ptr.dtype.element_ty)
        tl.store(out + token * stride_ot, o, mask=inside & (token < end))
        keys = tl.load(keys_ptr + tall, mask=wide, other=0.0)
        decay = tl.load(decay_ptr + at * K + dim, mask=dim < K, other=0.0)
        h = tl.dot(change, keys, h * decay[None, :], input_precision=PRECISION)
    if not KEEP_STATES:
        tl.store(own, h, mask=wide & inside & (slot >= 0))


def run(a: DeltaArguments) -> tuple[LaunchRecord, ...]:
    tokens, heads, V = a.v.shape
    batch, K = len(a.slots), a.k.shape[2]
    if not batch * heads:
        return ()
    half, brain = a.v.dtype != torch.float32, a.v.dtype == torch.bfloat16
    # float32 in tiles of 64 rows would be tf32 on sm_100, whatever input_precision says.
    size = 64 if half else 32
    tile = {"K": K, "K_BLOCK": max(16, triton.next_power_of_2(K)), "CHUNK": size}
    # A state may hold more than float16 does; tf32 keeps as many digits.
    tile |= {"COMPUTE": tl.bfloat16 if brain else tl.float32, "PRECISION": "tf32" if half else "ieee", "num_warps": 4}
    options = {**tile, "NORMALISE": a.normalise}
    chunks = tokens // size + batch
    dtype = torch.bfloat16 if brain else torch.float32
    system = torch.empty(chunks, heads, size, size, dtype=torch.float32, device=a.device)
    attention = torch.empty_like(system, dtype=dtype)
    reads, queries, keys = (system.new_empty(chunks, heads, size, K, dtype=dtype) for _ in range(3))
    values = system.new_empty(chunks, heads, size, V, dtype=dtype)
    decay = system.new_empty(chunks, heads, K)
    sizes = a.scale, batch, heads, a.group
    qk = *a.q.stride()[:2], *a.k.stride()[:2]
    gates = *a.g.stride()[:2], a.beta.stride(0)
    scoring = a.q, a.k, a.g, a.beta, a.cu_seqlens, system, attention, *sizes, *qk, *gates
    if a.per_dim:
        scored = kda_scores_kernel[(chunks, heads, size // BLOCK)](*scoring, **options, BLOCK=BLOCK)
    else:
        scored = gated_delta_scores_kernel[(chunks, heads)](*scoring, **options)
    # Rows of 128 bytes, as the system has: for narrower ones, which wgmma swizzles otherwise, ptxas 12.8 (that of
    # Triton 3.6 and 3.7) mixes up the addresses of the two, and wgmma reads beyond shared memory.
    narrowest = 64 if brain else 16
    options["K_BLOCK"] = max(narrowest, options["K_BLOCK"])
    solved = gated_delta_solve_kernel[(chunks, heads)](
        *(a.q, a.k, a.v, a.g, a.beta, a.cu_seqlens, system, reads, queries, keys, values, decay),
        *(*sizes, *qk, *a.v.stride()[:2], *gates),
        **options,
        V=V,
        V_BLOCK=max(narrowest, triton.next_power_of_2(V)),
        BLOCK=BLOCK,
        PER_DIM=a.per_dim,
        EXACT="tf32x3" if half else "ieee",
    )
    columns = min(max(16, triton.next_power_of_2(V)), 32)
    walked = gated_delta_walk_kernel[(triton.cdiv(V, columns), batch * heads)](
        *(reads, queries, keys, values, attention, decay, a.states, a.slots, a.cu_seqlens, a.initial, a.out),
        *(heads, *a.out.stride()[:2], a.states.stride(0)),
        **tile,
        V=V,
        V_BLOCK=columns,
        KEEP_STATES=a.keep_states,
        num_stages=2,
    )
    return scored, solved, walked
