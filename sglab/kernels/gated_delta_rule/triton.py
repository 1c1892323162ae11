# mypy: disable-error-code="no-untyped-def"
"""The gated delta rule: a program holds a head's state, or some columns of it, and walks over its request's tokens."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.gated_delta_rule.contract import DeltaArguments
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def gated_delta_rule_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    g_ptr,
    beta_ptr,
    state_ptr,
    slots_ptr,
    cu_ptr,
    initial_ptr,
    step_ptr,
    parent_ptr,
    out_ptr,
    scale,
    heads,
    group,
    most_steps,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_vt,
    stride_vh,
    stride_gt,
    stride_gh,
    stride_bt,
    stride_ot,
    stride_oh,
    stride_state,
    stride_parent,
    K: tl.constexpr,
    K_BLOCK: tl.constexpr,
    V: tl.constexpr,
    V_BLOCK: tl.constexpr,
    PER_DIM: tl.constexpr,
    NORMALISE: tl.constexpr,
    KEEP_STATES: tl.constexpr,
):
    request, head = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    row, column = tl.arange(0, K_BLOCK), tl.program_id(0) * V_BLOCK + tl.arange(0, V_BLOCK)
    real_row, real_column = row < K, column < V
    real = real_row[:, None] & real_column[None, :]
    first, end = tl.load(cu_ptr + request).to(tl.int64), tl.load(cu_ptr + request + 1).to(tl.int64)
    slot = tl.load(slots_ptr + request).to(tl.int64)
    if slot < 0:
        for token in range(first, end):
            out = out_ptr + token * stride_ot + head * stride_oh + column
            tl.store(out, tl.zeros([V_BLOCK], out_ptr.dtype.element_ty), mask=real_column)
        return
    place = row[:, None] * V + column[None, :]
    own = state_ptr + slot * stride_state + head * K * V + place
    counts = real
    if initial_ptr is not None:
        counts = counts & (tl.load(initial_ptr + request) != 0)
    h = tl.load(own, mask=counts, other=0.0)
    for token in range(first, end):
        t = token - first
        if parent_ptr is not None:
            before = tl.load(parent_ptr + request * stride_parent + t).to(tl.int64)
            earlier = step_ptr + ((request * most_steps + tl.maximum(before, 0)) * heads + head) * K * V + place
            # A tree's branch goes on from an earlier token's state, which this program wrote.
            tl.debug_barrier()
            h = tl.where(
                before < 0, tl.load(own, mask=counts, other=0.0), tl.load(earlier, mask=real & (before >= 0), other=0.0)
            )
        k = tl.load(k_ptr + token * stride_kt + head // group * stride_kh + row, mask=real_row, other=0.0)
        q = tl.load(q_ptr + token * stride_qt + head // group * stride_qh + row, mask=real_row, other=0.0)
        k, q = k.to(tl.float32), q.to(tl.float32)
        if NORMALISE:
            k = k / tl.sqrt(tl.sum(k * k, axis=0) + 1e-6)
            q = q / tl.sqrt(tl.sum(q * q, axis=0) + 1e-6)
        v = tl.load(v_ptr + token * stride_vt + head * stride_vh + column, mask=real_column, other=0.0)
        beta = tl.load(beta_ptr + token * stride_bt + head).to(tl.float32)
        g = g_ptr + token * stride_gt + head * stride_gh
        if PER_DIM:
            h *= tl.exp(tl.load(g + row, mask=real_row, other=0.0))[:, None]
        else:
            h *= tl.exp(tl.load(g))
        change = (v.to(tl.float32) - tl.sum(h * k[:, None], axis=0)) * beta
        h += k[:, None] * change[None, :]
        o = tl.sum(h * q[:, None], axis=0) * scale
        out = out_ptr + token * stride_ot + head * stride_oh + column
        tl.store(out, o.to(out_ptr.dtype.element_ty), mask=real_column)
        if step_ptr is not None:
            tl.store(step_ptr + ((request * most_steps + t) * heads + head) * K * V + place, h, mask=real)
    if not KEEP_STATES:
        tl.store(own, h, mask=real)


def run(a: DeltaArguments) -> tuple[LaunchRecord, ...]:
    batch, heads = len(a.slots), a.v.shape[1]
    if not batch * heads:
        return ()
    K, V = a.k.shape[2], a.v.shape[2]
    block = min(triton.next_power_of_2(V), 32)
    record = gated_delta_rule_kernel[(triton.cdiv(V, block), batch * heads)](
        *(a.q, a.k, a.v, a.g, a.beta, a.states, a.slots, a.cu_seqlens, a.initial, a.steps, a.parents, a.out),
        *(a.scale, heads, a.group, 0 if a.steps is None else a.steps.shape[1]),
        *(*a.q.stride()[:2], *a.k.stride()[:2], *a.v.stride()[:2], *a.g.stride()[:2], a.beta.stride(0)),
        *(*a.out.stride()[:2], a.states.stride(0), 0 if a.parents is None else a.parents.stride(0)),
        K=K,
        K_BLOCK=triton.next_power_of_2(K),
        V=V,
        V_BLOCK=block,
        PER_DIM=a.per_dim,
        NORMALISE=a.normalise,
        KEEP_STATES=a.keep_states,
        num_warps=4,
    )
    return (record,)
