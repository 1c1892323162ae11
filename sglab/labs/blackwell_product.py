"""The exercise of notebook "Your own Blackwell kernel": a Gluon kernel, judged by launches on fresh tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.device import Scheduler
from sglab.gpu import CompileError, KernelError
from sglab.stepping import step

from .question import Verdict, sentence

M, N, K = 128, 64, 64
RIGHT = 1e-2
"""Largest error of a product of float16 numbers that float32's rounding explains here."""
SCHEDULERS: tuple[Scheduler, ...] = ("fair", "adversarial")


def tensor_map(tensor: torch.Tensor, rows: int) -> Any:
    """What Gluon hands to TMA: boxes of `rows` rows of 64 float16 numbers, which lie swizzled by 128 bytes.

    Args:
        tensor: (n, k) float16, contiguous, k a multiple of 64.
    """
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.blackwell import TensorDescriptor

    layout = gl.NVMMASharedLayout.get_default_for([rows, 64], gl.float16)
    return TensorDescriptor.from_tensor(tensor, [rows, 64], layout)


def error(d: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    """How far d is from a bᵀ in float64, at worst; NaN counts as infinitely far."""
    return float((d.double() - a.double() @ b.double().T).abs().nan_to_num(torch.inf).max())


_IDEAS = (
    ("Only the last 64 columns count: the first product overwrites, the others add (use_acc).", slice(-64, None), 1),
    ("Only the first 64 columns count: go on along K.", slice(0, 64), 1),
    ("Every step multiplies the same 64 columns: TMA's second coordinate is the column.", slice(0, 64), 0),
)


@dataclass(frozen=True)
class AlongK:
    """A Gluon kernel to write: `product_along[(1,)](a_map, b_map, d, K=K)`, one buffer for each operand."""

    sizes: Sequence[int] = (64, 128, 320)

    def check(self, given: Any = ...) -> Verdict:
        """Judge a kernel by launches on fresh tensors, under two schedulers, with the sanitizers."""
        if given is ...:
            return Verdict(None, "Write product_along, then replace the ... by its name and run the cell again.")
        if not hasattr(given, "__getitem__") or not hasattr(given, "arg_names"):
            return Verdict(False, "The answer is the kernel itself, a function with @gluon.jit: product_along.")
        for size in self.sizes:
            for scheduler in SCHEDULERS:
                said = self._wrong(given, size, scheduler)
                if said is not None:
                    return said
        return Verdict(
            True, f"{len(self.sizes) * len(SCHEDULERS)} launches on fresh tensors: right, and nothing is found."
        )

    def _wrong(self, kernel: Any, size: int, scheduler: Scheduler) -> Verdict | None:
        a, b, d = torch.randn(M, size).half(), torch.randn(N, size).half(), torch.full((M, N), torch.nan)
        device = EmulatedDevice("sm_100a", sanitize=True, scheduler=scheduler, max_instructions=2_000_000)
        what = f"K = {size}, scheduler {scheduler}"
        try:
            launch: Any = step(kernel[(1,)], tensor_map(a, M), tensor_map(b, N), d, K=size, device=device)
            found = launch.run().findings
        except CompileError as refused:
            return Verdict(False, f"Triton refuses it: {str(refused)[-600:]}")
        except KernelError as failed:
            kind = failed.fault.kind if failed.fault else ""
            return Verdict(False, f"{what}: {str(failed).splitlines()[0]}. {_PHASES.get(kind, '')}".strip())
        if d.isnan().all():
            return Verdict(None, "product_along is still to be written: it stores nothing.")
        if not error(d, a, b) < RIGHT:
            for feedback, part, once in () if found else _IDEAS:
                times = 1 if once else size // 64
                if error(d / times, a[:, part], b[:, part]) < RIGHT:
                    return Verdict(False, f"{what}: {feedback}")
            more = f" And found: {found[0].kind}." if found else ""
            return Verdict(False, f"{what}: the error is {error(d, a, b):.1e}.{more} {_PHASES['finding']}")
        if found:
            told = sentence(f"{what}: right, but {found[0].kind}: {found[0].message}")
            return Verdict(False, f"{told} {_PHASES['finding']}")
        return None


_PHASES = {
    "deadlock": "Who waits, and for what? A barrier's phases alternate: 0, 1, 0, 1. And `expect` comes once per round.",
    "arrival_underflow": "A barrier is expected again before its phase was over: a wait names the wrong parity.",
    "finding": "Each round waits for both barriers, with the round's parity: for the tiles before the product, and for "
    "the product before the next tiles overwrite what it reads.",
}
