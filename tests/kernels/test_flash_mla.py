"""flash_mla_with_kvcache: FlashMLA's contract, our Hopper kernel under FlashMLA's plan, and our Blackwell kernel."""

from typing import Any

import pytest
import torch

from sglab.kernels import ContractError, flash_mla_with_kvcache, get_mla_metadata, last_choice
from tests.support.kernels.compare import ROUNDING, assert_close
from tests.support.kernels.paged import paged_slots

SCALE = 192**-0.5
PAGE = 64


KERNELS = {"sglab": (9, 0), "sglab_sm100": (10, 0)}
"""What runs them; CPU tensors get an emulated one."""


@pytest.fixture(params=["reference", *KERNELS])
def implementation(request: pytest.FixtureRequest, device: torch.device) -> str:
    wanted = KERNELS.get(request.param)
    if wanted and device.type == "cuda" and torch.cuda.get_device_capability() != wanted:
        pytest.skip(f"no GPU of compute capability {wanted}")
    return request.param


def call(
    lens: list[int],
    heads: int,
    device: torch.device,
    generator: torch.Generator,
    *,
    tokens: int = 1,
    dtype: torch.dtype = torch.bfloat16,
    sm_count: int = 132,
) -> dict[str, Any]:
    """Arguments of one call. Everything that no request owns is NaN: pages, and rows past a last token."""
    slots, pool = paged_slots(lens, PAGE, generator)
    table = torch.full((len(lens), max(-(-max(lens) // PAGE), 1)), -1, dtype=torch.int32)
    cache = torch.full((pool // PAGE, PAGE, 576), torch.nan)
    for row, own in enumerate(slots):
        pages = own[::PAGE] // PAGE
        table[row, : len(pages)] = pages
        cache[own // PAGE, own % PAGE] = torch.randn(len(own), 576, generator=generator)
    seqlens = torch.tensor(lens, dtype=torch.int32, device=device)
    metadata, num_splits = get_mla_metadata(seqlens, tokens * heads, 1, sm_count=sm_count)
    return {
        "q": torch.randn(len(lens), tokens, heads, 576, generator=generator).to(device, dtype),
        "k_cache": cache.unsqueeze(2).to(device, dtype),
        "block_table": table.to(device),
        "cache_seqlens": seqlens,
        "head_dim_v": 512,
        "tile_scheduler_metadata": metadata,
        "num_splits": num_splits,
        "softmax_scale": SCALE,
    }


def attention(given: dict[str, Any], causal: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """O and natural LSE in float64, written without the operator's own reference."""
    outputs, lses = [], []
    tokens = given["q"].shape[1]
    for request, length in enumerate(given["cache_seqlens"].tolist()):
        pages = given["block_table"][request, : -(-length // PAGE)].long()
        kv = given["k_cache"][pages].reshape(-1, 576)[:length].double()
        scores = torch.einsum("thd,kd->htk", given["q"][request].double(), kv) * given["softmax_scale"]
        if causal:
            scores += torch.full((tokens, length), -torch.inf).triu(length - tokens + 1).to(scores)
        outputs.append(torch.einsum("htk,kd->thd", scores.softmax(-1).nan_to_num(0), kv[:, :512]))
        lses.append(scores.logsumexp(-1))
    return torch.stack(outputs), torch.stack(lses)


def assert_agrees(given: dict[str, Any], implementation: str, causal: bool = False) -> None:
    out, lse = flash_mla_with_kvcache(**given, causal=causal, implementation=implementation)
    wanted_out, wanted_lse = attention(given, causal)
    assert_close(out, wanted_out, ROUNDING[out.dtype])
    assert_close(lse, wanted_lse, 2e-5 if implementation == "reference" else 2e-3)


MIXED = [700, 1, 64, 0, 65, 130]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("heads", [16, 128])
def test_matches_float64(heads, dtype, implementation, device, generator) -> None:
    assert_agrees(call(MIXED, heads, device, generator, dtype=dtype), implementation)


@pytest.mark.parametrize("heads", [16, 128])
@pytest.mark.parametrize("sm_count", [2, 16])
@pytest.mark.parametrize("implementation", ["sglab"], indirect=True)
def test_our_hopper_kernel_follows_any_plan(implementation, sm_count, heads, device, generator) -> None:
    """Fewer SMs give parts with several requests, more of them requests with several parts."""
    assert_agrees(call(MIXED, heads, device, generator, sm_count=sm_count), implementation)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("tokens", "heads"), [(3, 16), (2, 128)])
def test_several_query_tokens(tokens, heads, causal, implementation, device, generator) -> None:
    """2 × 128 rows are more than a tile of our kernels has."""
    assert_agrees(call([300, 70, 1000], heads, device, generator, tokens=tokens), implementation, causal)


def test_causal_query_tokens_at_every_edge(implementation, device, generator) -> None:
    """Lengths around a block's and a tile's end, so that for some tokens a part, or a split, holds nothing at all."""
    lens = [64, 65, 66, 67, 128, 129, 130, 131, 0, 700]
    for sm_count in (2, 132) if implementation == "sglab" else (132,):
        given = call(lens, 16, device, generator, tokens=4, dtype=torch.float16, sm_count=sm_count)
        assert_agrees(given, implementation, causal=True)


def test_a_causal_query_token_that_sees_nothing_gives_zero_and_minus_infinity(
    implementation, device, generator
) -> None:
    given = call([2, 0, 3], 16, device, generator, tokens=3)
    out, lse = flash_mla_with_kvcache(**given, causal=True, implementation=implementation)
    assert_agrees(given, implementation, causal=True)
    blind = torch.tensor([[True, False, False], [True, True, True], [False, False, False]], device=device)
    assert not out[blind].any() and (lse.transpose(1, 2)[blind] == -torch.inf).all()
    assert lse.transpose(1, 2)[~blind].isfinite().all()


def test_a_request_of_length_zero_gives_zero_and_minus_infinity(implementation, device, generator) -> None:
    given = call([0, 100, 0], 16, device, generator)
    out, lse = flash_mla_with_kvcache(**given, implementation=implementation)
    assert not out[[0, 2]].any() and (lse[[0, 2]] == -torch.inf).all()
    assert out[1].any() and lse[1].isfinite().all()


def test_the_default_scale_is_flash_mlas(device, generator) -> None:
    given = call([100], 16, device, generator)
    given["softmax_scale"] = None
    ours, _ = flash_mla_with_kvcache(**given, implementation="reference")
    assert_close(ours, attention({**given, "softmax_scale": 1 / 24})[0], ROUNDING[torch.bfloat16])


def test_on_the_cpu_the_hopper_kernel_runs_on_an_emulated_h100(generator) -> None:
    flash_mla_with_kvcache(**call([2000], 16, torch.device("cpu"), generator))
    choice = last_choice()
    assert choice is not None and choice.implementation == "sglab"
    kernels = ["flash_mla_works", "mla_decode_sm90_bf16", "split_kv_combine_many_bf16"]
    assert [each.kernel for each in choice.launches] == kernels
    assert "our kernel for Hopper, by FlashMLA's plan, on an emulated sm_90a" in str(choice)


def test_an_empty_batch_runs_nothing(implementation) -> None:
    given = {
        "q": torch.zeros(0, 1, 16, 576, dtype=torch.bfloat16),
        "k_cache": torch.zeros(1, 64, 1, 576, dtype=torch.bfloat16),
        "block_table": torch.zeros(0, 1, dtype=torch.int32),
        "cache_seqlens": torch.zeros(0, dtype=torch.int32),
        "head_dim_v": 512,
        "tile_scheduler_metadata": torch.zeros(132, 8, dtype=torch.int32),
        "num_splits": torch.zeros(1, dtype=torch.int32),
    }
    out, lse = flash_mla_with_kvcache(**given, implementation=implementation)
    assert out.shape == (0, 1, 16, 512) and lse.shape == (0, 16, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": torch.zeros(2, 1, 16, 512).half()}, "q must be of shape (batch, query_tokens, heads, 576)"),
        ({"q": torch.zeros(2, 1, 16, 576)}, "q must be float16 or bfloat16"),
        ({"k_cache": torch.zeros(9, 128, 1, 576).half()}, "k_cache must be of pages of 64 tokens; got 128"),
        ({"k_cache": torch.zeros(9, 64, 2, 576).half()}, "k_cache must be of shape (pages, page_size, 1, 576)"),
        ({"head_dim_v": 576}, "head_dim_v must be 512"),
        ({"cache_seqlens": torch.tensor([100, 300]).int()}, "cache_seqlens[1] = 300"),
        ({"tile_scheduler_metadata": torch.zeros(9, 8).int()}, "must cover every token once, per request; got"),
        ({"block_table": torch.tensor([[0, 1], [2, -1]]).int()}, "block_table[1, 1] = -1"),
        ({"num_splits": torch.zeros(2).int()}, "num_splits must be of shape (batch_and_one)"),
        ({"softmax_scale": 0.0}, "softmax_scale must be positive and finite"),
    ],
)
def test_explains_bad_input(change: dict[str, Any], words: str) -> None:
    seqlens = torch.tensor([100, 65], dtype=torch.int32)
    metadata, num_splits = get_mla_metadata(seqlens, 16)
    arguments = {
        "q": torch.zeros(2, 1, 16, 576).half(),
        "k_cache": torch.zeros(9, 64, 1, 576).half(),
        "block_table": torch.tensor([[0, 1], [2, 3]], dtype=torch.int32),
        "cache_seqlens": seqlens,
        "head_dim_v": 512,
        "tile_scheduler_metadata": metadata,
        "num_splits": num_splits,
        "softmax_scale": SCALE,
    }
    with pytest.raises(ContractError) as error:
        flash_mla_with_kvcache(**{**arguments, **change})
    assert words in str(error.value)


def test_metadata_explains_bad_input() -> None:
    with pytest.raises(ContractError, match="cache_seqlens must be int32; got int64"):
        get_mla_metadata(torch.tensor([3]), 16)
    with pytest.raises(ContractError, match="num_heads_per_head_k must be at least 1"):
        get_mla_metadata(torch.tensor([3], dtype=torch.int32), 0)
    with pytest.raises(ContractError, match=r"cache_seqlens\[1\] = -1"):
        get_mla_metadata(torch.tensor([3, -1], dtype=torch.int32), 16)


def test_metadata_is_the_planners(generator) -> None:
    """Golden, 132 SMs: 66 parts of 10 blocks for four requests of 4,096 tokens and 128 heads."""
    metadata, num_splits = get_mla_metadata(torch.full((4,), 4096, dtype=torch.int32), 128)
    assert metadata.shape == (66, 8) and metadata.dtype == num_splits.dtype == torch.int32
    assert len(num_splits) == 5 and num_splits[0] == 0


def test_both_generations_of_the_interface_give_the_same(device: torch.device, generator: torch.Generator) -> None:
    """Since 2026 the plan is made in the first call and kept for the step's other layers."""
    given = call([300, 65, 0], 16, device, generator)
    older = flash_mla_with_kvcache(**given)
    schedule, nothing = get_mla_metadata()
    assert nothing is None
    for _ in range(2):
        newer = flash_mla_with_kvcache(**{**given, "tile_scheduler_metadata": schedule, "num_splits": None})
        assert torch.equal(newer[0], older[0])
        assert torch.equal(newer[1], older[1])
    wider = call([300, 65, 0], 32, device, generator)
    with pytest.raises(ContractError, match=r"of the first call's shape \(heads 16\); got heads 32"):
        flash_mla_with_kvcache(**{**wider, "tile_scheduler_metadata": schedule, "num_splits": None})
    with pytest.raises(TypeError, match="num_splits is missing"):
        flash_mla_with_kvcache(**{**given, "num_splits": None})
    with pytest.raises(TypeError, match="num_heads_per_head_k is missing"):
        get_mla_metadata(given["cache_seqlens"])  # type: ignore[call-overload]
