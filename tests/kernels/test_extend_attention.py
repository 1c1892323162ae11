"""Extend attention against float64: ragged new tokens over a scattered prefix, with every kind of visibility."""

from dataclasses import dataclass

import pytest
import torch

from sglab.kernels import ContractError, extend_attention_fwd
from tests.support.kernels.compare import ROUNDING, assert_close
from tests.support.kernels.paged import csr, paged_slots


@pytest.fixture(params=["reference", "triton", "cpu"])
def implementation(request: pytest.FixtureRequest, device: torch.device) -> str:
    if request.param == "cpu" and device.type != "cpu":
        pytest.skip("it reads the host's memory")
    return request.param


@dataclass
class Problem:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    k_buffer: torch.Tensor
    v_buffer: torch.Tensor
    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    prefixes: list[int]
    news: list[int]

    def run(self, implementation: str, custom_mask=None, is_causal=True, mask_indptr=None, **options):
        """O and LSE, NaN where nothing was written."""
        o = torch.full((*self.q.shape[:2], self.v.shape[-1]), torch.nan, dtype=self.q.dtype, device=self.q.device)
        lse = torch.full(self.q.shape[:2], torch.nan, device=self.q.device)
        extend_attention_fwd(
            self.q,
            self.k,
            self.v,
            o,
            self.k_buffer,
            self.v_buffer,
            self.qo_indptr,
            self.kv_indptr,
            self.kv_indices,
            custom_mask,
            is_causal,
            mask_indptr,
            max(self.news),
            lse=lse,
            implementation=implementation,
            **options,
        )
        return o, lse

    def random_mask(self, generator, offsets=None) -> tuple[torch.Tensor, torch.Tensor]:
        """A mask in which every query sees itself; with `offsets`, rows start with columns that belong to nothing."""
        masks = []
        for index, (prefix, new) in enumerate(zip(self.prefixes, self.news, strict=True)):
            offset = 0 if offsets is None else offsets[index]
            mask = torch.rand(new, offset + prefix + new, generator=generator) < 0.5
            mask[torch.arange(new), offset + prefix + torch.arange(new)] = True
            masks.append(mask.flatten())
        lens = torch.tensor([0, *(len(mask) for mask in masks)])
        device = self.q.device
        return torch.cat(masks).to(device), lens.cumsum(0).to(device)


def problem(
    prefixes, news, heads, kv_heads, qk_dim, v_dim, dtype, device, generator, page_size=16, mla=False
) -> Problem:
    slots, pool = paged_slots(prefixes, page_size, generator)
    used = torch.cat(slots)
    k_buffer = torch.full((pool, kv_heads, qk_dim), torch.nan)
    v_buffer = torch.full((pool, kv_heads, v_dim), torch.nan)
    k_buffer[used] = torch.randn(len(used), kv_heads, qk_dim, generator=generator)
    v_buffer[used] = torch.randn(len(used), kv_heads, v_dim, generator=generator)
    total = sum(news)
    q = torch.randn(total, heads, qk_dim, generator=generator).to(device, dtype)
    k = torch.randn(total, kv_heads, qk_dim, generator=generator).to(device, dtype)
    v = torch.randn(total, kv_heads, v_dim, generator=generator).to(device, dtype)
    k_buffer, v_buffer = k_buffer.to(device, dtype), v_buffer.to(device, dtype)
    if mla:
        v, v_buffer = k[..., :v_dim], k_buffer[..., :v_dim]
    qo_indptr = torch.tensor([0, *news]).cumsum(0).int().to(device)
    return Problem(q, k, v, k_buffer, v_buffer, qo_indptr, *csr(slots, device), prefixes, news)


def lengths(device: torch.device) -> tuple[list[int], list[int]]:
    """Prefixes and new tokens."""
    if device.type == "cpu":
        return [37, 0], [2, 19]
    return [40, 0, 3, 1500, 4096, 64], [5, 600, 1, 130, 1, 1024]


