"""Sessions whose kernels make NaN or take it in: a softmax over an empty row, and MLA decode over a spoilt KV cache."""

from __future__ import annotations

import torch

import sglab
from sglab.emulator.session import Session

LANES = 32
MAXIMUM = "".join(f"shfl.sync.bfly.b32 %f2, %f1, {step}, 31, -1; max.f32 %f1, %f1, %f2;\n" for step in (16, 8, 4, 2, 1))
SUM = "".join(f"shfl.sync.bfly.b32 %f5, %f4, {step}, 31, -1; add.f32 %f4, %f4, %f5;\n" for step in (16, 8, 4, 2, 1))
SOFTMAX = f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry softmax(.param .u64 x, .param .u64 out)
{{
.reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>;
.shared .align 4 .b8 part[128];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, {LANES}, %r1; mul.wide.u32 %rd3, %r3, 4;
add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
ld.global.f32 %f0, [%rd1];
mov.f32 %f1, %f0;
{MAXIMUM}
sub.f32 %f3, %f0, %f1;
mul.f32 %f3, %f3, 0f3FB8AA3B;
ex2.approx.f32 %f3, %f3;
mov.u32 %r4, part; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5;
st.shared.f32 [%r4], %f3;
bar.warp.sync -1;
ld.shared.f32 %f4, [%r4];
{SUM}
div.rn.f32 %f6, %f3, %f4;
st.global.f32 [%rd2], %f6;
ret;
}}
"""


def softmax(x: torch.Tensor) -> tuple[Session, torch.Tensor]:
    """A softmax of every row of 32 scores, before its first instruction, and the tensor that it will write."""
    out = torch.zeros_like(x)
    return sglab.step(sglab.ptx(SOFTMAX)["softmax"][len(x), LANES], x, out).session(), out


def empty_row() -> Session:
    """Row 1 of three is empty: all its scores are −inf, whose maximum subtracts to NaN."""
    x = torch.randn(3, LANES, generator=torch.Generator().manual_seed(0))
    x[1] = -torch.inf
    return softmax(x)[0]


def spoilt_cache(token: int = 37, column: int = 5) -> tuple[Session, int, torch.Tensor]:
    """Our SM100 kernel over 200 tokens, of whose KV one element became NaN after the checks; its slot, and the pool."""
    batch = sglab.decode_batch([200], num_heads=128, page_size=128, dtype="float16", seed=0)
    session = sglab.trace(batch, backend="cutlass_mla").session()
    pool = batch.runner.token_to_kv_pool.get_key_buffer(0)
    slot = int(batch.req_to_token[batch.req_pool_indices[0], token])
    pool[slot, 0, column] = torch.nan
    return session, slot, pool
