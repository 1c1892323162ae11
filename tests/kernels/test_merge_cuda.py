"""The merges and the combine in CUDA C++ against the float64 rules, emulated and on an NVIDIA GPU."""

import math

import pytest
import torch

from sglab.kernels import ptx
from sglab.kernels.merge import cuda, reference
from sglab.kernels.merge.contract import FLOATS, Rule, StatesArguments, check_pair

RULES = [Rule.BASE2, Rule.V2, Rule.V2_GUARDED]
LSES = [0.3, -4.0, 100.0, 88.8, math.inf, -math.inf, math.nan]
ROUNDING = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def close(ours: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = ROUNDING[ours.dtype]
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def pair_of(v_a, s_a, v_b, s_b, rule, mask=None, outputs=(None, None)):
    return check_pair("merge", ("v_a", "s_a", "v_b", "s_b"), (v_a, s_a, v_b, s_b), outputs, rule, mask)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("head_dim", [1, 3, 24, 64, 128, 256, 512, 576])
def test_pair(device: torch.device, rule: Rule, dtype: torch.dtype, head_dim: int) -> None:
    v_a, v_b = (torch.randn(37, 5, head_dim, device=device, dtype=dtype) for _ in range(2))
    s_a, s_b = (torch.randn(37, 5, device=device) * 5 for _ in range(2))
    ours = pair_of(v_a, s_a, v_b, s_b, rule, outputs=(torch.full_like(v_a, math.nan), torch.full_like(s_a, math.nan)))
    theirs = pair_of(v_a, s_a, v_b, s_b, rule)
    cuda.pair(ours)
    reference.pair(theirs)
    close(ours.v_merged, theirs.v_merged)
    close(ours.s_merged, theirs.s_merged)


@pytest.mark.parametrize("rule", RULES)
def test_every_pair_of_extreme_lse(device: torch.device, rule: Rule) -> None:
    pairs = torch.cartesian_prod(torch.tensor(LSES), torch.tensor(LSES)).to(device)
    s_a, s_b = pairs[:, :1].contiguous(), pairs[:, 1:].contiguous()
    v_a, v_b = (torch.randn(len(pairs), 1, 128, device=device) for _ in range(2))
    ours, theirs = pair_of(v_a, s_a, v_b, s_b, rule), pair_of(v_a, s_a, v_b, s_b, rule)
    cuda.pair(ours)
    reference.pair(theirs)
    close(ours.v_merged, theirs.v_merged)
    close(ours.s_merged, theirs.s_merged)


@pytest.mark.parametrize("head_dim", [128, 576])
def test_in_place_and_masked(device: torch.device, head_dim: int) -> None:
    v_a, v_b = (torch.randn(3000, 16, head_dim, device=device, dtype=torch.bfloat16) for _ in range(2))
    s_a, s_b = (torch.randn(3000, 16, device=device) for _ in range(2))
    mask = torch.rand(3000, device=device) < 0.5
    theirs = pair_of(v_a, s_a, v_b, s_b, Rule.BASE2, mask, (v_a.clone(), s_a.clone()))
    reference.pair(theirs)
    ours = pair_of(v_a, s_a, v_b, s_b, Rule.BASE2, mask, (v_a, s_a))
    cuda.pair(ours)
    close(v_a, theirs.v_merged)
    close(s_a, theirs.s_merged)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 5, 33])
@pytest.mark.parametrize("head_dim", [7, 128, 512])
def test_states(device: torch.device, dtype: torch.dtype, n: int, head_dim: int) -> None:
    v = torch.randn(29, n, 6, head_dim, device=device, dtype=dtype)
    s = torch.randn(29, n, 6, device=device) * 5
    s[0], s[1, 0], s[2, -1] = -math.inf, math.inf, -math.inf

    def arguments() -> StatesArguments:
        out = torch.full((29, 6, head_dim), math.nan, device=device, dtype=dtype)
        return StatesArguments(v, s, out, torch.full((29, 6), math.nan, device=device), Rule.BASE2)

    ours, theirs = arguments(), arguments()
    cuda.states(ours)
    reference.states(theirs)
    close(ours.v_merged, theirs.v_merged)
    close(ours.s_merged, theirs.s_merged)


@pytest.mark.parametrize("variant", ["few", "many"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_combine(device: torch.device, variant: str, dtype: torch.dtype) -> None:
    """1 to 256 splits; those without a token hold NaN, and a row without any gives 0 and −inf."""
    suffix = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    heads, splits = 13, [1, 2, 7, 8, 9, 31, 32, 33, 256, 3]
    indptr = torch.tensor([0, *splits]).cumsum(0).int().to(device)
    out_of = torch.randn(int(indptr[-1]), heads, 512, device=device)
    lse_of = torch.randn(int(indptr[-1]), heads, device=device) * 5
    lse_of[torch.rand_like(lse_of) < 0.3] = -math.inf
    lse_of[indptr[-2] :] = -math.inf
    out_of[lse_of == -math.inf] = math.nan
    requests = torch.randperm(len(splits)).int().to(device)
    out = torch.full((len(splits), heads, 512), math.nan, device=device, dtype=dtype)
    lse = torch.full((len(splits), heads), math.nan, device=device)
    ptx.module("split_kv_combine")[f"split_kv_combine_{variant}_{suffix}"].launch(
        cuda._device(device),
        grid=(heads if variant == "many" else -(-heads // 4), len(splits)),
        block=128,
        args=[out_of, lse_of, requests, indptr, None, out, heads * 512, 512, lse, heads, 1.0],
    )
    for entry, request in enumerate(requests.tolist()):
        rows = slice(int(indptr[entry]), int(indptr[entry + 1]))
        arguments = (out_of[rows].double().nan_to_num(), lse_of[rows].double() * math.log(2))
        expected_lse = torch.logsumexp(arguments[1], 0)
        weights = (arguments[1] - expected_lse).exp().nan_to_num()
        close(out[request], (weights.unsqueeze(-1) * arguments[0]).sum(0).to(dtype))
        torch.testing.assert_close(lse[request], (expected_lse / math.log(2)).float(), rtol=1e-5, atol=1e-5)
