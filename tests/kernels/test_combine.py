"""The split-KV combine: what the splits saw together, whatever they saw apart."""

import math
from typing import Any

import pytest
import torch

from sglab.kernels import ContractError, last_choice, split_kv_combine
from sglab.kernels.contract import FLOATS
from tests.support.kernels.compare import ROUNDING, assert_close


@pytest.fixture(params=["reference", "cuda"])
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


def partials(splits: list[int], heads: int, device: torch.device, generator: torch.Generator) -> dict[str, Any]:
    """Random partial results of as many requests in random order; a third of the splits is empty and holds NaN."""
    indptr = torch.tensor([0, *splits]).cumsum(0).int()
    slots = int(indptr[-1])
    out = torch.randn(slots, heads, 512, generator=generator)
    lse = 5 * torch.randn(slots, heads, generator=generator)
    lse[torch.rand(lse.shape, generator=generator) < 1 / 3] = -math.inf
    lse[indptr[-2] :] = -math.inf
    out[lse == -math.inf] = math.nan
    requests = torch.randperm(len(splits), generator=generator).int()
    tensors = {"partial_out": out, "partial_lse": lse, "slot_indptr": indptr, "requests": requests}
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def expected(given: dict[str, Any], entry: int, count: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """O and base-2 LSE of one entry in float64."""
    first, end = given["slot_indptr"][entry : entry + 2].tolist()
    rows = slice(first, end if count is None else first + count)
    lse = given["partial_lse"][rows].double() * math.log(2)
    weights = lse.softmax(0).nan_to_num()
    out = (weights.unsqueeze(-1) * given["partial_out"][rows].double().nan_to_num()).sum(0)
    return out, torch.logsumexp(lse, 0) / math.log(2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("splits", [[1, 2, 7, 8, 3], [1, 2, 7, 8, 9, 31, 32, 33, 256, 3]])
def test_matches_float64(splits, dtype, implementation, device, generator) -> None:
    given = partials(splits, 13, device, generator)
    out = torch.full((len(splits), 13, 512), math.nan, device=device, dtype=dtype)
    lse = torch.full((len(splits), 13), math.nan, device=device)
    assert split_kv_combine(**given, out=out, lse=lse, implementation=implementation) is out
    for entry, request in enumerate(given["requests"].tolist()):
        wanted_out, wanted_lse = expected(given, entry)
        assert_close(out[request], wanted_out, ROUNDING[dtype])
        assert_close(lse[request], wanted_lse, 1e-5)


def test_nan_in_every_split_of_a_row_shows(implementation, device, generator) -> None:
    """A largest LSE that leaves NaN out would call the row empty, and its output 0."""
    given = partials([4, 3], 5, device, generator)
    for name in ("partial_out", "partial_lse"):
        given[name][:4, 2] = math.nan
    out, lse = torch.zeros(2, 5, 512, device=device), torch.zeros(2, 5, device=device)
    split_kv_combine(**given, out=out, lse=lse, implementation=implementation)
    row = int(given["requests"][0])
    assert out[row, 2].isnan().all() and lse[row, 2].isnan()
    assert not out[row, :2].isnan().any() and not out[1 - row].isnan().any()


def test_requests_that_filled_no_slot_keep_their_result(implementation, device, generator) -> None:
    given = partials([4, 4, 4], 5, device, generator)
    count = torch.tensor([3, 0, 2], dtype=torch.int32, device=device)
    out, lse = torch.full((3, 5, 512), 7.0, device=device), torch.full((3, 5), 7.0, device=device)
    split_kv_combine(**given, out=out, lse=lse, partial_count=count, lse_base="e", implementation=implementation)
    for entry, request in enumerate(given["requests"].tolist()):
        if request == 1:
            assert (out[request] == 7).all() and (lse[request] == 7).all()
            continue
        wanted_out, wanted_lse = expected(given, entry, int(count[request]))
        assert_close(out[request], wanted_out, 2e-6)
        assert_close(lse[request], wanted_lse * math.log(2), 1e-5)


def test_a_row_without_any_token_is_zero_and_minus_infinity(implementation, device) -> None:
    out, lse = torch.full((1, 2, 512), math.nan, device=device), torch.full((1, 2), math.nan, device=device)
    split_kv_combine(
        torch.full((2, 2, 512), math.nan, device=device),
        torch.full((2, 2), -math.inf, device=device),
        torch.tensor([0, 2], dtype=torch.int32, device=device),
        torch.tensor([0], dtype=torch.int32, device=device),
        out,
        lse,
        implementation=implementation,
    )
    assert not out.any() and (lse == -math.inf).all()


def test_strided_output_no_lse_and_nothing_to_do(implementation, device, generator) -> None:
    given = partials([2, 5], 3, device, generator)
    wide = torch.full((2, 3, 520), math.nan, device=device)
    split_kv_combine(**given, out=wide[..., :512], implementation=implementation)
    for entry, request in enumerate(given["requests"].tolist()):
        assert_close(wide[request, :, :512], expected(given, entry)[0], 2e-6)
    assert wide[..., 512:].isnan().all()
    nothing = partials([1], 3, device, generator)
    nothing["requests"], nothing["slot_indptr"] = nothing["requests"][:0], nothing["slot_indptr"][:1]
    before = wide.clone()
    split_kv_combine(**nothing, out=wide[..., :512], implementation=implementation)
    assert_close(wide, before, 0)


def test_the_kernel_runs_on_the_emulator_and_says_so(generator) -> None:
    given = partials([2], 3, torch.device("cpu"), generator)
    split_kv_combine(**given, out=torch.empty(1, 3, 512), implementation="cuda")
    choice = last_choice()
    assert choice is not None and [each.route for each in choice.launches] == ["emulator"]
    assert "our CUDA kernel on an emulated sm_100a" in str(choice)


STORAGE = torch.zeros(300, 4, 512)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"slot_indptr": torch.tensor([0, 257], dtype=torch.int32)},
            "must be of at most 256 slots an entry; got slot_indptr[0] = 257",
        ),
        ({"max_splits": 300}, "max_splits must be at most 256; got 300"),
        ({"max_splits": 2}, "must be of at most 2 slots an entry; got slot_indptr[0] = 3"),
        (
            {"max_splits": 3, "slot_indptr": torch.tensor([0, 400], dtype=torch.int32)},
            "at most 300, the slots there are",
        ),
        (
            {"requests": torch.tensor([1], dtype=torch.int32)},
            "requests must be from 0 to 0, the rows of out; got requests",
        ),
        ({"partial_count": torch.tensor([4], dtype=torch.int32)}, "partial_count must be at most the request's slots"),
        ({"slot_indptr": torch.tensor([0, 400], dtype=torch.int32)}, "at most 300, the slots there are"),
        ({"slot_indptr": torch.tensor([3, 3], dtype=torch.int32)}, "slot_indptr must be increasing"),
        ({"slot_indptr": torch.tensor([-1, 3], dtype=torch.int32)}, "slot_indptr must be 0 or more"),
        ({"slot_indptr": torch.tensor([0, 1, 2], dtype=torch.int32)}, "entries_and_one = 2, as requests has"),
        ({"partial_out": torch.zeros(300, 4, 512).half()}, "partial_out must be float32"),
        ({"partial_lse": torch.zeros(300, 5)}, "heads = 4, as partial_out has"),
        ({"out": torch.zeros(1, 4, 256)}, "out must be of shape (batch, heads, 512)"),
        ({"lse_base": "10"}, "lse_base must be '2' or 'e'"),
        ({"out": STORAGE[7:8]}, "out must be memory separate from partial_out; got an overlap of 8192 bytes"),
        ({"lse": STORAGE[5, 0, :4].view(1, 4)}, "lse must be memory separate from partial_out"),
    ],
)
def test_explains_bad_input(change: dict[str, Any], words: str) -> None:
    arguments = {
        "partial_out": STORAGE,
        "partial_lse": torch.zeros(300, 4),
        "slot_indptr": torch.tensor([0, 3], dtype=torch.int32),
        "requests": torch.tensor([0], dtype=torch.int32),
        "out": torch.zeros(1, 4, 512),
    }
    with pytest.raises(ContractError) as error:
        split_kv_combine(**{**arguments, **change})
    assert words in str(error.value)
