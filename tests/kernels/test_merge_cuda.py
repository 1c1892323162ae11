"""The merges in CUDA C++ against the float64 rules, emulated and on an NVIDIA GPU."""

import math

import pytest
import torch

from sglab.kernels import last_choice, merge_state, merge_states
from sglab.kernels.merge import cuda, reference
from sglab.kernels.merge.contract import FLOATS, MergeRule, StatesArguments, check_pair

RULES = [MergeRule.BASE2, MergeRule.V2, MergeRule.V2_GUARDED]
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
def test_pair(device: torch.device, rule: MergeRule, dtype: torch.dtype, head_dim: int) -> None:
    v_a, v_b = (torch.randn(37, 5, head_dim, device=device, dtype=dtype) for _ in range(2))
    s_a, s_b = (torch.randn(37, 5, device=device) * 5 for _ in range(2))
    ours = pair_of(v_a, s_a, v_b, s_b, rule, outputs=(torch.full_like(v_a, math.nan), torch.full_like(s_a, math.nan)))
    theirs = pair_of(v_a, s_a, v_b, s_b, rule)
    cuda.pair(ours)
    reference.pair(theirs)
    close(ours.v_merged, theirs.v_merged)
    close(ours.s_merged, theirs.s_merged)


@pytest.mark.parametrize("rule", RULES)
def test_every_pair_of_extreme_lse(device: torch.device, rule: MergeRule) -> None:
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
    theirs = pair_of(v_a, s_a, v_b, s_b, MergeRule.BASE2, mask, (v_a.clone(), s_a.clone()))
    reference.pair(theirs)
    ours = pair_of(v_a, s_a, v_b, s_b, MergeRule.BASE2, mask, (v_a, s_a))
    cuda.pair(ours)
    close(v_a, theirs.v_merged)
    close(s_a, theirs.s_merged)


@pytest.mark.parametrize("rule", [MergeRule.BASE2, MergeRule.BASE2_NATURAL])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 5, 33])
@pytest.mark.parametrize("head_dim", [7, 128, 512])
def test_states(device: torch.device, dtype: torch.dtype, n: int, head_dim: int, rule: MergeRule) -> None:
    v = torch.randn(29, n, 6, head_dim, device=device, dtype=dtype)
    s = torch.randn(29, n, 6, device=device) * 5
    s[0], s[1, 0], s[2, -1] = -math.inf, math.inf, -math.inf

    def arguments() -> StatesArguments:
        out = torch.full((29, 6, head_dim), math.nan, device=device, dtype=dtype)
        return StatesArguments(v, s, out, torch.full((29, 6), math.nan, device=device), rule)

    ours, theirs = arguments(), arguments()
    cuda.states(ours)
    reference.states(theirs)
    close(ours.v_merged, theirs.v_merged)
    close(ours.s_merged, theirs.s_merged)


def test_as_an_implementation_of_the_operators() -> None:
    v, s = torch.randn(3, 2, 64), torch.randn(3, 2)
    ours, lse = merge_state(v, s, v + 1, s, implementation="cuda")
    choice = last_choice()
    assert choice is not None and choice.implementation == "cuda"
    assert [(each.kernel, each.route) for each in choice.launches] == [("merge_state_f32", "emulator")]
    close(ours, v + 0.5)
    close(lse, s + 1)
    states, _ = merge_states(torch.stack([v, v + 1], 1), torch.stack([s, s], 1), implementation="cuda")
    close(states, v + 0.5)
    _, natural = merge_states(torch.stack([v, v], 1), torch.stack([s, s], 1), base="e", implementation="cuda")
    close(natural, s + math.log(2))


def test_what_it_has_no_kernel_for_is_refused() -> None:
    v, s = torch.randn(3, 2, 64), torch.randn(3, 2)
    with pytest.raises(ValueError, match=r"has no kernel that merges torch\.float32 into torch\.float16"):
        merge_state(v, s, v, s, v_merged=torch.empty_like(v, dtype=torch.float16), implementation="cuda")
