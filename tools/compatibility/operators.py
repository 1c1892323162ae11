"""Cases of operators that Triton libraries offer: outputs and gradients held against float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from tools.compatibility.case import Case, Check
from tools.compatibility.meter import Meter
from tools.compatibility.triton_host import launches_on

RTOL = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
ATOL = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
SHORT = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def normal(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
    """Normally distributed values."""
    return (torch.randn(shape) * scale).to(dtype)


def operator(
    kernel: str,
    make: Callable[[], Sequence[Any]],
    call: Callable[..., Any],
    reference: Callable[..., Any],
    tolerance: float = 1.0,
    gradients: bool = False,
    host: Callable[[Meter], AbstractContextManager[None]] = launches_on,
    rounds_to: torch.dtype = torch.float32,
) -> Case:
    """A case of an operator.

    Args:
        make: its arguments, drawn afresh.
        call: the operator; returns a tensor or several.
        reference: the same in plain torch; it gets the arguments with floats widened to float64.
        tolerance: on top of what the dtype of an output gives.
        gradients: also backward, with a random gradient: the gradients of all arguments that are floats are checked.
        host: makes what the operator launches run on a device.
        rounds_to: what the operator itself rounds to on the way: outputs of a finer dtype are no finer than it.
    """

    def run(meter: Meter) -> list[Check]:
        inputs = list(make())
        wide = [_wide(value, gradients) for value in inputs]
        taken = [_leaf(value) if gradients else _copy(value) for value in inputs]
        with host(meter):
            got = _several(call(*taken))
            upstream = [torch.randn_like(one) for one in got] if gradients else []
            if gradients:
                torch.autograd.backward(got, upstream)
        expected = _several(reference(*wide))
        checks = [_check(one, other, tolerance, rounds_to) for one, other in zip(got, expected, strict=True)]
        if gradients:
            torch.autograd.backward(expected, [one.to(torch.float64) for one in upstream])
            pairs = [(a.grad, b.grad) for a, b in zip(taken, wide, strict=True) if _differentiable(a)]
            checks += [_check(one, other, 4 * tolerance, rounds_to) for one, other in pairs]
        return checks

    return Case(kernel, run)


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _wide(value: Any, gradients: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return value.clone()
    return value.to(torch.float64).requires_grad_(gradients)


def _leaf(value: Any) -> Any:
    return value.clone().requires_grad_() if _differentiable(value) else _copy(value)


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _several(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [one for one in value if one is not None]


def _check(got: torch.Tensor, expected: torch.Tensor, tolerance: float, rounds_to: torch.dtype) -> Check:
    """Errors count beside the largest value of an output, too: sums of large values leave small ones."""
    if got.dtype not in RTOL:
        return Check(got, expected)
    dtype = max(got.dtype, rounds_to, key=RTOL.__getitem__)
    wide = expected.detach().to(torch.float64)
    finite = wide[wide.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    return Check(got.detach(), wide, RTOL[dtype] * tolerance, ATOL[dtype] * tolerance * min(max(scale, 1e-3), 1e6))
