"""Lab 15: absorbed MLA decode. The model solution: a program per request, tensor cores, the cache read once."""

import triton.language as tl

from sglab.triton import triton_kernel


@triton_kernel
def mla(q, kv, page_table, seq_lens, out, scale, pages):
    request = tl.program_id(0)
    heads, latent, rope, rows = tl.arange(0, 16), tl.arange(0, 128), tl.arange(0, 32), tl.arange(0, 16)
    length = tl.load(seq_lens + request)
    at_q = q + (request * 16 + heads[:, None]) * 160
    q_latent = tl.load(at_q + latent[None, :])
    q_rope = tl.load(at_q + 128 + rope[None, :])
    m = tl.full((16,), float("-inf"), tl.float32)
    d = tl.zeros((16,), tl.float32)
    o = tl.zeros((16, 128), tl.float32)
    for page in range(tl.cdiv(length, 16)):
        slot = tl.load(page_table + request * pages + page) * 16 + rows
        seen = page * 16 + rows < length
        at = kv + slot[:, None] * 160
        c = tl.load(at + latent[None, :], mask=seen[:, None], other=0.0)
        r = tl.load(at + 128 + rope[None, :], mask=seen[:, None], other=0.0)
        s = tl.dot(q_latent, tl.trans(c))
        s += tl.dot(q_rope, tl.trans(r))
        s = tl.where(seen[None, :], s * scale, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        factor = tl.exp(m - top)
        p = tl.exp(s - top[:, None])
        d = d * factor + tl.sum(p, 1)
        o = o * factor[:, None] + tl.dot(p.to(tl.float16), c)
        m = top
    tl.store(out + (request * 16 + heads[:, None]) * 128 + latent[None, :], o / d[:, None])


def decode(q, kv, page_table, seq_lens, out, scale):
    mla[(len(seq_lens),)](q, kv, page_table, seq_lens, out, scale, page_table.shape[1], num_warps=4)
