"""What the RMSNorms ask of their arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, Contract
from sglab.kernels.launch_cache import Known, described

_right = Known()


@dataclass(frozen=True)
class NormArguments:
    """Checked arguments: x (rows, hidden); residual like it, increased by x in place and normed instead, or None.

    Attributes:
        weight: (hidden,).
        offset: added to the weight: 1 in Gemma's norms.
        out: output (rows, hidden); x itself where the residual comes with it.
    """

    x: torch.Tensor
    residual: torch.Tensor | None
    weight: torch.Tensor
    eps: float
    offset: float
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.x.device


def check(
    operator: str,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    eps: float,
    offset: float = 0.0,
    out: torch.Tensor | None = None,
) -> NormArguments:
    known = (operator, eps, described(x, residual, weight)) if residual is not None else None
    if residual is not None and known in _right:
        return NormArguments(x, residual, weight, eps, offset, x)
    contract = Contract(operator)
    contract.tensor("x", x, "rows hidden", FLOATS)
    if residual is not None:
        contract.tensor("residual", residual, "rows hidden", FLOATS)
    contract.tensor("weight", weight, "hidden", FLOATS)
    if residual is not None:
        contract.same_dtype(x=x, residual=residual)
    contract.require(math.isfinite(eps) and eps >= 0, "eps", "finite and at least 0", eps, "Pass rms_norm_eps.")
    if residual is not None:
        contract.apart("x", x, residual=residual, weight=weight)
        _right.add(known)
        return NormArguments(x, residual, weight, eps, offset, x)
    out = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
    contract.tensor("out", out, "rows hidden", FLOATS)
    contract.same_dtype(x=x, out=out)
    if out.data_ptr() != x.data_ptr() or out.stride() != x.stride():
        contract.apart("out", out, x=x)
    contract.apart("out", out, weight=weight)
    return NormArguments(x, None, weight, eps, offset, out)
