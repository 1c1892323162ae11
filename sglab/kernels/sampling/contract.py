"""What sampling asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values

Filter = Literal["top_k", "top_p", "min_p"]


@dataclass(frozen=True)
class FilterArguments:
    """Checked: rows of probabilities (rows, vocabulary) float32, or of logits for top_k; bounds (rows,).

    Attributes:
        kind: top_k keeps the k largest, and what equals the smallest of them; top_p the fewest largest that sum to at
            least p; min_p those of at least min_p · the largest.
        fill: what takes the place of the others: 0, or −inf for logits.
        renormalise: divide by the sum of what is kept.
        out: output, as values.
    """

    kind: Filter
    values: torch.Tensor
    bound: torch.Tensor
    fill: float
    renormalise: bool
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.values.device


def check(
    operator: str,
    kind: Filter,
    values: torch.Tensor,
    bound: torch.Tensor | float,
    check_values: bool | None,
    logits: bool = False,
) -> FilterArguments:
    contract = Contract(operator)
    contract.tensor("logits" if logits else "probs", values, "rows vocabulary", (torch.float32,))
    contract.require(values.shape[1] > 0, "probs", "of at least one token", 0, "Pass the model's vocabulary.")
    dtype = torch.int64 if kind == "top_k" else torch.float32
    if not isinstance(bound, torch.Tensor):
        bound = torch.full((len(values),), bound, dtype=dtype, device=values.device)
    contract.tensor(kind, bound, "rows", INDEX if kind == "top_k" else FLOATS)
    if reads_values(check_values, values.device):
        if kind == "top_k":
            contract.elements(kind, bound >= 1, "at least 1", bound, "Pass the vocabulary's size for no limit.")
        else:
            least = bound > 0 if kind == "top_p" else bound >= 0
            contract.elements(kind, least & (bound <= 1), "within (0, 1]", bound, "1 is no limit; min_p's is 0.")
        check_rows(contract, values, logits)
    out = torch.empty_like(values, memory_format=torch.contiguous_format)
    return FilterArguments(kind, values, bound, float("-inf") if logits else 0.0, not logits, out)


def check_rows(contract: Contract, values: torch.Tensor, logits: bool = False) -> None:
    """Logits are numbers below +inf; probabilities are not negative and not all 0."""
    if logits:
        fits = ~values.isnan() & (values < torch.inf)
        contract.elements("logits", fits, "numbers below +inf", values, "Look for NaN in the model.")
        some = (values > -torch.inf).any(1)
        contract.elements("logits", some, "above −inf somewhere in each row", some, "A mask hides every token.")
        return
    remedy = "Apply softmax to the logits."
    contract.elements("probs", (values >= 0) & values.isfinite(), "finite and not negative", values, remedy)
    contract.elements("probs", values.sum(1) > 0, "above 0 somewhere in each row", values.sum(1), remedy)
