"""flash_attn_varlen_func and flash_attn_with_kvcache against attention written out per query in float64."""

import math

import pytest
import torch

from sglab.kernels import ContractError, flash_attn_varlen_func, flash_attn_with_kvcache
from tests.support.kernels.compare import ROUNDING, assert_close

IMPLEMENTATIONS = ["torch", "triton", "cpu", "reference"]


def emulated(device, implementation, wanted) -> None:
    """On the emulator a selection of the kernel's specialisations runs, on a GPU all, but for the host's."""
    if device.type != "cpu" and implementation == "cpu":
        pytest.skip("it reads the host's memory")
    if device.type == "cpu" and implementation == "triton" and not wanted:
        pytest.skip("the emulator runs a selection")


def naive(q, k, v, scale, left=None, right=None, chunk=None, cap=0.0, sinks=None):
    """One request's O and LSE, query by query: q (s_q, heads, d), k and v (s_k, kv_heads, d)."""
    q, k, v = q.double().cpu(), k.double().cpu(), v.double().cpu()
    out, lse = torch.zeros(*q.shape[:2], v.shape[-1]).double(), torch.full(q.shape[:2], -math.inf).double()
    for i in range(len(q)):
        p = i + len(k) - len(q)
        seen = [j for j in range(len(k)) if (left is None or j >= p - left) and (right is None or j <= p + right)]
        if chunk:
            seen = [j for j in seen if j // chunk == p // chunk]
        for head in range(q.shape[1]):
            kv_head = head * k.shape[1] // q.shape[1]
            scores = k[seen, kv_head] @ q[i, head] * scale
            scores = cap * (scores / cap).tanh() if cap else scores
            everything = scores if sinks is None else torch.cat([scores, sinks[head : head + 1].double().cpu()])
            if len(everything):
                lse[i, head] = everything.logsumexp(0)
                out[i, head] = (scores - lse[i, head]).exp() @ v[seen, kv_head]
    return out, lse


def paged(k, v, lens, page_size, device, dtype):
    """Requests' keys and values, given one after another, in pages at random; everything else is NaN."""
    pages = [-(-length // page_size) for length in lens]
    order = torch.randperm(sum(pages) + 1).int()
    table = torch.full((len(lens), max(pages) + 1), 2**30, dtype=torch.int32)
    caches = [torch.full((sum(pages) + 1, page_size, *x.shape[1:]), torch.nan) for x in (k, v)]
    at = first = 0
    for request, (length, count) in enumerate(zip(lens, pages, strict=True)):
        table[request, :count] = order[at : at + count]
        for cache, x in zip(caches, (k, v), strict=True):
            for j in range(length):
                cache[order[at + j // page_size], j % page_size] = x[first + j].float()
        at, first = at + count, first + length
    return (*(cache.to(device, dtype) for cache in caches), table.to(device))


def cumulative(lens, device):
    return torch.tensor([0, *torch.tensor(lens).cumsum(0)], dtype=torch.int32, device=device)


OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "all": {"causal": True, "window_size": (9, 0), "softcap": 4.0, "sinks": True},
    "chunk": {"causal": True, "attention_chunk": 8, "sinks": True},
    "two-sided": {"window_size": (3, 5)},
}


@pytest.mark.parametrize("option", list(OPTIONS))
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_paged_equals_the_formula(option, splits, implementation, device, generator) -> None:
    """GQA, lengths with 0 and 1, more queries than keys, queries longer than a block."""
    emulated(device, implementation, (option, splits) in {("all", 1), ("chunk", 3), ("two-sided", 3)})
    given = dict(OPTIONS[option])
    q_lens, k_lens = [2, 1, 5, 3, 9], [25, 0, 2, 16, 40]
    q = torch.randn(sum(q_lens), 6, 32, generator=generator).to(device)
    k, v = (torch.randn(sum(k_lens), 2, 32, generator=generator) for _ in range(2))
    sinks = torch.randn(6, generator=generator).to(device) if given.pop("sinks", False) else None
    k_cache, v_cache, table = paged(k, v, k_lens, 16, device, torch.float32)
    o, lse = flash_attn_with_kvcache(
        q,
        k_cache,
        v_cache,
        cache_seqlens=torch.tensor(k_lens, dtype=torch.int32, device=device),
        page_table=table,
        cu_seqlens_q=cumulative(q_lens, device),
        max_seqlen_q=9,
        num_splits=splits,
        sinks=sinks,
        return_softmax_lse=True,
        implementation=implementation,
        **given,
    )
    left, right = given.get("window_size", (None, None))
    right = 0 if given.get("causal") else right
    options = {"chunk": given.get("attention_chunk"), "cap": given.get("softcap", 0.0), "sinks": sinks}
    wanted = [
        naive(each, own_k, own_v, 32**-0.5, left, right, **options)
        for each, own_k, own_v in zip(q.split(q_lens), k.split(k_lens), v.split(k_lens), strict=True)
    ]
    assert_close(o, torch.cat([one[0] for one in wanted]), 4e-6)
    assert_close(lse.T, torch.cat([one[1] for one in wanted]), 4e-6)


DIMS = [(8, 1, 64, 64), (4, 4, 80, 80), (16, 2, 128, 128), (8, 2, 192, 128), (3, 1, 256, 256)]


@pytest.mark.parametrize(("heads", "kv_heads", "qk_dim", "v_dim"), DIMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_ragged_prefill(heads, kv_heads, qk_dim, v_dim, dtype, device, generator) -> None:
    chosen = {(64, torch.float16), (80, torch.float16), (192, torch.bfloat16)}
    emulated(device, "triton", (qk_dim, dtype) in chosen)
    lens = [33, 1, 70]
    q, k, v = (
        torch.randn(sum(lens), h, d, generator=generator).to(device, dtype)
        for h, d in ((heads, qk_dim), (kv_heads, qk_dim), (kv_heads, v_dim))
    )
    indptr = cumulative(lens, device)
    results = [
        flash_attn_varlen_func(
            q, k, v, indptr, indptr, 70, 70, causal=True, return_softmax_lse=True, implementation=implementation
        )
        for implementation in ("reference", "torch", "triton")
    ]
    for o, lse in results[1:]:
        assert_close(o, results[0][0], ROUNDING[dtype])
        assert_close(lse, results[0][1], 1e-5)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_bottom_right_by_hand(implementation, device) -> None:
    emulated(device, implementation, True)
    """Equal scores: O is the mean of what is seen. 2 queries, 5 keys: 11110, 11111; 5 queries, 2 keys: the last two
    rows see 10 and 11, the others nothing."""
    v = 2.0 ** torch.arange(16).repeat(32, 1).T[:, None].to(device)
    for queries, keys, wanted in ((2, 5, [15 / 4, 31 / 5]), (5, 2, [0, 0, 0, 1, 3 / 2])):
        q, k = torch.zeros(queries, 1, 32, device=device), torch.zeros(keys, 1, 32, device=device)
        o, lse = flash_attn_varlen_func(
            *(q, k, v[:keys], cumulative([queries], device), cumulative([keys], device), queries, keys),
            causal=True,
            return_softmax_lse=True,
            implementation=implementation,
        )
        assert_close(o[:, 0, 0], torch.tensor(wanted), 1e-6)
        counts = torch.tensor([4, 5] if queries == 2 else [0, 0, 0, 1, 2])
        assert_close(lse[0], counts.log(), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("implementation", ["torch", "triton"])
def test_8_bit_cache_with_descales_per_head(dtype, implementation, device, generator) -> None:
    lens = [40, 7]
    q = torch.randn(2, 1, 8, 64, generator=generator).to(device, torch.bfloat16)
    k, v = (torch.randn(sum(lens), 2, 64, generator=generator).to(dtype) for _ in range(2))
    k_descale, v_descale = (torch.rand(2, 2, generator=generator).add(0.5).to(device) for _ in range(2))
    k_cache, v_cache, table = paged(k, v, lens, 16, device, dtype)
    given = {
        "cache_seqlens": torch.tensor(lens, dtype=torch.int32, device=device),
        "page_table": table,
        "k_descale": k_descale,
        "v_descale": v_descale,
        "num_splits": 1,
    }
    o = flash_attn_with_kvcache(q, k_cache, v_cache, implementation=implementation, **given)
    for request, (own_k, own_v) in enumerate(zip(k.float().split(lens), v.float().split(lens), strict=True)):
        wide_k, wide_v = own_k * k_descale[request, :, None].cpu(), own_v * v_descale[request, :, None].cpu()
        assert_close(o[request], naive(q[request], wide_k, wide_v, 64**-0.5)[0], ROUNDING[torch.bfloat16])


@pytest.mark.parametrize("implementation", ["torch", "triton"])
def test_8_bit_queries_give_bfloat16(implementation, device, generator) -> None:
    q, k, v = (torch.randn(6, 2, 32, generator=generator).to(torch.float8_e4m3fn).to(device) for _ in range(3))
    q_descale = torch.tensor([[0.5, 2.0]], device=device)
    indptr = cumulative([6], device)
    o = flash_attn_varlen_func(*(q, k, v, indptr, indptr, 6, 6), q_descale=q_descale, implementation=implementation)
    assert o.dtype == torch.bfloat16
    wide = q.float() * q_descale[0, :, None]
    assert_close(o, naive(wide, k.float(), v.float(), 32**-0.5)[0], ROUNDING[torch.bfloat16])


@pytest.mark.parametrize("implementation", ["torch", "triton"])
def test_absorbed_mla_with_qv(implementation, device, generator) -> None:
    """Scores are q·k over 64 rotary dims and qv·v over the latent; the scale follows from both."""
    q, qv = (
        torch.randn(3, 16, 64, generator=generator).to(device),
        torch.randn(3, 16, 128, generator=generator).to(device),
    )
    k, v = (torch.randn(20, 1, dim, generator=generator).to(device) for dim in (64, 128))
    o = flash_attn_varlen_func(
        *(q, k, v, cumulative([3], device), cumulative([20], device), 3, 20),
        qv=qv,
        causal=True,
        implementation=implementation,
    )
    wanted, _ = naive(torch.cat([q, qv], -1), torch.cat([k, v], -1), v, 192**-0.5, right=0)
    assert_close(o, wanted, 4e-6)


class TestAppend:
    """k and v are written into the cache, rotated where cosines are given, and attended to."""

    @pytest.mark.parametrize("implementation", ["torch", "triton"])
    @pytest.mark.parametrize("interleaved", [True, False])
    @pytest.mark.parametrize("causal", [True, False])
    def test_rotary(self, interleaved, causal, implementation, device, generator) -> None:
        emulated(device, implementation, interleaved == causal)
        lens, heads, dim, rotary = [5, 0, 14], 4, 32, 16
        q, k, v = (torch.randn(3, 2, h, dim, generator=generator).to(device) for h in (heads, 2, 2))
        old = torch.randn(2, 3, 20, 2, dim, generator=generator).to(device)
        k_cache, v_cache = old[0].clone(), old[1].clone()
        angle = torch.arange(24)[:, None] * 0.3 ** torch.arange(rotary // 2)[None, :]
        cos, sin = angle.cos().to(device), angle.sin().to(device)
        o = flash_attn_with_kvcache(
            *(q, k_cache, v_cache, k, v, None, cos, sin, torch.tensor(lens, dtype=torch.int32, device=device)),
            causal=causal,
            rotary_interleaved=interleaved,
            implementation=implementation,
        )
        turned = torch.polar(torch.ones(24, rotary // 2).double(), angle.double())

        def rotate(x, positions):
            x = x.double().cpu().clone()
            pairs = x[..., :rotary].unflatten(-1, (-1, 2) if interleaved else (2, -1))
            pairs = pairs if interleaved else pairs.transpose(-1, -2)
            result = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turned[positions][:, None])
            x[..., :rotary] = (result if interleaved else result.transpose(-1, -2)).flatten(-2)
            return x

        for request, length in enumerate(lens):
            new = torch.arange(length, length + 2)
            keys = torch.cat([old[0, request, :length].cpu().double(), rotate(k[request], new)])
            values = torch.cat([old[1, request, :length].cpu(), v[request].cpu()])
            queries = rotate(q[request], new if causal else new[:1].expand(2))
            assert_close(k_cache[request, : length + 2], keys, 1e-5)
            assert_close(v_cache[request, : length + 2], values, 0)
            assert_close(k_cache[request, length + 2 :], old[0, request, length + 2 :], 0)
            assert_close(o[request], naive(queries, keys, values, dim**-0.5, right=0 if causal else None)[0], 1e-5)

    @pytest.mark.parametrize("implementation", ["torch", "triton"])
    def test_into_pages_of_an_8_bit_cache(self, implementation, device, generator) -> None:
        table = torch.tensor([[3, 1], [2, 0]], dtype=torch.int32, device=device)
        caches = [torch.zeros(4, 4, 2, 16, dtype=torch.float8_e4m3fn, device=device) for _ in range(2)]
        q, k, v = (torch.randn(5, h, 16, generator=generator).to(device) for h in (4, 2, 2))
        descale = torch.tensor([[0.25, 0.5], [0.125, 2.0]], device=device)
        indptr = cumulative([2, 3], device)
        flash_attn_with_kvcache(
            *(q, *caches, k, v),
            cache_seqlens=torch.tensor([3, 1], dtype=torch.int32, device=device),
            page_table=table,
            cu_seqlens_q=indptr,
            cu_seqlens_k_new=indptr,
            k_descale=descale,
            v_descale=descale,
            implementation=implementation,
        )
        places = [(3, 3), (1, 0), (2, 1), (2, 2), (2, 3)]
        for token, (page, row) in enumerate(places):
            factor = descale[0 if token < 2 else 1, :, None]
            for cache, x in zip(caches, (k, v), strict=True):
                assert_close(cache[page, row].float(), (x[token] / factor).to(torch.float8_e4m3fn).float(), 0)
        assert sum(int((cache.float() != 0).any(-1).any(-1).sum()) for cache in caches) == 10

    def test_a_refused_call_writes_nothing(self, generator) -> None:
        caches = [torch.zeros(1, 4, 1, 16) for _ in range(2)]
        new = torch.randn(1, 2, 1, 16, generator=generator)
        with pytest.raises(ContractError, match="k fits into 4 keys"):
            flash_attn_with_kvcache(new, *caches, new, new, cache_seqlens=3)
        with pytest.raises(ContractError, match="window_size"):
            flash_attn_with_kvcache(new, *caches, new, new, cache_seqlens=1, window_size=(-2, 0))
        with pytest.raises(ContractError, match="k must be finite"):
            flash_attn_with_kvcache(new, *caches, new / 0, new, cache_seqlens=1)
        assert not any(cache.any() for cache in caches)


def test_left_padding_and_batch_indices(implementation, device, generator) -> None:
    k, v = (torch.randn(4, 12, 2, 16, generator=generator).to(device) for _ in range(2))
    q = torch.randn(2, 1, 4, 16, generator=generator).to(device)
    of = lambda *values: torch.tensor(values, dtype=torch.int32, device=device)  # noqa: E731
    o, lse = flash_attn_with_kvcache(
        *(q, k, v),
        cache_seqlens=of(9, 12),
        cache_batch_idx=of(3, 1),
        cache_leftpad=of(2, 0),
        return_softmax_lse=True,
        implementation=implementation,
    )
    for request, (row, first, end) in enumerate(((3, 2, 9), (1, 0, 12))):
        wanted = naive(q[request], k[row, first:end], v[row, first:end], 0.25)
        assert_close(o[request], wanted[0], 4e-6)
        assert_close(lse[request].T, wanted[1], 4e-6)


def test_unused_queries_get_zero(implementation, device, generator) -> None:
    q = torch.randn(6, 2, 16, generator=generator).to(device)
    used = torch.tensor([1, 3], dtype=torch.int32, device=device)
    o, lse = flash_attn_varlen_func(
        *(q, q, q, cumulative([3, 3], device), cumulative([3, 3], device), 3, 3, used),
        return_softmax_lse=True,
        implementation=implementation,
    )
    assert not o[1:3].any() and (lse[:, 1:3] == -torch.inf).all()
    assert o[[0, 3, 4, 5]].isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"page_table": torch.tensor([[7]]).int()}, "page_table must be from 0 to 2"),
        ({"cache_seqlens": torch.tensor([5]).int()}, "seqused_k must be from 0 to 4"),
        ({"q": torch.zeros(1, 1, 3, 16)}, "divisible by the 2 KV heads"),
        ({"num_splits": -1}, "num_splits must be from 0 to 128"),
        ({"softmax_scale": float("nan")}, "sm_scale must be positive"),
        ({"v_cache": torch.full((3, 4, 2, 16), torch.nan)}, "v must be finite"),
        ({"q": torch.zeros(1, 1, 2, 16).half()}, "k must be float16, as q is"),
        ({"rotary_cos": torch.zeros(4, 8)}, "rotary_sin must be given"),
        ({"sinks": torch.zeros(3)}, "sinks must be of shape"),
    ],
)
def test_refusals(change, message) -> None:
    cache = torch.zeros(3, 4, 2, 16)
    call = {
        "q": torch.zeros(1, 1, 2, 16),
        "k_cache": cache,
        "v_cache": cache.clone(),
        "cache_seqlens": torch.tensor([3]).int(),
        "page_table": torch.tensor([[1]]).int(),
    }
    with pytest.raises(ContractError, match=message):
        flash_attn_with_kvcache(**{**call, **change})
