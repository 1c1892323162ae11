"""Statements on multi-head latent attention: its widths, its scale, where RoPE happens."""

from __future__ import annotations

import torch

from sglab.attention import mla
from sglab.kernels import cutlass_mla_get_workspace_size, flash_mla_with_kvcache, ptx
from sglab.kernels.cutlass_mla import pad_heads
from sglab.kernels.cutlass_mla.contract import check
from sglab.kernels.mla import tensor_work
from sglab.labs.mla_hopper import Call
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS, ROPE_DIM
from sglab.workbench import decode_batch

from .statement import Found, statement


def _layer(nope: int = 128, keys: int = 20) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, mla.MLAWeights]:
    random = torch.Generator().manual_seed(0)
    shapes = ((2, 8, nope), (2, 8, ROPE_DIM), (keys, HEAD_DIM))
    q_nope, q_rope, cache = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes)
    up = torch.randn(2, 8, 128, LATENT_DIM, generator=random, dtype=torch.float64) / LATENT_DIM**0.5
    return q_nope, q_rope, cache, mla.MLAWeights(up[0], up[1])


@statement(
    "c",
    a=(True, "Ask the tensor: `nbytes` of a row is not 576."),
    b=(False, "The latent of 512 is counted in the 576. What has not been counted is how large a number is."),
    c=(False, "576 numbers of two bytes. Dividing bytes by a count of numbers gave 111."),
)
def cache_row_bytes() -> Found:
    """A row of the MLA cache takes 576 bytes, 111 times less than keys and values of 128 heads (float16, 128 + 128
    numbers per head)."""
    row = decode_batch([5], dtype="float16").runner.token_to_kv_pool.get_key_buffer(0)[0]
    plain = 2 * NUM_HEADS * (128 + 128)
    found = {"numbers in a row": row.numel(), "bytes of it": row.nbytes, "of 128 heads' keys and values": plain}
    return row.nbytes == 576, {**found, "times smaller": round(plain / row.nbytes, 1)}


@statement(
    "b",
    a=(True, "The configuration says 128: what one head passes on. Print both numbers."),
    b=(False, "128 per head in the model; 512 is what the attention layer mixes after absorption, the latent."),
    c=(False, "192 is the width of a key, 128 + 64. A value has no rotary part."),
)
def value_width_512() -> Found:
    """`v_head_dim` of DeepSeek-V3 is 512."""
    q_nope, q_rope, cache, weights = _layer()
    out = mla.naive_mla(q_nope, q_rope, cache, weights, 192**-0.5)
    found = {"v_head_dim in the model's dims": mla.MLADims().v_head_dim, "a head's output": out.shape[-1]}
    return out.shape[-1] == 512, {**found, "v_head_dim of the absorbed layer": decode_batch([5]).layer.v_head_dim}


@statement(
    "a",
    a=(False, "Before absorption 192 meets 192, after it 576 meets 576. Nothing fits in between."),
    b=(False, "No zeros are appended anywhere: absorption multiplies with W_UK, 128 numbers become 512."),
    c=(True, "torch refuses the product. Which of the two has been through W_UK?"),
)
def query_576_key_192() -> Found:
    """In decode a query of 576 numbers is compared with a key of 128 + 64 = 192."""
    q_nope, q_rope, cache, weights = _layer()
    absorbed = mla.absorb_query(q_nope, q_rope, weights)
    try:
        torch.einsum("qhd,kd->qhk", absorbed, cache[:, :192])
        product = "works"
    except RuntimeError as error:
        product = str(error).splitlines()[0][:90]
    widths = {"query before": q_nope.shape[-1] + q_rope.shape[-1], "query after": absorbed.shape[-1]}
    return product == "works", {**widths, "a row of the cache": cache.shape[-1], "576 with 192": product}


@statement(
    "c",
    a=(True, "Compare the two errors: no exception, and an output that is wrong by more than the values' own size."),
    b=(False, "1/√512 is no better: absorption rewrites a score of 128 + 64 numbers."),
    c=(False, "1/√192 (times mscale² with YaRN): absorption does not change a score, only how it is computed."),
)
def default_scale() -> Found:
    """FlashMLA's default for the softmax scale, one over the root of the query's width, is right for absorbed MLA."""
    call = Call([100])
    expected = call.exact(0, 0, 100)
    arguments = (call.q, call.cache, call.block_table, call.seqlens, LATENT_DIM, *call.metadata)
    default = float((flash_mla_with_kvcache(*arguments)[0][0, 0] - expected).abs().max())
    given = float((call.run()[0][0, 0] - expected).abs().max())
    q_nope, q_rope, cache, weights = _layer()
    truth = mla.naive_mla(q_nope, q_rope, cache, weights, 192**-0.5)
    found: dict[str, object] = {"kernel, 1/√192, error": f"{given:.3f}", "kernel, default 1/√576": f"{default:.2f}"}
    for name, scale in (("1/√192", 192**-0.5), ("1/√512", 512**-0.5), ("1", 1.0)):
        error = (mla.absorbed_mla(q_nope, q_rope, cache, weights, scale) - truth).abs().max()
        found[f"absorbed against naive, {name}"] = f"{float(error):.1g}"
    return default < 0.02, found


