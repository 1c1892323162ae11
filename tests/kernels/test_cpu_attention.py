"""Attention on the host: every instruction set of this machine against float64, its bits, and SGLang's operators."""

import math
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import torch

from sglab.kernels import ContractError, flash_attn_varlen_func
from sglab.kernels import cpu_launch as launch
from sglab.kernels.cpu_attention import decode_attention_cpu, extend_attention_cpu
from sglab.kernels.scoring import Scoring, dense_attention
from tests.support.kernels.compare import ROUNDING, assert_close

ISAS = launch.available_isas()
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@pytest.fixture
def threads():
    """Sets PyTorch's number of threads, and puts the old one back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def paged_call(
    generator, q_lens, k_lens, heads=4, kv_heads=2, qk_dim=64, v_dim=64, dtype=torch.float32, cache=None, **options
):
    """A call over pages of 8 at random places, NaN where no request's keys are, and what float64 makes of it."""
    pages = [-(-length // 8) for length in k_lens]
    order, at = torch.randperm(sum(pages), generator=generator), 0
    table = torch.full((len(k_lens), max([*pages, 1])), 1 << 20, dtype=torch.int32)
    k, v = (torch.full((max(sum(pages), 1), 8, kv_heads, dim), torch.nan) for dim in (qk_dim, v_dim))
    q = torch.randn(sum(q_lens), heads, qk_dim, generator=generator).to(dtype)
    for request, (length, count) in enumerate(zip(k_lens, pages, strict=True)):
        table[request, :count] = order[at : at + count].int()
        for j in range(length):
            page = table[request, j // 8]
            k[page, j % 8] = torch.randn(kv_heads, qk_dim, generator=generator)
            v[page, j % 8] = torch.randn(kv_heads, v_dim, generator=generator)
        at += count
    k, v = (x.to(cache or dtype) for x in (k, v))
    out = torch.full((len(q), heads, v_dim), torch.nan, dtype=dtype)
    lse = torch.full((len(q), heads), torch.nan)
    starts = torch.tensor([0, *torch.tensor(q_lens).cumsum(0)[:-1]], dtype=torch.int32)
    source = launch.KeySource(k, v, torch.tensor(k_lens, dtype=torch.int32), table=table)
    scoring = options.pop("scoring", Scoring(qk_dim**-0.5))
    count = torch.tensor(q_lens, dtype=torch.int32)
    return launch.CpuCall(q, out, lse, starts, count, source, scoring, **options)


def in_float64(call):
    """O and the LSE of a paged call."""
    out, lse = torch.zeros_like(call.out, dtype=torch.float64), torch.full_like(call.lse, -math.inf).double()
    for i, (start, count) in enumerate(zip(call.q_start.tolist(), call.q_count.tolist(), strict=True)):
        keys, source = int(call.cached.lengths[i]), call.cached
        key = torch.arange(keys)
        page = source.table[i, key // 8].long()
        k, v = source.k[page, key % 8].double(), source.v[page, key % 8].double()
        if source.k_scale is not None:
            k, v = k * source.k_scale[i].double()[:, None], v * source.v_scale[i].double()[:, None]
        p = torch.arange(count)[:, None] + keys - count
        seen = (key >= p - call.left) & (key <= p + call.right)
        if call.chunk < launch.UNBOUNDED:
            seen &= key // call.chunk == p.div(call.chunk, rounding_mode="floor")
        rows = slice(start, start + count)
        out[rows], lse[rows] = dense_attention(call.q[rows], k, v, p[:, 0], call.scoring, seen)
    return out, lse


SHAPES = [
    pytest.param(4, 4, 64, 64, id="MHA"),
    pytest.param(12, 2, 128, 128, id="GQA"),
    pytest.param(16, 1, 80, 40, id="odd-dims"),
    pytest.param(20, 1, 576, 512, id="MLA"),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("heads", "kv_heads", "qk_dim", "v_dim"), SHAPES)
@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_every_instruction_set_equals_float64(isa, heads, kv_heads, qk_dim, v_dim, dtype, generator) -> None:
    """Decodes, verifications and prefills in one batch, requests without keys or queries, more queries than keys."""
    q_lens, k_lens = [1, 3, 19, 0, 7, 2], [150, 40, 61, 5, 3, 0]
    scoring = Scoring(qk_dim**-0.5, 5.0, sinks=torch.randn(heads, generator=generator), xai_temperature_len=16)
    call = paged_call(
        generator, q_lens, k_lens, heads, kv_heads, qk_dim, v_dim, dtype, isa=isa, right=0, left=37, scoring=scoring
    )
    call.run()
    out, lse = in_float64(call)
    # a score's own rounding goes into the output, and grows with the dims: of 400 draws at 576 two were beyond 2e-6
    assert_close(call.out, out, ROUNDING[dtype] + 2e-6 * max(1, qk_dim / 144))
    assert_close(call.lse, lse, 1e-5)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cache", FP8)
def test_caches_of_8_bits(isa, cache, generator) -> None:
    call = paged_call(generator, [1, 20], [45, 33], heads=6, dtype=torch.bfloat16, cache=cache, isa=isa, right=0)
    scales = [torch.rand(2, 2, generator=generator) + 0.5 for _ in range(2)]
    call = replace(call, cached=replace(call.cached, k_scale=scales[0], v_scale=scales[1]))
    call.run()
    out, lse = in_float64(call)
    assert_close(call.out, out, ROUNDING[torch.bfloat16])
    assert_close(call.lse, lse, 1e-5)


@pytest.mark.parametrize("isa", [isa for isa in ISAS if isa != "amx_model"])
def test_every_value_of_the_narrow_formats_is_read_exactly(isa) -> None:
    """One key per value: O is that value."""
    for dtype, count in (*((each, 256) for each in FP8), (torch.float16, 65536)):
        integers = torch.arange(count, dtype=torch.int32).to(torch.uint8 if count == 256 else torch.int16)
        values = integers.view(dtype).view(-1, 1, 1)
        values = values[values.float().isfinite().flatten()].repeat(1, 1, 16)
        out, zeros = torch.empty(len(values), 1, 16), torch.zeros_like(values.float()).to(dtype)
        one = torch.ones(len(values), dtype=torch.int32)
        at = torch.arange(len(values), dtype=torch.int32)
        source = launch.KeySource(zeros, values, one, first=at)
        launch.CpuCall(torch.zeros_like(out), out, None, at, one, source, Scoring(1.0), isa=isa).run()
        assert torch.equal(out, values.float())


@pytest.mark.parametrize("isa", ISAS)
def test_bits_depend_on_the_request_alone(isa, threads, generator) -> None:
    """Any number of threads, alone or in a batch, long enough for splits."""
    call = paged_call(generator, [1, 33, 2], [4500, 70, 2100], qk_dim=16, v_dim=16, isa=isa, right=0)
    results = []
    for count in (1, 2, 5):
        threads(count)
        call.run()
        results.append((call.out.clone(), call.lse.clone()))
    for request, (start, count) in enumerate(zip(call.q_start.tolist(), call.q_count.tolist(), strict=True)):
        one = slice(request, request + 1)
        source = replace(call.cached, lengths=call.cached.lengths[one], table=call.cached.table[one])
        call = replace(call, out=torch.zeros_like(call.out), lse=torch.zeros_like(call.lse))
        replace(call, q_start=call.q_start[one], q_count=call.q_count[one], cached=source).run()
        rows = slice(start, start + count)
        assert all(torch.equal(out[rows], call.out[rows]) for out, _ in results)
        assert all(torch.equal(lse[rows], call.lse[rows]) for _, lse in results)
        call = replace(
            call,
            q_start=torch.tensor([0, 1, 34], dtype=torch.int32),
            q_count=torch.tensor([1, 33, 2], dtype=torch.int32),
        )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_and_infinity_stay_in_their_rows(isa, dtype, generator) -> None:
    call = paged_call(generator, [1, 40], [20, 50], dtype=dtype, isa=isa, right=0)
    call.q[0, 1], call.q[7, 2], call.q[9, 0] = torch.nan, torch.nan, torch.inf
    call.run()
    wrong = call.out.float().isnan().any(-1)
    assert torch.equal(wrong.nonzero(), torch.tensor([[0, 1], [7, 2], [9, 0]]))
    assert bool(call.lse[0, 1].isnan()) and bool(call.lse[7, 2].isnan())


@pytest.mark.parametrize("isa", ISAS)
def test_scores_of_minus_infinity(isa) -> None:
    """Keys that overflow to −inf count nothing; where all do, O is 0."""
    q, v = torch.full((12, 1, 16), 3e38), torch.randn(2, 1, 16)
    k = torch.tensor([-3e38, 0.0]).view(2, 1, 1).expand(2, 1, 16).contiguous()
    for rows in (1, 12):  # by dims in lanes, and by rows
        for keys, wanted, lse in ((2, v[1], 0.0), (1, torch.zeros(1, 16), -math.inf)):
            out, got = torch.full((rows, 1, 16), torch.nan), torch.full((rows, 1), torch.nan)
            count = torch.tensor([keys], dtype=torch.int32)
            start, queries = torch.zeros(1, dtype=torch.int32), torch.tensor([rows], dtype=torch.int32)
            launch.CpuCall(
                q[:rows], out, got, start, queries, launch.KeySource(k, v, count), Scoring(1.0), isa=isa
            ).run()
            assert_close(out, wanted.expand(rows, 1, 16), 0)
            assert bool((got == lse).all())


def test_threads_of_python_and_forks_get_the_same(generator) -> None:
    call = paged_call(generator, [1, 40], [3000, 50], right=0)
    call.run()
    wanted, others = call.out.clone(), [replace(call, out=torch.empty_like(call.out)) for _ in range(4)]
    running = [threading.Thread(target=other.run) for other in others]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert all(torch.equal(other.out, wanted) for other in others)
    child = os.fork()
    if child == 0:
        others[0].out.zero_()
        others[0].run()
        os._exit(0 if torch.equal(others[0].out, wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_instruction_set_is_a_wish_that_can_be_refused() -> None:
    with pytest.raises(ValueError, match=f"isa must be one of {ISAS[0]}"):
        paged_call(torch.Generator(), [1], [1], isa="sse9").run()
    listed = "from sglab import _core; print(*_core.cpu_attention.available_isas())"
    for wish in ("baseline", "avx2", "avx512"):
        lowered = subprocess.run(
            [sys.executable, "-c", listed],
            env={**os.environ, "SGLAB_ISA": wish},
            capture_output=True,
            text=True,
            check=True,
        )
        order = ("amx", "avx512_bf16", "avx512", "avx2", "baseline", "amx_model")
        assert lowered.stdout.split() == [isa for isa in order[order.index(wish) :] if isa in ISAS]


def slots_of(generator, lens, width, slots):
    """req_to_token for requests in rows 1, 3, 5 …: slots at random, each once."""
    order, table, at = (
        torch.randperm(slots, generator=generator).int(),
        torch.full((9, width), -7, dtype=torch.int32),
        0,
    )
    rows = torch.arange(len(lens)) * 2 + 1
    for row, length in zip(rows.tolist(), lens, strict=True):
        table[row, :length] = order[at : at + length]
        at += length
    return table, rows


@pytest.mark.parametrize("option", ["plain", "window", "cap-sinks", "encoder", "cross", "MLA"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decode_writes_and_attends(option, dtype, generator) -> None:
    encoder = torch.tensor([4, 1, 6]) if option in ("encoder", "cross") else None
    lens, before = torch.tensor([21, 1, 9]), 0 if encoder is None else encoder
    heads, kv_heads, qk_dim, v_dim = (24, 1, 96, 64) if option == "MLA" else (6, 2, 32, 48)
    table, rows = slots_of(generator, (lens + before).tolist(), 40, 60)
    k = torch.randn(60, kv_heads, qk_dim, generator=generator).to(dtype)
    v = k[..., :v_dim] if option == "MLA" else torch.randn(60, kv_heads, v_dim, generator=generator).to(dtype)
    q = torch.randn(3, heads, qk_dim, generator=generator).to(dtype)
    new = None if option == "cross" else torch.randn(3, kv_heads, qk_dim, generator=generator).to(dtype)
    new_v = None if new is None else torch.randn(3, kv_heads, v_dim, generator=generator).to(dtype)
    loc = table[rows, (lens + before - 1)].long()
    keywords = {
        "sliding_window": 5 if option == "window" else 0,
        "logit_cap": 3.0 if option == "cap-sinks" else 0.0,
        "sinks": torch.randn(heads, generator=generator) if option == "cap-sinks" else None,
        "is_cross_attn": option == "cross",
        "encoder_lens": encoder,
    }
    results = []
    for implementation in ("reference", "cpu"):
        k_buffer = k.clone()
        v_buffer = k_buffer[..., :v_dim] if option == "MLA" else v.clone()
        out, logits = (
            torch.full((3, heads, v_dim), torch.nan, dtype=dtype),
            torch.full((3, heads, 8, v_dim + 1), torch.nan),
        )
        decode_attention_cpu(
            *(q, k_buffer, v_buffer, out, new, new_v, loc, logits, table, rows, lens, qk_dim**-0.5),
            **keywords,
            implementation=implementation,
        )
        if new is not None:
            assert torch.equal(k_buffer[loc], new)
            assert option == "MLA" or torch.equal(v_buffer[loc], new_v)
        results.append((out, logits))
    (out, logits), (own, own_logits) = results
    assert_close(own, out, ROUNDING[dtype] + 2e-6)
    assert_close(own_logits, logits, 1e-5 if dtype == torch.float32 else 1e-2)
    assert bool((logits[1, :, 1:, -1] == -math.inf).all()) or option in ("encoder", "cross")


@pytest.mark.parametrize("option", ["plain", "window", "cap-sinks", "encoder", "cross"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extend_reads_the_prefix_and_the_new_rows(option, dtype, generator) -> None:
    encoder = torch.tensor([4, 1, 6]) if option in ("encoder", "cross") else None
    lens, new, before = torch.tensor([41, 12, 9]), torch.tensor([20, 12, 1]), 0 if encoder is None else encoder
    table, rows = slots_of(generator, (lens + before).tolist(), 60, 90)
    k, v = (torch.randn(90, 2, dim, generator=generator).to(dtype) for dim in (32, 48))
    q, k_new, v_new = (torch.randn(33, h, d, generator=generator).to(dtype) for h, d in ((6, 32), (2, 32), (2, 48)))
    keywords = {
        "sliding_window": 5 if option == "window" else 0,
        "logit_cap": 3.0 if option == "cap-sinks" else 0.0,
        "sinks": torch.randn(6, generator=generator) if option == "cap-sinks" else None,
        "is_cross_attn": option == "cross",
        "encoder_lens": encoder,
    }
    results = []
    for implementation in ("reference", "cpu"):
        out = torch.full((33, 6, 48), torch.nan, dtype=dtype)
        extend_attention_cpu(
            *(q, k_new, v_new, out, k, v, table, rows, lens, new, torch.tensor([0, 20, 32]), 20, 32**-0.5),
            **keywords,
            implementation=implementation,
        )
        results.append(out)
    assert_close(results[1], results[0], ROUNDING[dtype] + 2e-6)


def test_what_does_not_fit_is_refused_and_nothing_written(generator) -> None:
    table, rows = slots_of(generator, [5, 3], 8, 8)
    q, k, v = torch.randn(2, 4, 16), torch.randn(8, 2, 16), torch.randn(8, 2, 16)
    new, logits, lens = torch.randn(2, 2, 16), torch.zeros(2, 4, 8, 17), torch.tensor([5, 3])

    def decode(**changes):
        given = {
            "k": k.clone(),
            "loc": table[rows, lens - 1].long(),
            "table": table,
            "rows": rows,
            "lens": lens,
            **changes,
        }
        before, out = given["k"].clone(), torch.zeros(2, 4, 16)
        try:
            decode_attention_cpu(
                *(
                    q,
                    given["k"],
                    v,
                    out,
                    new,
                    new,
                    given["loc"],
                    logits,
                    given["table"],
                    given["rows"],
                    given["lens"],
                    0.25,
                )
            )
        finally:
            untouched = torch.equal(given["k"].nan_to_num(), before.nan_to_num()) and not out.any()
            assert untouched == (sys.exc_info()[0] is not None)

    decode()
    wrong = table.clone()
    wrong[1, 0] = 8
    with pytest.raises(ContractError, match="token index out of scope!"):
        decode(table=wrong)
    with pytest.raises(ContractError, match="req_pool_indices"):
        decode(rows=torch.tensor([1, 9]))
    with pytest.raises(ContractError, match="seq_lens"):
        decode(lens=torch.tensor([5, 9]))
    with pytest.raises(ContractError, match="loc"):
        decode(loc=torch.tensor([0, 8]))
    broken = k.clone()
    broken[table[1, 0].long()] = torch.nan
    with pytest.raises(ContractError, match="k_buffer must be finite"):
        decode(k=broken)


def test_what_the_host_does_not_read_goes_to_pytorch(generator) -> None:
    q, k = torch.randn(3, 2, 16), torch.randn(3, 2, 16)
    indptr = torch.tensor([0, 3], dtype=torch.int32)
    with pytest.raises(ValueError, match="it has no second query"):
        flash_attn_varlen_func(q, k, k, indptr, indptr, 3, 3, qv=q, implementation="cpu")
    assert_close(
        flash_attn_varlen_func(q, k, k, indptr, indptr, 3, 3, qv=q),
        flash_attn_varlen_func(q, k, k, indptr, indptr, 3, 3, qv=q, implementation="reference"),
        4e-6,
    )


def pools(generator, requests, width, kv_heads, dim, cache):
    """Slots of several requests at random places, NaN in the others."""
    slots = torch.randperm(requests * width + 5, generator=generator)[: requests * width].view(requests, width).int()
    k, v = (torch.full((requests * width + 5, kv_heads, dim), torch.nan) for _ in range(2))
    for buffer in (k, v):
        buffer[slots.long()] = torch.randn(requests, width, kv_heads, dim, generator=generator)
    return slots, k.to(cache), v.to(cache)


@pytest.mark.parametrize("cache", [torch.bfloat16, *FP8])
@pytest.mark.parametrize("implementation", ["cpu", "reference"])
def test_a_tree_of_drafts_over_a_scaled_cache(implementation, cache, generator) -> None:
    """Each draft sees the prefix and its own path; the cache's scales are not the new tokens'."""
    lens, drafts, eight_bit = [40, 6, 133], 5, cache != torch.bfloat16
    slots, k, v = pools(generator, 3, 140, 2, 32, cache)
    k_scale, v_scale = (0.5, 1.75) if eight_bit else (1.0, 1.0)
    q = torch.randn(15, 6, 32, generator=generator).bfloat16()
    k_new, v_new = (torch.randn(15, 2, 32, generator=generator).bfloat16() for _ in range(2))
    tree = torch.eye(drafts, dtype=torch.bool)
    for draft, parent in ((1, 0), (2, 0), (3, 1), (4, 2)):
        tree[draft] |= tree[parent]
    masks = [torch.cat([torch.ones(drafts, length, dtype=torch.bool), tree], 1).flatten() for length in lens]
    new, total = torch.full((3,), drafts), torch.tensor(lens) + drafts
    out = torch.full_like(q, torch.nan)
    given = (q, k_new, v_new, out, k, v, slots, torch.arange(3), total, new, torch.arange(3) * drafts, drafts, 0.3)
    options = {"k_scale": k_scale, "v_scale": v_scale, "tree_mask": torch.cat(masks)}
    extend_attention_cpu(*given, **options, implementation=implementation)
    for request, length in enumerate(lens):
        own, rows = slots[request, :length].long(), slice(request * drafts, (request + 1) * drafts)
        keys = torch.cat([k[own].double() * k_scale, k_new[rows].double()])
        values = torch.cat([v[own].double() * v_scale, v_new[rows].double()])
        seen, at = masks[request].view(drafts, -1), length + torch.arange(drafts)
        wanted = dense_attention(q[rows], keys, values, at, Scoring(0.3), seen)[0]
        assert_close(out[rows], wanted, ROUNDING[torch.bfloat16])
    with pytest.raises(ContractError, match=f"tree_mask must be {len(options['tree_mask'])} values"):
        extend_attention_cpu(*given, **{**options, "tree_mask": options["tree_mask"][1:]})
    refused = {"k_scale": math.inf} if eight_bit else {"v_scale": 2.0}
    with pytest.raises(ContractError, match=f"{next(iter(refused))} must be"):
        extend_attention_cpu(*given, **{**options, **refused})


@pytest.mark.parametrize("implementation", ["cpu", "reference"])
def test_decode_over_a_scaled_cache(implementation, generator) -> None:
    slots, k, v = pools(generator, 3, 50, 2, 32, torch.float8_e4m3fn)
    q, lens = torch.randn(3, 6, 32, generator=generator).bfloat16(), torch.tensor([50, 1, 17])
    out, logits = torch.full_like(q, torch.nan), torch.empty(3, 6, 8, 33)
    decode_attention_cpu(
        *(q, k, v, out, None, None, None, logits, slots, torch.arange(3), lens, 0.3),
        k_scale=0.5,
        v_scale=3.0,
        implementation=implementation,
    )
    for request, length in enumerate(lens.tolist()):
        own, row = slots[request, :length].long(), slice(request, request + 1)
        keys, values = k[own].double() * 0.5, v[own].double() * 3.0
        wanted, lse = dense_attention(q[row], keys, values, torch.tensor([length - 1]), Scoring(0.3))
        assert_close(out[row], wanted, ROUNDING[torch.bfloat16])
        weights = (logits[request, :, :, -1] - lse[0].float()[:, None]).exp()
        assert_close((logits[request, :, :, :-1] * weights[..., None]).sum(1), wanted[0], 2e-5)
