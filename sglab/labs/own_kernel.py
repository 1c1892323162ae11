"""Questions of notebook 09: on launches of the reader's own kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sglab.emulator import EmulatedDevice
from sglab.gpu import CompileError, KernelError
from sglab.stepping import KernelLaunch, step

from .question import Question, Verdict, sentence

NEARLY = 1e-5
"""Largest error of a softmax in float32 that rounding explains."""
ROWS = ((3, 32, 1.0, 0.0), (4, 50, 1.0, -20.0), (3, 200, 40.0, 0.0))
"""Rows, columns, spread and mean of the scores that SoftmaxRows tries."""


def line_that_stores(launch: KernelLaunch) -> Question:
    """The source line whose store is executed first."""

    def truth() -> int:
        code = launch.kernel.code
        return next(line for pc in code.find(opcode="st.global") if (line := (code.source(pc) or ("", 0))[1]))

    return Question(
        truth=truth,
        because="{truth}: the compiler keeps for every instruction the line that it came from.",
        hint="session.run_to(opcode='st.global').at.instruction.source says file and line.",
        ideas=(
            (0, "Lines count from 1."),
            (5, "That line loads."),
            (1, "Line 1 is the decorator. The cell's lines count from there."),
        ),
    )


def kinds_found(launch: KernelLaunch) -> Question:
    """What kinds of findings the sanitizers have, over the whole launch."""

    def truth() -> set[str]:
        report = launch.run()
        return {finding.kind for finding in report.findings}

    return Question(
        truth=truth,
        because="{truth}: a warp reads what another may not have written yet. A GPU often happens to get it right.",
        hint="{finding.kind for finding in turning.run().findings}.",
        ideas=(
            (set(), "The result was right. The sanitizers ask for order all the same: look at the findings."),
            ({"race"}, "A race has two kinds: who came first, the read or the write? The finding's kind says it."),
        ),
    )


def warp_and_lane_of_fault(launch: KernelLaunch) -> Question:
    """Who touches memory that is not the tensor's."""

    def truth() -> list[int]:
        try:
            launch.run()
        except KernelError as error:
            return [] if error.fault is None else [error.fault.warp, error.fault.lane]
        return []

    return Question(
        truth=truth,
        because="{truth}: the first thread whose element lies past the end.",
        hint="Read the error's last line, or run session.run() and look at session.fault.",
        ideas=(
            ([3, 31], "That is the last thread. The first one that leaves the tensor is stopped."),
            (
                [0, 31],
                "Elements 256 and on are missing: the whole third block is beyond the end. Which thread of it "
                "came first?",
            ),
        ),
    )


@dataclass(frozen=True)
class SoftmaxRows:
    """A Triton kernel to write: softmax_rows[(rows,)](x, out, columns, BLOCK=…), BLOCK a power of two, ≥ columns."""

    def check(self, given: Any = ...) -> Verdict:
        """Judge a kernel by launches on fresh tensors, with the sanitizers."""
        if given is ...:
            return Verdict(None, "Write softmax_rows, then replace the ... by its name and run the cell again.")
        if not hasattr(given, "__getitem__") or not hasattr(given, "arg_names"):
            return Verdict(False, "The answer is the kernel itself, a function with @triton.jit: softmax_rows.")
        for rows, columns, spread, mean in ROWS:
            x = torch.randn(rows, columns) * spread + mean
            said = self._wrong(given, x, 1 << (columns - 1).bit_length())
            if said is not None:
                return said
        return Verdict(True, f"{len(ROWS)} launches on fresh tensors, 50 and 200 columns among them: right, and clean.")

    def _wrong(self, kernel: Any, x: torch.Tensor, block: int) -> Verdict | None:
        rows, columns = x.shape
        out, what = torch.full_like(x, torch.nan), f"{rows} rows of {columns} columns, BLOCK={block}"
        device = EmulatedDevice("sm_100a", sanitize=True, max_instructions=2_000_000)
        try:
            launch: Any = step(kernel[(rows,)], x, out, columns, BLOCK=block, device=device)
            found = launch.run().findings
        except CompileError as refused:
            return Verdict(False, f"Triton refuses it: {str(refused)[-600:]}")
        except KernelError as failed:
            return Verdict(
                False, f"{what}: {str(failed).splitlines()[0]} Both load and store need the mask i < columns."
            )
        if out.isnan().all() and not found:
            return Verdict(None, "softmax_rows is still to be written: it stores nothing.")
        exact = torch.softmax(x.double(), -1)
        if _near(out, exact):
            return (
                Verdict(False, sentence(f"{what}: right, but {found[0].kind}: {found[0].message}")) if found else None
            )
        feedback = next((told for wrong, told in _ideas(x, block) if _near(out, wrong)), "")
        error = float((out.double() - exact).abs().nan_to_num(torch.inf).max())
        more = f" And found: {found[0].kind}." if found else ""
        return Verdict(False, f"{what}: {feedback or f'the largest error is {error:.1e}.'}{more}")


def _near(out: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(out.double(), other.double(), 1e-3, NEARLY, equal_nan=True)


def _ideas(x: torch.Tensor, block: int) -> list[tuple[torch.Tensor, str]]:
    """What known wrong kernels make of x, each with what its author gets to read."""
    wide = torch.cat((x, torch.zeros(len(x), block - x.shape[1])), -1)
    top = x.max(-1, keepdim=True).values
    padded = torch.softmax(wide.double(), -1)[:, : x.shape[1]]
    from_0 = torch.exp(x - wide.max(-1, keepdim=True).values)
    return [
        (padded, "Lanes past the row count, too: with other=0.0 each adds exp(0 − maximum). Load −inf there."),
        (from_0 / from_0.sum(-1, keepdim=True), "The maximum is taken over the padding's zeros, too: load −inf there."),
        (x.exp() / x.exp().sum(-1, keepdim=True), "exp overflows: subtract the row's maximum first."),
        (torch.exp(x - top), "Divide by the row's sum."),
        (torch.softmax(x.double().flatten(), 0).view_as(x), "Each row has a softmax of its own."),
    ]
