"""Triton kernels of the corpus."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def softmax(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
    x = tl.exp(x - tl.max(x, axis=0))
    tl.store(
        out_ptr + row * stride + offsets, (x / tl.sum(x, axis=0)).to(out_ptr.dtype.element_ty), mask=offsets < columns
    )


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = 0.0
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0.0).to(tl.float32)
        d = tl.where(offsets < columns, x - mean, 0.0)
        total += d * d
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + eps)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        x = tl.load(x_ptr + row * columns + offsets, mask=mask).to(tl.float32)
        y = (x - mean) * rstd * tl.load(w_ptr + offsets, mask=mask) + tl.load(b_ptr + offsets, mask=mask)
        tl.store(out_ptr + row * columns + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    y = x * rstd * tl.load(w_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * columns + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    a = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(
            tl.load(a, mask=(offs_m[:, None] < M) & (offs_k[None, :] + k < K), other=0.0),
            tl.load(b, mask=(offs_k[:, None] + k < K) & (offs_n[None, :] < N), other=0.0),
            acc,
        )
        a += BK
        b += BK * stride_bk
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul_tma(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A [M, K], B [N, K], C [M, N]; tensor descriptors made on the device (needs the global scratch argument)."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """As matmul_tma, with tensor descriptors passed from the host (expanded into a tensor map and its strides)."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def flash_attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    lse_ptr,
    scale,
    S,
    stride_h,
    CAUSAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    """q, k, v, o: [H, S, D] fp16 contiguous (stride_h = S*D); lse: [H, S] fp32 (natural log). Grid (ceil(S/BM), H)."""
    m, h = tl.program_id(0), tl.program_id(1)
    offs_m = m * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    base = h.to(tl.int64) * stride_h
    q = tl.load(q_ptr + base + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < S, other=0.0)
    k_ptrs = k_ptr + base + offs_n[None, :] * D + offs_d[:, None]
    v_ptrs = v_ptr + base + offs_n[:, None] * D + offs_d[None, :]
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    qk_scale = scale * 1.4426950408889634
    stop = S
    if CAUSAL:
        stop = tl.minimum((m + 1) * BM, S)
    for start in range(0, stop, BN):
        k = tl.load(k_ptrs + start * D, mask=start + offs_n[None, :] < S, other=0.0)
        s = tl.dot(q, k) * qk_scale
        valid = (start + offs_n)[None, :] < S
        if CAUSAL:
            valid = valid & (offs_m[:, None] >= (start + offs_n)[None, :])
        s = tl.where(valid, s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptrs + start * D, mask=start + offs_n[:, None] < S, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    acc = acc / l_i[:, None]
    mask = offs_m < S
    tl.store(o_ptr + base + offs_m[:, None] * D + offs_d[None, :], acc.to(o_ptr.dtype.element_ty), mask=mask[:, None])
    tl.store(lse_ptr + h * S + offs_m, m_i * 0.6931471805599453 + tl.log(l_i), mask=mask)