HEADS = [
    pytest.param(2, 2, 64, 64, False, id="MHA"),
    pytest.param(4, 2, 128, 128, False, id="GQA"),
    pytest.param(2, 1, 80, 72, False, id="MQA-80"),
    pytest.param(2, 1, 192, 128, False, id="DeepSeek-prefill"),
    pytest.param(2, 1, 256, 256, False, id="MQA-256"),
    pytest.param(2, 1, 576, 512, True, id="absorbed-MLA"),
]


@pytest.mark.parametrize(("heads", "kv_heads", "qk_dim", "v_dim", "mla"), HEADS)
@pytest.mark.parametrize("dtype", list(ROUNDING))
@pytest.mark.parametrize("is_causal", [True, False])
def test_triton_matches_the_reference(heads, kv_heads, qk_dim, v_dim, mla, dtype, is_causal, device, generator) -> None:
    given = problem(*lengths(device), heads, kv_heads, qk_dim, v_dim, dtype, device, generator, mla=mla)
    wanted, actual = given.run("reference", is_causal=is_causal), given.run("triton", is_causal=is_causal)
    # In float32 a score's own rounding shows: it grows as the root of the number of its products.
    products = qk_dim if dtype == torch.float32 else 0
    assert_close(actual[0], wanted[0], ROUNDING[dtype] * max(products / 128, 1) ** 0.5)
    assert_close(actual[1], wanted[1], 2e-5)


@pytest.fixture
def small(device, generator) -> Problem:
    return problem([50, 0, 9], [18, 20, 3], 2, 1, 32, 32, torch.float32, device, generator)