@statement(
    "b",
    a=(True, "43.75 % is what one gets of the keys alone. MLA's row holds the values as well."),
    b=(False, "43.75 % compares a row that is key and value with keys alone. Against both it is 71.9 %."),
    c=(False, "The number of layers cancels: every layer keeps a row."),
)
def saves_half() -> Found:
    """Against a model with 8 KV heads (128 + 128 numbers each), MLA saves 40 to 50 % of the cache."""
    row = mla.MLADims().elements_per_token
    sizes = {"8 KV heads": 8 * 256, "8 KV heads, keys alone": 8 * 128, f"{NUM_HEADS} heads": NUM_HEADS * 256}
    saved = {name: 1 - row / size for name, size in sizes.items()}
    return 0.4 <= saved["8 KV heads"] <= 0.5, {f"saved against {name}": f"{part:.2%}" for name, part in saved.items()}


@statement(
    "a",
    a=(False, "No sine, no cosine, and no argument that could say a position: query and cache come rotated."),
    b=(False, "Q is not rotated by the softmax either: it was rotated before it was given to the kernel."),
    c=(True, "Search the PTX for sine and cosine. A rotation needs both, and the positions."),
)
def kernel_rotates() -> Found:
    """The SM100 decode kernel applies the rotary embedding to the query while it loads it."""
    text = ptx.text("mla_decode_sm100")
    counts = {word: text.count(word) for word in ("sin.approx", "cos.approx", "ex2.approx", "tcgen05.mma")}
    return counts["sin.approx"] + counts["cos.approx"] > 0, {f"{word} in its PTX": n for word, n in counts.items()}


@statement(
    "b",
    a=(True, "192 is the width of a query, and 128 of these are not rotated at all."),
    b=(False, "64, the dims that are rotated. And a longer context takes more than the formula: YaRN."),
    c=(False, "The base is 10,000 for DeepSeek-V3, too. It is the divisor of the exponent that is wrong."),
)
def rope_exponent_192(position: int = 4095) -> Found:
    """RoPE's angles for DeepSeek-V3 are position · 10,000^(−i / 192) for i = 0, 2, …: 192 is the width of a query."""
    pair = torch.arange(0, ROPE_DIM, 2, dtype=torch.float64)
    right, wrong = 10_000 ** (-pair / ROPE_DIM), 10_000 ** (-pair / 192)
    found = {
        "slowest pair, divided by 64": f"{position * float(right[-1]):.2f} rad at position {position}",
        "divided by 192": f"{position * float(wrong[-1]):.1f} rad",
        "frequencies differ by up to": round(float((right - wrong).abs().max()), 2),
        "scale with YaRN, factor 40": round(mla.mla_softmax_scale(mla.MLADims(), 40, 1.0), 4),
    }
    return bool(torch.equal(right, wrong)), found


@statement(
    "c",
    a=(False, "128 KiB would be far more than 64 heads of 576 numbers: multiply it out."),
    b=(False, "Rows are computed in full, whatever their number: that is what the kernel's tile wants."),
    c=(True, "64 more heads × 576 numbers × 2 bytes. The kernel computes them, and they are sliced away."),
)
def padding_of_queries(heads: int = 64) -> Found:
    """A rank with 64 of the 128 heads pads the query of each request by 73,728 bytes for CUTLASS's MLA kernel."""
    q = torch.zeros(1, heads, HEAD_DIM, dtype=torch.float16)
    lengths, table = torch.tensor([9], dtype=torch.int32), torch.zeros(1, 1, dtype=torch.int32)
    workspace = torch.empty(cutlass_mla_get_workspace_size(128, 1), dtype=torch.uint8)
    cache = torch.zeros(1, 128, HEAD_DIM, dtype=torch.float16)
    call = check(q[..., :LATENT_DIM], q[..., LATENT_DIM:], cache, lengths, table, workspace, 0.1, 1, None, None)
    wide = pad_heads(call)
    padding = wide.q_nope.nbytes + wide.q_pe.nbytes - q.nbytes
    few, all_of_them = tensor_work(heads, 256), tensor_work(NUM_HEADS, 256)
    found = {"bytes of padding per request": f"{padding:,}", f"products with {heads} heads": few.mma_instructions}
    found[f"products with {NUM_HEADS} heads"] = all_of_them.mma_instructions
    found[f"useful with {heads} heads"] = f"{few.useful:.0%}"
    return padding == 73_728, found
