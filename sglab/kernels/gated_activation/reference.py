"""The gated activations in float64."""

from __future__ import annotations

from sglab.kernels.gated_activation.contract import GatedArguments
from sglab.kernels.gated_activation.formulas import activate


def run(a: GatedArguments) -> tuple[()]:
    a.out.copy_(activate(a.x.double(), a.kind))
    return ()
