"""Sampling as FlashInfer offers it: filters that renormalise, and draws from what they leave.

FlashInfer rejects and draws again until a token passes; here what does not pass is removed first, which gives the same
distribution. Random numbers come from a torch.Generator, so that a seed repeats them.
"""

from __future__ import annotations

from typing import Literal

import torch

from sglab.kernels.contract import FLOATS, Contract, reads_values
from sglab.kernels.registry import EVERYWHERE, Implementation, Operator
from sglab.kernels.sampling.contract import check, check_rows

__all__ = [
    "min_p_sampling_from_probs",
    "sampling_from_logits",
    "sampling_from_probs",
    "softmax",
    "top_k_mask_logits",
    "top_k_renorm_probs",
    "top_k_sampling_from_probs",
    "top_k_top_p_sampling_from_logits",
    "top_k_top_p_sampling_from_probs",
    "top_p_renorm_probs",
    "top_p_sampling_from_probs",
]

operator = Operator("sampling_filter", Implementation("reference", "sglab.kernels.sampling.reference:run", EVERYWHERE))
Bound = torch.Tensor | float
Count = torch.Tensor | int


def softmax(logits: torch.Tensor, temperature: torch.Tensor | float | None = None) -> torch.Tensor:
    """Probabilities (rows, vocabulary) float32 of logits / temperature; temperature is a number or (rows,).

    Raises:
        ContractError: an argument does not fit.
    """
    contract = Contract("softmax")
    contract.tensor("logits", logits, "rows vocabulary", FLOATS)
    if isinstance(temperature, torch.Tensor):
        contract.tensor("temperature", temperature, "rows", FLOATS)
        temperature = temperature[:, None]
    if logits.device.type == "cpu" and temperature is not None:
        positive = bool(torch.as_tensor(temperature > 0).all())
        contract.require(positive, "temperature", "positive", temperature, "Take the largest logit instead of 0.")
    return torch.softmax(logits.float() if temperature is None else logits.float() / temperature, -1)


def top_k_renorm_probs(probs: torch.Tensor, top_k: Count, *, check_values: bool | None = None) -> torch.Tensor:
    """Probabilities of the top_k likeliest tokens, and of those as likely as the last of them; the others 0.

    Args:
        probs: (rows, vocabulary) float32.
        top_k: int, or (rows,) int32 or int64.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check("top_k_renorm_probs", "top_k", probs, top_k, check_values)
    operator(arguments)
    return arguments.out


def top_p_renorm_probs(probs: torch.Tensor, top_p: Bound, *, check_values: bool | None = None) -> torch.Tensor:
    """Probabilities of the fewest tokens that sum to top_p (float, or (rows,)), and of those as likely as the last.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check("top_p_renorm_probs", "top_p", probs, top_p, check_values)
    operator(arguments)
    return arguments.out


def top_k_mask_logits(logits: torch.Tensor, top_k: Count, *, check_values: bool | None = None) -> torch.Tensor:
    """Logits with −inf below the top_k largest.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check("top_k_mask_logits", "top_k", logits, top_k, check_values, logits=True)
    operator(arguments)
    return arguments.out


def sampling_from_probs(
    probs: torch.Tensor, generator: torch.Generator | None = None, *, check_values: bool | None = None
) -> torch.Tensor:
    """A token per row, (rows,) int32, drawn by probability; a token of probability 0 never is.

    Raises:
        ContractError: an argument does not fit.
    """
    contract = Contract("sampling_from_probs")
    contract.tensor("probs", probs, "rows vocabulary", (torch.float32,))
    if reads_values(check_values, probs.device):
        check_rows(contract, probs)
    return torch.multinomial(probs, 1, generator=generator)[:, 0].int()


def sampling_from_logits(
    logits: torch.Tensor, generator: torch.Generator | None = None, *, check_values: bool | None = None
) -> torch.Tensor:
    """A token per row, (rows,) int32, drawn from softmax(logits).

    Raises:
        ContractError: an argument does not fit.
    """
    contract = Contract("sampling_from_logits")
    contract.tensor("logits", logits, "rows vocabulary", FLOATS)
    if reads_values(check_values, logits.device):
        check_rows(contract, logits, logits=True)
    return sampling_from_probs(torch.softmax(logits.float(), -1), generator, check_values=False)


def top_k_sampling_from_probs(
    probs: torch.Tensor, top_k: Count, generator: torch.Generator | None = None, *, check_values: bool | None = None
) -> torch.Tensor:
    """A token per row among the top_k likeliest."""
    return sampling_from_probs(top_k_renorm_probs(probs, top_k, check_values=check_values), generator)


def top_p_sampling_from_probs(
    probs: torch.Tensor, top_p: Bound, generator: torch.Generator | None = None, *, check_values: bool | None = None
) -> torch.Tensor:
    """A token per row among the likeliest that sum to top_p."""
    return sampling_from_probs(top_p_renorm_probs(probs, top_p, check_values=check_values), generator)


def min_p_sampling_from_probs(
    probs: torch.Tensor, min_p: Bound, generator: torch.Generator | None = None, *, check_values: bool | None = None
) -> torch.Tensor:
    """A token per row among those at least min_p times as likely as the likeliest."""
    arguments = check("min_p_sampling_from_probs", "min_p", probs, min_p, check_values)
    operator(arguments)
    return sampling_from_probs(arguments.out, generator)


def top_k_top_p_sampling_from_probs(
    probs: torch.Tensor,
    top_k: Count,
    top_p: Bound,
    filter_apply_order: Literal["top_k_first", "joint"] = "top_k_first",
    generator: torch.Generator | None = None,
    *,
    check_values: bool | None = None,
) -> torch.Tensor:
    """A token per row that passes both filters.

    Args:
        filter_apply_order: "top_k_first" sums top_p over what top_k left, "joint" over all tokens.

    Raises:
        ContractError: an argument does not fit.
    """
    orders = ("top_k_first", "joint")
    contract = Contract("top_k_top_p_sampling_from_probs")
    remedy = "top_k_first is the usual one."
    contract.require(filter_apply_order in orders, "filter_apply_order", f"one of {orders}", filter_apply_order, remedy)
    left = top_k_renorm_probs(probs, top_k, check_values=check_values)
    if filter_apply_order == "top_k_first":
        return top_p_sampling_from_probs(left, top_p, generator, check_values=check_values)
    nucleus = top_p_renorm_probs(probs, top_p, check_values=check_values)
    return sampling_from_probs(torch.where(left > 0, nucleus, 0.0), generator)


def top_k_top_p_sampling_from_logits(
    logits: torch.Tensor,
    top_k: Count,
    top_p: Bound,
    filter_apply_order: Literal["top_k_first", "joint"] = "top_k_first",
    generator: torch.Generator | None = None,
    *,
    check_values: bool | None = None,
) -> torch.Tensor:
    """top_k_top_p_sampling_from_probs of softmax(logits)."""
    given = (softmax(logits), top_k, top_p, filter_apply_order, generator)
    return top_k_top_p_sampling_from_probs(*given, check_values=check_values)
