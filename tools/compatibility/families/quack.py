"""QuACK: kernels in CuTe DSL around reductions of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tools.compatibility.case import Case
from tools.compatibility.cute_dsl_host import launches_on
from tools.compatibility.families import Family, installed
from tools.compatibility.operators import SHORT, normal, operator
from tools.compatibility.triton_host import pretend

ROWS, WIDTH = 9, 512


def family() -> Family:
    version = f"{installed('quack-kernels')}, {installed('nvidia-cutlass-dsl')}"
    pretend()
    os.environ["QUACK_CACHE_ENABLED"] = "0"
    cases = [case for dtype in (torch.float32, torch.bfloat16) for case in [*_rows(dtype), *_norms(dtype)]]
    return Family("QuACK (CuTe DSL)", version, cases)


def _case(kernel: str, make: Callable[[], Sequence[Any]], call: Any, reference: Any, tolerance: float) -> Case:
    return operator(kernel, make, call, reference, tolerance, host=launches_on)


def _rows(dtype: torch.dtype) -> list[Case]:
    from quack.cross_entropy import cross_entropy_fwd
    from quack.softmax import softmax_bwd, softmax_fwd
    from quack.topk import topk_fwd
    from quack.transform.hadamard import hadamard_transform_fwd

    kind = SHORT[dtype]

    def one() -> list[torch.Tensor]:
        return [normal(ROWS, WIDTH, dtype=dtype)]

    def wide() -> list[torch.Tensor]:
        return [normal(2, 32_768, dtype=dtype)]

    def gradient() -> list[torch.Tensor]:
        return [normal(ROWS, WIDTH, dtype=dtype), normal(ROWS, WIDTH, dtype=dtype).softmax(-1)]

    def labelled() -> list[torch.Tensor]:
        return [*one(), torch.randint(0, WIDTH, (ROWS,))]

    return [
        _case(f"softmax, {kind}", one, softmax_fwd, lambda x: x.softmax(-1), 2),
        _case(f"softmax of long rows, by a cluster, {kind}", wide, softmax_fwd, lambda x: x.softmax(-1), 2),
        _case(f"softmax backward, {kind}", gradient, softmax_bwd, lambda dy, y: y * (dy - (dy * y).sum(-1, True)), 4),
        _case(
            f"cross entropy, {kind}",
            labelled,
            cross_entropy_fwd,
            lambda x, y: F.cross_entropy(x, y, reduction="none"),
            4,
        ),
        _case(
            f"top-k, {kind}", one, lambda x: topk_fwd(x, 8)[0], lambda x: x.topk(8).values, 4
        ),  # low bits hold indices
        _case(
            f"Hadamard transform, {kind}",
            one,
            hadamard_transform_fwd,
            lambda x: x @ _hadamard(WIDTH),
            8,
        ),
    ]


def _norms(dtype: torch.dtype) -> list[Case]:
    from quack.rmsnorm import layernorm_fwd, rmsnorm_fwd

    kind = SHORT[dtype]

    def weighed() -> list[torch.Tensor]:
        return [normal(ROWS, WIDTH, dtype=dtype), normal(WIDTH)]

    def residual() -> list[torch.Tensor]:
        return [*weighed(), normal(ROWS, WIDTH, dtype=dtype)]

    def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, 1e-6)

    return [
        _case(f"RMS norm, {kind}", weighed, lambda x, w: rmsnorm_fwd(x, w)[0], rms, 4),
        _case(
            f"RMS norm with residual, {kind}",
            residual,
            lambda x, w, r: rmsnorm_fwd(x, w, residual=r)[:2],
            lambda x, w, r: (rms(x + r, w), x + r),
            4,
        ),
        _case(f"layer norm, {kind}", weighed, layernorm_fwd, lambda x, w: F.layer_norm(x, w.shape, w, None, 1e-6), 4),
    ]


def _hadamard(size: int) -> torch.Tensor:
    """Sylvester's matrix."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), matrix)
    return matrix
