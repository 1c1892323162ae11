"""The RMSNorms in float64, from the residual as its dtype stores it."""

from __future__ import annotations

from sglab.kernels.layernorm.contract import NormArguments


def run(a: NormArguments) -> tuple[()]:
    source = a.x
    if a.residual is not None:
        source = a.residual.add_(a.x)
    wide = source.double()
    a.out.copy_(wide * (wide.square().mean(-1, keepdim=True) + a.eps).rsqrt() * (a.weight.double() + a.offset))
    return ()
