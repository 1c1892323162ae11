"""Two-stage decode attention against float64, and its partials against attention over each split."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglab.kernels import ContractError, decode_attention_fwd
from sglab.kernels.decode_attention import split_ranges
from tests.support.kernels.compare import ROUNDING, assert_close
from tests.support.kernels.paged import csr, paged_slots


@pytest.fixture(params=["reference", "triton", "cpu"])
def implementation(request: pytest.FixtureRequest, device: torch.device) -> str:
    if request.param == "cpu" and device.type != "cpu":
        pytest.skip("it reads the host's memory")
    return request.param


@dataclass
class Problem:
    """Arguments of one call; outputs are NaN until written."""

    q: torch.Tensor
    k_buffer: torch.Tensor
    v_buffer: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    num_kv_splits: torch.Tensor
    max_kv_splits: int = 4

    def run(self, implementation: str, **options: object) -> tuple[torch.Tensor, ...]:
        batch, heads, v_dim = self.q.shape[0], self.q.shape[1], self.v_buffer.shape[-1]
        o = torch.full((batch, heads, v_dim), torch.nan, dtype=self.q.dtype, device=self.q.device)
        partials = torch.full((batch, heads, self.max_kv_splits, v_dim), torch.nan, device=self.q.device)
        partial_lse, lse = torch.full_like(partials[..., 0], torch.nan), torch.full_like(o[..., 0].float(), torch.nan)
        decode_attention_fwd(
            self.q,
            self.k_buffer,
            self.v_buffer,
            o,
            self.kv_indptr,
            self.kv_indices,
            partials,
            partial_lse,
            self.num_kv_splits,
            self.max_kv_splits,
            self.q.shape[-1] ** -0.5,
            lse=lse,
            implementation=implementation,
            **options,
        )
        return o, lse, partials, partial_lse


def problem(
    lens: list[int],
    heads: int,
    kv_heads: int,
    qk_dim: int,
    v_dim: int,
    dtype: torch.dtype,
    device: torch.device,
    generator: torch.Generator,
    page_size: int = 16,
    splits: list[int] | None = None,
    mla: bool = False,
) -> Problem:
    slots, pool = paged_slots(lens, page_size, generator)
    used = torch.cat(slots)
    k = torch.full((pool, kv_heads, qk_dim), torch.nan)  # what no request owns must not be read
    k[used] = torch.randn(len(used), kv_heads, qk_dim, generator=generator)
    v = torch.full((pool, kv_heads, v_dim), torch.nan)
    v[used] = torch.randn(len(used), kv_heads, v_dim, generator=generator)
    k = k.to(device, dtype)
    indptr, indices = csr(slots, device)
    return Problem(
        torch.randn(len(lens), heads, qk_dim, generator=generator).to(device, dtype),
        k,
        k[..., :v_dim] if mla else v.to(device, dtype),
        indptr,
        indices,
        torch.tensor(splits or [4] * len(lens), dtype=torch.int32, device=device),
    )


def lengths(device: torch.device) -> list[int]:
    return [1, 33, 0, 140] if device.type == "cpu" else [1, 33, 0, 150, 4096, 5000, 129, 2048]


HEADS = [
    pytest.param(4, 4, 64, 64, False, id="MHA"),
    pytest.param(2, 2, 80, 80, False, id="MHA-80"),
    pytest.param(8, 2, 128, 128, False, id="GQA"),
    pytest.param(6, 1, 96, 96, False, id="MQA-96"),
    pytest.param(40, 2, 64, 48, False, id="GQA-20-per-head"),
    pytest.param(4, 1, 256, 256, False, id="MQA-256"),
    pytest.param(16, 1, 576, 512, True, id="MLA-16"),
    pytest.param(128, 1, 576, 512, True, id="MLA-128"),
    pytest.param(16, 1, 576, 512, False, id="MLA-dims-own-V"),
]


@pytest.mark.parametrize(("heads", "kv_heads", "qk_dim", "v_dim", "mla"), HEADS)
@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_triton_matches_the_reference(
    heads: int, kv_heads: int, qk_dim: int, v_dim: int, mla: bool, dtype: torch.dtype, device, generator
) -> None:
    lens = lengths(device)
    if device.type == "cpu":
        heads = min(heads, 40)  # one full block of heads and a part of one
    given = problem(lens, heads, kv_heads, qk_dim, v_dim, dtype, device, generator, mla=mla)
    wanted, actual = given.run("reference"), given.run("triton")
    # a score is a float32 sum of qk_dim products: beyond 256 of them its rounding shows in float32 results
    tolerance = ROUNDING[dtype] * (max(1.0, qk_dim / 256) if dtype == torch.float32 else 1.0)
    assert_close(actual[0], wanted[0], tolerance)
    assert_close(actual[1], wanted[1], 2e-5)
    assert_close(actual[2], wanted[2], tolerance)
    assert_close(actual[3], wanted[3], 2e-5)


@pytest.mark.parametrize("page_size", [1, 2, 16, 64, 128])
def test_every_page_size(page_size: int, device, generator) -> None:
    given = problem([40, 129], 8, 2, 64, 64, torch.float16, device, generator, page_size=page_size)
    assert_close(given.run("triton")[0], given.run("reference")[0], ROUNDING[torch.float16])


@pytest.mark.parametrize("splits", [[1, 1], [2, 3], [4, 4], [3, 1]])
def test_the_number_of_splits_does_not_change_the_result(splits: list[int], implementation, device, generator) -> None:
    given = problem([90, 200], 4, 2, 64, 64, torch.float32, device, generator)
    whole = given.run("reference")
    given.num_kv_splits = torch.tensor(splits, dtype=torch.int32, device=device)
    o, lse, _, partial_lse = given.run(implementation)
    assert_close(o, whole[0], 1e-5)
    assert_close(lse, whole[1], 1e-5)
    for request, (length, count) in enumerate(zip([90, 200], splits, strict=True)):
        used = len(split_ranges(length, count))
        assert partial_lse[request, :, :used].isfinite().all()
        assert partial_lse[request, :, used:].isnan().all(), "unused splits stay as they are"


@pytest.mark.parametrize(
    ("heads", "kv_heads", "qk_dim", "v_dim", "mla"), [HEADS[0].values, HEADS[2].values, HEADS[6].values]
)
@pytest.mark.parametrize("option", ["logit_cap", "xai_temperature_len", "sinks", "all"])
def test_scoring_options(heads, kv_heads, qk_dim, v_dim, mla, option: str, device, generator) -> None:
    given = problem([20, 70, 0], heads, kv_heads, qk_dim, v_dim, torch.float32, device, generator, mla=mla)
    options = {
        "logit_cap": 3.0,
        "xai_temperature_len": 30,
        "sinks": (torch.randn(heads, generator=generator) + 2).to(device),
    }
    chosen = options if option == "all" else {option: options[option]}
    wanted, actual = given.run("reference", **chosen), given.run("triton", **chosen)
    assert_close(actual[0], wanted[0], 1e-5)
    assert_close(actual[1], wanted[1], 2e-5)
    plain = given.run("reference")[0]
    assert (wanted[0][1] - plain[1]).abs().max() > 1e-3, "the option must matter"


class TestReference:
    """The float64 reference itself, against formulas written out by hand."""

    def test_equals_softmax(self, generator) -> None:
        given = problem([30], 2, 1, 16, 8, torch.float32, torch.device("cpu"), generator)
        slots = given.kv_indices
        logits = given.q[0].double() @ given.k_buffer[slots, 0].double().T / 4
        o, lse, _, _ = given.run("reference")
        assert_close(o[0], logits.softmax(-1) @ given.v_buffer[slots, 0].double(), 1e-6)
        assert_close(lse[0], logits.exp().sum(-1).log(), 1e-6)

    def test_a_sink_takes_its_share_of_the_denominator_alone(self, generator) -> None:
        given = problem([30], 2, 1, 16, 8, torch.float32, torch.device("cpu"), generator)
        sinks = torch.tensor([0.5, -2.0])
        plain, lse, _, _ = given.run("reference")
        with_sink, same_lse, _, _ = given.run("reference", sinks=sinks)
        share = lse.exp() / (lse.exp() + sinks.exp())
        assert_close(with_sink, plain * share[..., None], 1e-6)
        assert_close(same_lse, lse, 1e-7)

    def test_logit_cap_and_temperature(self, generator) -> None:
        given = problem([40], 2, 1, 16, 8, torch.float32, torch.device("cpu"), generator)
        logits = given.q[0].double() @ given.k_buffer[given.kv_indices, 0].double().T / 4
        capped = 2 * (logits / 2).tanh()
        values = given.v_buffer[given.kv_indices, 0].double()
        assert_close(given.run("reference", logit_cap=2.0)[0][0], capped.softmax(-1) @ values, 1e-6)
        temperature = torch.tensor(39.0).double().log2() / torch.tensor(16.0).double().log2()
        heated = (logits * temperature).softmax(-1) @ values
        assert_close(given.run("reference", xai_temperature_len=16)[0][0], heated, 1e-6)


def test_a_request_without_keys_gives_zero(implementation, device, generator) -> None:
    given = problem([0, 5], 4, 2, 32, 32, torch.float32, device, generator)
    given.num_kv_splits[0] = 0  # what get_num_kv_splits computes for length 0
    o, lse, _, _ = given.run(implementation)
    assert not o[0].any()
    assert (lse[0] == -torch.inf).all()
    assert o[1].isfinite().all()


def test_queries_and_outputs_may_be_strided(implementation, device, generator) -> None:
    given = problem([40, 9], 8, 2, 32, 32, torch.float32, device, generator)
    wanted = given.run("reference")[0]
    fused = torch.zeros(2, 12, 96, device=device)
    fused[:, 2:10, 32:64] = given.q
    given.q = fused[:, 2:10, 32:64]
    assert_close(given.run(implementation)[0], wanted, 1e-5)


@pytest.mark.gpu
def test_a_cache_beyond_2_31_elements(generator) -> None:
    """Slot × stride needs 64 bits: the last slots of a 5 GB pool."""
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    device = torch.device("cuda")
    k = torch.zeros(4_300_000, 1, 576, dtype=torch.float16, device=device)
    k[-300:] = torch.randn(300, 1, 576, generator=generator).to(device, torch.float16)
    slots = torch.arange(4_300_000 - 300, 4_300_000, device=device)
    given = Problem(
        torch.randn(1, 16, 576, generator=generator).to(device, torch.float16),
        k,
        k[..., :512],
        torch.tensor([0, 300], dtype=torch.int32, device=device),
        slots,
        torch.tensor([4], dtype=torch.int32, device=device),
    )
    assert_close(given.run("triton")[0], given.run("reference")[0], ROUNDING[torch.float16])


@given(length=st.integers(0, 5000), splits=st.integers(1, 40))
def test_splits_cover_every_token_once(length: int, splits: int) -> None:
    ranges = split_ranges(length, splits)
    assert [token for first, end in ranges for token in range(first, end)] == list(range(length))
    assert len(ranges) <= splits
    assert all(first % 32 == 0 for first, _ in ranges)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"q": torch.ones(2, 5, 16)},
            ["q must be of a number of heads divisible by the cache's 2 KV heads", "5 heads"],
        ),
        ({"q": torch.ones(2, 4, 16).half()}, ["k_buffer must be float16, as q is", "float32"]),
        ({"v_buffer": torch.ones(19, 2, 16)}, ["v_buffer", "slots = 20, as k_buffer has", "(19, 2, 16)"]),
        ({"o": torch.ones(2, 4, 8)}, ["o must be of shape", "v_dim = 16"]),
        ({"kv_indptr": torch.tensor([0, 3]).int()}, ["kv_indptr must be at least 3 long"]),
        ({"kv_indptr": torch.tensor([0, 3, 2]).int()}, ["kv_indptr", "non-decreasing", "kv_indptr[2] = 2"]),
        ({"kv_indptr": torch.tensor([0, 3, 9]).int()}, ["kv_indices must be at least kv_indptr[-1] = 9 long"]),
        ({"kv_indices": torch.tensor([1, 2, 3, 4, 20])}, ["kv_indices", "from 0 to 19", "= 20"]),
        ({"kv_indices": torch.tensor([1, 2, 3, 4, 7])}, ["v_buffer must be finite", "NaN or infinity in slot 7"]),
        ({"num_kv_splits": torch.tensor([1, 5]).int()}, ["num_kv_splits", "from 1 to max_kv_splits = 4", "= 5"]),
        ({"num_kv_splits": torch.tensor([0, 1]).int()}, ["num_kv_splits[0] = 0"]),
        ({"max_kv_splits": 8}, ["max_kv_splits must be 4, the third dimension of attn_logits", "got 8"]),
        ({"sm_scale": float("nan")}, ["sm_scale must be positive and finite", "nan"]),
        ({"logit_cap": -1.0}, ["logit_cap must be 0 (no cap) or positive"]),
        ({"sinks": torch.ones(3)}, ["sinks", "heads = 4, as q has"]),
    ],
)
def test_explains_bad_input_and_changes_nothing(change: dict, words: list[str]) -> None:
    v = torch.ones(20, 2, 16)
    v[7, 1, 3] = torch.nan
    arguments = {
        "q": torch.ones(2, 4, 16),
        "k_buffer": torch.ones(20, 2, 16),
        "v_buffer": v,
        "o": torch.full((2, 4, 16), 7.0),
        "kv_indptr": torch.tensor([0, 3, 5], dtype=torch.int32),
        "kv_indices": torch.tensor([1, 2, 3, 4, 5]),
        "attn_logits": torch.full((2, 4, 4, 16), 7.0),
        "attn_lse": torch.full((2, 4, 4), 7.0),
        "num_kv_splits": torch.tensor([1, 2], dtype=torch.int32),
        "max_kv_splits": 4,
        "sm_scale": 0.25,
    }
    with pytest.raises(ContractError) as error:
        decode_attention_fwd(**{**arguments, **change})
    assert all(word in str(error.value) for word in words), str(error.value)
    assert all((arguments[name] == 7).all() for name in ("o", "attn_logits", "attn_lse"))


@pytest.mark.parametrize(("heads", "kv_heads", "qk_dim", "v_dim", "mla"), [HEADS[0].values, HEADS[2].values])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_8_bit_caches(heads, kv_heads, qk_dim, v_dim, mla, dtype, device, generator) -> None:
    """A call on stored values with scales equals one on the values they stand for; scales per head, and numbers."""
    given = problem([40, 0, 70], heads, kv_heads, qk_dim, v_dim, torch.float32, device, generator, mla=mla)
    k_scale = torch.rand(kv_heads, generator=generator).add(0.5).to(device)
    stored_k, stored_v = given.k_buffer.to(dtype), given.v_buffer.to(dtype)
    given.k_buffer = stored_k.float() * k_scale[:, None]
    given.v_buffer = stored_v.float() * 0.003
    wanted = given.run("reference")
    given.k_buffer, given.v_buffer = stored_k, stored_v
    for implementation in ("reference", "triton", *(["cpu"] if device.type == "cpu" else [])):
        o, lse, partials, _ = given.run(implementation, k_scale=k_scale, v_scale=0.003)
        assert_close(o, wanted[0], 4e-6)
        assert_close(lse, wanted[1], 2e-5)
        assert_close(partials * 0.003, wanted[2], 4e-6)
    both = given.run("triton", k_scale=k_scale, v_scale=torch.full_like(k_scale, 0.003))
    assert_close(both[0], wanted[0], 4e-6)


def test_a_cache_is_of_the_queries_dtype_or_8_bit(generator) -> None:
    given = problem([4], 2, 2, 16, 16, torch.float32, torch.device("cpu"), generator)
    given.k_buffer, given.v_buffer = given.k_buffer.half(), given.v_buffer.half()
    with pytest.raises(ContractError, match="k_buffer must be float32, as q is"):
        given.run("reference")
    given.k_buffer, given.v_buffer = given.k_buffer.to(torch.float8_e5m2), given.v_buffer.to(torch.float8_e5m2)
    with pytest.raises(ContractError, match="k_scale must be positive"):
        given.run("reference", k_scale=-1.0)