class TestVisibility:
    """Each rule, in both implementations, against softmax over an explicitly masked matrix."""

    @staticmethod
    def masked_attention(given: Problem, request: int, seen: torch.Tensor) -> torch.Tensor:
        """O of one request in float64, head by head."""
        rows = slice(given.qo_indptr[request], given.qo_indptr[request + 1])
        slots = given.kv_indices[given.kv_indptr[request] : given.kv_indptr[request + 1]]
        k = torch.cat([given.k_buffer[slots], given.k[rows]]).double()
        v = torch.cat([given.v_buffer[slots], given.v[rows]]).double()
        group = given.q.shape[1] // k.shape[1]
        outputs = []
        for head in range(given.q.shape[1]):
            logits = given.q[rows, head].double() @ k[:, head // group].T * given.q.shape[-1] ** -0.5
            outputs.append(logits.masked_fill(~seen, -torch.inf).softmax(-1) @ v[:, head // group])
        return torch.stack(outputs, dim=1)

    def check(self, given: Problem, o: torch.Tensor, seen_by_position) -> None:
        for request, (prefix, new) in enumerate(zip(given.prefixes, given.news, strict=True)):
            query = torch.arange(prefix, prefix + new, device=o.device)[:, None]
            key = torch.arange(prefix + new, device=o.device)[None, :]
            rows = slice(given.qo_indptr[request], given.qo_indptr[request + 1])
            wanted = self.masked_attention(given, request, seen_by_position(request, query, key))
            assert_close(o[rows], wanted, 1e-5)

    def test_causal(self, small, implementation) -> None:
        self.check(small, small.run(implementation)[0], lambda request, query, key: query >= key)

    def test_not_causal(self, small, implementation) -> None:
        o, _ = small.run(implementation, is_causal=False)
        self.check(small, o, lambda request, query, key: (query >= key) | True)

    @pytest.mark.parametrize("window", [1, 10, 64])
    def test_sliding_window(self, small, window, implementation) -> None:
        """A query at position p sees p − window … p: window + 1 tokens."""
        o, _ = small.run(implementation, sliding_window_size=window)
        self.check(small, o, lambda request, query, key: (query >= key) & (query - key <= window))

    @pytest.mark.parametrize("window", [1, 10, 40])
    def test_a_window_reaches_as_far_ahead_as_back_where_nothing_is_causal(
        self, window, implementation, device, generator
    ) -> None:
        """From p − window to p + window; blocks of queries that end before the keys do, and after them."""
        given = problem([50, 0, 9], [18, 70, 3], 2, 1, 32, 32, torch.float32, device, generator)
        o, _ = given.run(implementation, is_causal=False, sliding_window_size=window)
        self.check(given, o, lambda request, query, key: (query - key).abs() <= window)

    @pytest.mark.parametrize("skip_prefix", [True, False])
    @pytest.mark.parametrize("window", [-1, 16])
    @pytest.mark.parametrize("offsets", [None, [3, 0, 5]])
    def test_custom_mask(self, small, skip_prefix, window, offsets, implementation, generator) -> None:
        mask, mask_indptr = small.random_mask(generator, offsets)
        tensor = None if offsets is None else torch.tensor(offsets, dtype=torch.int32, device=mask.device)
        o, _ = small.run(
            implementation,
            mask,
            True,
            mask_indptr,
            skip_prefix_custom_mask=skip_prefix,
            sliding_window_size=window,
            window_kv_offsets=tensor,
        )

        def seen(request, query, key):
            prefix, new, offset = (
                small.prefixes[request],
                small.news[request],
                0 if offsets is None else offsets[request],
            )
            own = mask[mask_indptr[request] :][: new * (offset + prefix + new)].view(new, -1)[:, offset:]
            seen = own | ((key < prefix) & skip_prefix)
            return seen & ((query - key <= window) if window > 0 else True)

        self.check(small, o, seen)


@pytest.mark.parametrize("option", ["logit_cap", "xai_temperature_len", "sinks", "all"])
def test_scoring_options(small, option: str, device, generator) -> None:
    options = {
        "logit_cap": 3.0,
        "xai_temperature_len": 30,
        "sinks": (torch.randn(2, generator=generator) * 3).to(device),
    }
    chosen = options if option == "all" else {option: options[option]}
    wanted, actual = small.run("reference", **chosen), small.run("triton", **chosen)
    assert_close(actual[0], wanted[0], 1e-5)
    assert_close(actual[1], wanted[1], 2e-5)
    assert (wanted[0] - small.run("reference")[0]).abs().max() > 1e-3, "the option must matter"


def test_a_query_that_sees_nothing_gets_zero(small, implementation) -> None:
    mask, mask_indptr = small.random_mask(torch.Generator())
    o, lse = small.run(implementation, torch.zeros_like(mask), True, mask_indptr, skip_prefix_custom_mask=False)
    assert not o.any()
    assert (lse == -torch.inf).all()


def test_one_new_token_is_decode(implementation, device, generator) -> None:
    """Extending by the last token of a sequence gives what decoding it gives."""
    from sglab.kernels import decode_attention_fwd

    given = problem([50], [1], 4, 2, 32, 32, torch.float32, device, generator)
    k, v = (
        torch.cat([given.k_buffer[given.kv_indices], given.k]),
        torch.cat([given.v_buffer[given.kv_indices], given.v]),
    )
    o = torch.empty_like(given.q)
    partials = torch.empty(1, 4, 2, 32, device=device)
    indptr, splits = torch.tensor([0, 51], dtype=torch.int32, device=device), torch.tensor([2], device=device).int()
    slots = torch.arange(51, device=device)
    decode_attention_fwd(given.q, k, v, o, indptr, slots, partials, partials[..., 0].contiguous(), splits, 2, 32**-0.5)
    assert_close(given.run(implementation)[0], o, 1e-5)


def test_tokens_outside_every_request_keep_their_output(small, implementation) -> None:
    small.qo_indptr = small.qo_indptr[:2]
    o, _ = small.run(implementation)
    assert o[:18].isfinite().all()
    assert o[18:].isnan().all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q_extend": [1.0]}, ["q_extend must be a torch.Tensor", "list"]),
        ({"k_extend": torch.ones(6, 3, 16)}, ["q_extend", "divisible by the cache's 3 KV heads", "4 heads"]),
        ({"v_extend": torch.ones(5, 2, 16)}, ["v_extend", "tokens = 6, as q_extend has", "(5, 2, 16)"]),
        ({"k_buffer": torch.ones(9, 2, 32)}, ["k_buffer", "qk_dim = 16, as q_extend has"]),
        ({"o_extend": torch.ones(6, 4, 16).half()}, ["o_extend must be float32, as q_extend is", "float16"]),
        ({"kv_indptr": torch.tensor([0, 2]).int()}, ["kv_indptr must be at least 3 long"]),
        ({"qo_indptr": torch.tensor([0, 4, 3]).int()}, ["qo_indptr", "non-decreasing", "[2] = 3"]),
        ({"qo_indptr": torch.tensor([0, 4, 7]).int()}, ["qo_indptr must be at most 6, the rows of q_extend", "got 7"]),
        ({"max_len_extend": 3}, ["max_len_extend", "got 3", "Pass 4"]),
        ({"kv_indices": torch.tensor([1, 2, 9])}, ["kv_indices", "from 0 to 8", "= 9"]),
        ({"kv_indices": torch.tensor([1, 2, 7])}, ["v_buffer must be finite", "slot 7"]),
        ({"custom_mask": torch.ones(8)}, ["custom_mask must be bool or uint8"]),
        ({"custom_mask": torch.ones(30).bool()}, ["mask_indptr must be a torch.Tensor", "NoneType"]),
        (
            {"custom_mask": torch.ones(29).bool(), "mask_indptr": torch.tensor([0, 24])},
            ["mask_indptr", "custom_mask's 29 elements", "[1] = 24"],
        ),
        ({"sm_scale": 0.0}, ["sm_scale must be positive and finite", "0.0"]),
    ],
)
def test_explains_bad_input_and_changes_nothing(change: dict, words: list[str]) -> None:
    v_buffer = torch.ones(9, 2, 16)
    v_buffer[7, 0, 0] = torch.inf
    arguments = {
        "q_extend": torch.ones(6, 4, 16),
        "k_extend": torch.ones(6, 2, 16),
        "v_extend": torch.ones(6, 2, 16),
        "o_extend": torch.full((6, 4, 16), 7.0),
        "k_buffer": torch.ones(9, 2, 16),
        "v_buffer": v_buffer,
        "qo_indptr": torch.tensor([0, 4, 6], dtype=torch.int32),
        "kv_indptr": torch.tensor([0, 2, 3], dtype=torch.int32),
        "kv_indices": torch.tensor([1, 2, 3]),
        "custom_mask": None,
        "is_causal": True,
        "mask_indptr": None,
        "max_len_extend": 4,
    }
    with pytest.raises(ContractError) as error:
        extend_attention_fwd(**{**arguments, **change})
    assert all(word in str(error.value) for word in words), str(error.value)
    assert (arguments["o_extend"] == 7).all()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_8_bit_prefix(dtype, device, generator) -> None:
    """The scales are the cache's: new tokens come as they are."""
    given = problem([40, 0, 5], [3, 17, 1], 4, 2, 64, 64, torch.float32, device, generator)
    scales = torch.rand(2, generator=generator).add(0.5).to(device)
    stored_k, stored_v = given.k_buffer.to(dtype), given.v_buffer.to(dtype)
    given.k_buffer, given.v_buffer = stored_k.float() * 0.25, stored_v.float() * scales[:, None]
    wanted = given.run("reference")
    given.k_buffer, given.v_buffer = stored_k, stored_v
    for implementation in ("reference", "triton", *(["cpu"] if device.type == "cpu" else [])):
        o, lse = given.run(implementation, k_scale=0.25, v_scale=scales)
        assert_close(o, wanted[0], 4e-6)
        assert_close(lse, wanted[1], 2e-5)
