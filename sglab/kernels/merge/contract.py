"""What the merge operators ask of their arguments, and the rules by which they weigh partial results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch

from sglab.kernels.contract import FLOATS, Contract


class Rule(Enum):
    """How two or more (V, LSE) become one. The rules agree on finite LSE, up to the base, and differ at infinities.

    Attributes:
        BASE2: FlashInfer's merge_state. LSE in base 2. Only −inf gives V = 0, LSE = −inf; +inf takes all weight
            away: V = 0, LSE = NaN; a NaN LSE counts as −inf beside a number.
        BASE2_NATURAL: the same with natural logarithms.
        V2: merge_state_v2 as it is. Natural. +inf counts as −inf; both −inf gives NaN.
        V2_GUARDED: as V2, but both −inf gives V = 0, LSE = −inf, and a V whose LSE is −inf is not read into the result.
    """

    BASE2 = "base 2"
    BASE2_NATURAL = "base 2 rule, natural"
    V2 = "v2"
    V2_GUARDED = "v2 guarded"


@dataclass(frozen=True)
class PairArguments:
    """Checked arguments of a merge of two: V (tokens, heads, head_dim), LSE (tokens, heads) float32, all contiguous.

    Attributes:
        mask: (tokens,) bool, False leaves the token's outputs as they are; None merges all.
        in_place: an output is the very memory of an input.
    """

    v_a: torch.Tensor
    s_a: torch.Tensor
    v_b: torch.Tensor
    s_b: torch.Tensor
    v_merged: torch.Tensor
    s_merged: torch.Tensor
    rule: Rule
    mask: torch.Tensor | None = None
    in_place: bool = False

    @property
    def device(self) -> torch.device:
        return self.v_a.device


@dataclass(frozen=True)
class StatesArguments:
    """Checked arguments of a merge of n: v (tokens, n, heads, head_dim), s (tokens, n, heads) float32, contiguous."""

    v: torch.Tensor
    s: torch.Tensor
    v_merged: torch.Tensor
    s_merged: torch.Tensor
    rule: Rule

    @property
    def device(self) -> torch.device:
        return self.v.device


def check_pair(
    operator: str,
    names: tuple[str, str, str, str],
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    outputs: tuple[torch.Tensor | None, torch.Tensor | None],
    rule: Rule,
    mask: torch.Tensor | None = None,
) -> PairArguments:
    contract = Contract(operator)
    v_a, s_a, v_b, s_b = inputs
    _check_state(contract, names[0], v_a, names[1], s_a, "tokens heads head_dim", "tokens heads")
    _check_state(contract, names[2], v_b, names[3], s_b, "tokens heads head_dim", "tokens heads")
    contract.same_dtype(**{names[0]: v_a, names[2]: v_b})
    if mask is not None:
        contract.tensor("mask", mask, "tokens", (torch.bool,))
    v_merged = torch.empty_like(v_a) if outputs[0] is None else outputs[0]
    s_merged = torch.empty_like(s_a) if outputs[1] is None else outputs[1]
    _check_state(contract, "v_merged", v_merged, "s_merged", s_merged, "tokens heads head_dim", "tokens heads")
    in_place = False
    for argument, output in (("v_merged", v_merged), ("s_merged", s_merged)):
        for name, tensor in zip(names, inputs, strict=True):
            in_place |= _is_same_memory(contract, argument, output, name, tensor)
        contract.apart(argument, output, mask=mask)
    contract.apart("s_merged", s_merged, v_merged=v_merged)
    return PairArguments(v_a, s_a, v_b, s_b, v_merged, s_merged, rule, mask, in_place)


def check_states(v: torch.Tensor, s: torch.Tensor, rule: Rule) -> StatesArguments:
    contract = Contract("merge_states")
    _check_state(contract, "v", v, "s", s, "tokens num_states heads head_dim", "tokens num_states heads")
    tokens, _, heads, head_dim = v.shape
    v_merged = torch.empty(tokens, heads, head_dim, dtype=v.dtype, device=v.device)
    return StatesArguments(v, s, v_merged, s.new_empty(tokens, heads), rule)


def _check_state(
    contract: Contract, v_name: str, v: torch.Tensor, s_name: str, s: torch.Tensor, v_shape: str, s_shape: str
) -> None:
    contract.tensor(v_name, v, v_shape, FLOATS)
    contract.tensor(s_name, s, s_shape, (torch.float32,))
    for name, tensor in ((v_name, v), (s_name, s)):
        contract.require(
            tensor.is_contiguous(),
            name,
            "contiguous",
            f"strides {tuple(tensor.stride())}",
            f"Pass {name}.contiguous().",
        )


def _is_same_memory(contract: Contract, argument: str, output: torch.Tensor, name: str, given: torch.Tensor) -> bool:
    """True if the output is exactly the input; a partial overlap is refused, as parts would be read after writing."""
    start, end = output.data_ptr(), output.data_ptr() + output.nbytes
    other_start, other_end = given.data_ptr(), given.data_ptr() + given.nbytes
    if output.nbytes == 0 or end <= other_start or other_end <= start:
        return False
    if (start, end, output.dtype) != (other_start, other_end, given.dtype):
        contract.fail(
            argument,
            f"either {name} itself or memory separate from it",
            f"an overlap of {min(end, other_end) - max(start, other_start)} bytes",
            "Pass a tensor of its own.",
        )
    return True
