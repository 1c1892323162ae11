"""What the gated activations ask of their argument."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, Contract
from sglab.kernels.launch_cache import Known, shaped

_right = Known()


@dataclass(frozen=True)
class GatedArguments:
    """Checked arguments: x (rows, 2 n), out (rows, n) of its dtype, and which of formulas.KINDS."""

    x: torch.Tensor
    kind: str
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.x.device


def check(operator: str, x: torch.Tensor, kind: str) -> GatedArguments:
    known = (operator, shaped(x))
    if known not in _right:
        contract = Contract(operator)
        contract.tensor("x", x, "rows gate_and_up", FLOATS)
        width = contract.size("gate_and_up")
        contract.require(width % 2 == 0, "x", "of an even number of columns, gate and up", width, "Join both.")
        _right.add(known)
    width = x.shape[1]
    return GatedArguments(x, kind, x.new_empty(len(x), width // 2))
