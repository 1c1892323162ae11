"""Merging partial attention results: V is a softmax-weighted mean, LSE the logarithm of its weights' sum.

Softmax over a union of keys follows from the parts alone: lse = log Σ exp(lse_i), V = Σ exp(lse_i − lse) · V_i. The
operators differ in the base of the logarithm and in what they do at infinities; `MergeRule` says how.
"""

from __future__ import annotations

from typing import Literal

import torch

from sglab.kernels.known_calls import checked_once, next_time
from sglab.kernels.merge import cuda
from sglab.kernels.merge.contract import MergeRule, check_pair, check_states
from sglab.kernels.merge.served import PairServer
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton


def _operator(name: str, function: str) -> Operator:
    return Operator(
        name,
        Implementation("triton", f"sglab.kernels.merge.triton:{function}", GPU, needs_triton),
        Implementation("cuda", f"sglab.kernels.merge.cuda:{function}", GPU, cuda.refuses),
        Implementation("reference", f"sglab.kernels.merge.reference:{function}", EVERYWHERE),
    )


merge_state_operator = _operator("merge_state", "pair")
merge_state_in_place_operator = _operator("merge_state_in_place", "pair")
merge_state_v2_operator = _operator("merge_state_v2", "pair")
merge_states_operator = _operator("merge_states", "states")

_Merged = tuple[torch.Tensor, torch.Tensor]


@checked_once
def merge_state(
    v_a: torch.Tensor,
    s_a: torch.Tensor,
    v_b: torch.Tensor,
    s_b: torch.Tensor,
    v_merged: torch.Tensor | None = None,
    s_merged: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
) -> _Merged:
    """Merge the attention results over two disjoint sets of keys. LSE is in base 2, as FlashInfer has it.

    Returns (v_merged, s_merged). Raises ContractError.

    At infinities it does what FlashInfer 0.7.2 does: only −inf gives V = 0 and LSE = −inf; a NaN LSE counts as
    −inf beside a number; +inf gives V = 0 and LSE = NaN. A share of 0 is multiplied all the same, so NaN in an empty
    side's V spreads.

    Args:
        v_a, v_b: (tokens, heads, head_dim), one dtype of float32, float16, bfloat16, contiguous.
        s_a, s_b: (tokens, heads) float32, log2 of the sum of exponentials; −inf for no keys.
        v_merged, s_merged: outputs, allocated if None; each may be an input itself, but not overlap one in part.
    """
    return _merge(merge_state_operator, (v_a, s_a, v_b, s_b), (v_merged, s_merged), MergeRule.BASE2, implementation)


@checked_once
def merge_state_in_place(
    v: torch.Tensor,
    s: torch.Tensor,
    v_other: torch.Tensor,
    s_other: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
) -> None:
    """Merge (v_other, s_other) into (v, s), base 2, as FlashInfer's function of this name.

    Args:
        mask: (tokens,) bool; tokens with False keep their (v, s). The rest is as for merge_state.
    """
    names = ("v", "s", "v_other", "s_other")
    arguments = check_pair("merge_state_in_place", names, (v, s, v_other, s_other), (v, s), MergeRule.BASE2, mask)
    merge_state_in_place_operator(arguments, implementation)


@checked_once
def merge_state_v2(
    v_a: torch.Tensor,
    s_a: torch.Tensor,
    v_b: torch.Tensor,
    s_b: torch.Tensor,
    v_merged: torch.Tensor | None = None,
    s_merged: torch.Tensor | None = None,
    *,
    guarded: bool = False,
    implementation: str = "auto",
) -> _Merged:
    """Merge the attention results over two disjoint sets of keys. LSE is natural, as FlashAttention returns it.

    Arguments and result are those of merge_state, with LSE = ln of the sum of exponentials.

    guarded=False is sgl_kernel's merge_state_v2: +inf counts as −inf (FlashAttention 2 reports empty rows so); one −inf
    gives the other side; both −inf give V = NaN and LSE = NaN; NaN in an empty side's V spreads (0 · NaN).
    guarded=True: both empty give V = 0 and LSE = −inf, and an empty side's V is not read into the result.
    """
    rule = MergeRule.V2_GUARDED if guarded else MergeRule.V2
    return _merge(merge_state_v2_operator, (v_a, s_a, v_b, s_b), (v_merged, s_merged), rule, implementation)


@checked_once
def merge_states(
    v: torch.Tensor, s: torch.Tensor, *, base: Literal[2, "e"] = 2, implementation: str = "auto"
) -> _Merged:
    """Merge the attention results over n disjoint sets of keys, as FlashInfer's function of this name.

    Returns (v_merged (tokens, heads, head_dim), s_merged (tokens, heads)). Infinities are treated as by merge_state.

    Args:
        v: (tokens, n, heads, head_dim), contiguous; n may be 0, which gives V = 0 and LSE = −inf.
        s: (tokens, n, heads) float32, contiguous.
        base: of the logarithm in s and in the result; 2 is FlashInfer's.
    """
    if base not in {2, "e"}:
        raise ValueError(f"merge_states: base must be 2 or 'e'; got {base!r}")
    arguments = check_states(v, s, MergeRule.BASE2 if base == 2 else MergeRule.BASE2_NATURAL)
    merge_states_operator(arguments, implementation)
    return arguments.v_merged, arguments.s_merged


def _merge(
    operator: Operator,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    outputs: tuple[torch.Tensor | None, torch.Tensor | None],
    rule: MergeRule,
    implementation: str,
) -> _Merged:
    arguments = check_pair(operator.name, ("v_a", "s_a", "v_b", "s_b"), inputs, outputs, rule)
    operator(arguments, implementation)
    if outputs[0] is None and outputs[1] is None:
        next_time(lambda: PairServer(arguments, operator.chosen(arguments, implementation)).into_new)
    return arguments.v_merged, arguments.s_merged
