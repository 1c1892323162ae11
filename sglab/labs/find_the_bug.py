"""Notebook "Find the bug": five faulty kernels, csrc/kernels/lessons/faulty.cu, run on kind and on unkind inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.gpu import Kernel
from sglab.kernels import ptx

from .mend_question import RIGHT, SCHEDULERS, MendQuestion, kernel_source
from .question import Question, Verdict

__all__ = [
    "NAMES",
    "RIGHT",
    "SCALE",
    "SCHEDULERS",
    "SOURCE",
    "Faulty",
    "a_test_of_mean",
    "doubly_scaled",
    "first_wrong_length",
    "lines_that_race",
    "mended",
    "partials_in_the_sum",
    "silent",
    "source",
    "table",
]

SOURCE = "csrc/kernels/lessons/faulty.cu"
SCALE = 192**-0.5
"""Of lse_of's scores: the softmax scale of DeepSeek-V3's attention before YaRN."""


@dataclass
class Faulty:
    """A launch of one of the five kernels on fresh tensors.

    Attributes:
        name: sum_row, mean_rows, lse_of, ring or plus_one.
        size: rows or tiles of x; of lse_of the magnitude of its scores; plus_one takes none.
        kernel: another to launch in its place, such as a mended one.
    """

    name: str
    size: float = 8
    seed: int = 0
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        rows, size = max(int(self.size), 1), float(self.size)
        shape, width, block, grid = {
            "sum_row": ((rows, 128), rows, 128, rows),
            "mean_rows": ((rows, 32), 32, 32, 1),
            "lse_of": ((32,), 1, 32, 1),
            "ring": ((rows, 32), 32, 64, 1),
            "plus_one": ((256,), 256, 256, 1),
        }[self.name]
        self.x = torch.randn(shape, generator=random) * (size if self.name == "lse_of" else 1)
        self.out = torch.zeros(width)
        more = [rows] if self.name in ("mean_rows", "ring") else []
        args = [self.x, SCALE, self.out] if self.name == "lse_of" else [self.x, self.out, *more]
        self._launch: dict[str, Any] = {"grid": grid, "block": block, "args": args}
        self.kernel = self.kernel or ptx.module("faulty")[self.name]

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Returns the report, with findings if sanitize=True."""
        self.out.zero_()
        return self._kernel.launch(EmulatedDevice("sm_90a", **device), **self._launch)

    def session(self, **device: Any) -> Session:
        """The launch, to be stepped."""
        self.out.zero_()
        return self._kernel.session(EmulatedDevice("sm_90a", **device), **self._launch)

    def exact(self) -> torch.Tensor:
        """What it should compute, in float64."""
        x = self.x.double()
        return {
            "sum_row": lambda: x.sum(1),
            "mean_rows": lambda: x.mean(0),
            "lse_of": lambda: torch.logsumexp(x * SCALE, 0, keepdim=True),
            "ring": lambda: x.sum(0),
            "plus_one": lambda: x + 1,
        }[self.name]()

    def error(self) -> float:
        """How far `out` is from float64's answer, at worst; NaN counts as infinitely far."""
        return float((self.out.double() - self.exact()).abs().nan_to_num(math.inf).max())

    @property
    def _kernel(self) -> Kernel:
        assert self.kernel is not None
        return self.kernel


NAMES = ("sum_row", "mean_rows", "lse_of", "ring", "plus_one")


def table(sizes: Sequence[float], names: Sequence[str] = NAMES, schedulers: Sequence[str] = ("fair",)) -> str:
    """The error of each kernel, by size and scheduler, as text."""
    heads = [f"{size:g}" if len(schedulers) == 1 else scheduler for size in sizes for scheduler in schedulers]
    lines = [f"{'':10}" + "".join(f"{head:>13}" for head in heads)]
    for name in names:
        cells = []
        for size in sizes:
            for scheduler in schedulers:
                launch = Faulty(name, size)
                launch.run(scheduler=scheduler)
                cells.append(f"{launch.error():13.1e}")
        lines.append(f"{name:10}{''.join(cells)}")
    return "\n".join(lines)


def source(name: str) -> str:
    """The CUDA C++ of one of the kernels, with its comment and the headers it includes."""
    if name not in NAMES:
        raise ValueError(f"name: expected one of {', '.join(NAMES)}; got {name!r}")
    return kernel_source(SOURCE, name, ("address.cuh", "barrier.cuh", "fence.cuh"))


def partials_in_the_sum() -> Question:
    """How many of the four warps' sums are in sum_row's result under the fair scheduler, in a first launch."""

    def truth() -> int:
        launch = Faulty("sum_row", 1)
        for warp in range(4):
            launch.x[0, 32 * warp : 32 * warp + 32] = 2.0 ** (8 * warp) / 32
        launch.run(scheduler="fair")
        return sum(bool(int(launch.out[0]) >> 8 * warp & 1) for warp in range(4))

    return Question(
        truth=truth,
        because="{truth}. The other warps had not written theirs when warp 0 read them; here the memory held zeros.",
        hint="Make x such that each warp's sum can be told: ones in one quarter, zeros elsewhere, four times over.",
        ideas=(
            (4, "Then the result would be right. Which sums had been written when warp 0 read them?"),
            (0, "Warp 0's own sum is written before it reads, by the same thread."),
        ),
    )


def first_wrong_length() -> Question:
    """The smallest number of rows with which mean_rows is wrong."""

    def truth() -> int:
        for n in range(1, 100):
            launch = Faulty("mean_rows", n)
            launch.run()
            if launch.error() > RIGHT:
                return n
        raise AssertionError("mean_rows is right")

    return Question(
        truth=truth,
        because=(
            "{truth}: the second tile has one row, and the other seven are still there from the first. Up to 8 rows "
            "the buffer happened to hold zeros, which is luck: a sanitizer calls it uninitialised_read."
        ),
        hint="Try them all: lab.Faulty('mean_rows', n), run() and error(), for n from 1 on.",
        ideas=(
            (1, "One row is added to zeros that happened to lie there. The result is right, by luck."),
            (3, "There the sanitizer has a finding, but the result is right, by luck: the memory held zeros."),
            (8, "Eight rows fill the tile: nothing is left over."),
            (12, "It is wrong there, but not for the first time."),
        ),
    )


def doubly_scaled() -> Question:
    """What lse_of returns for a scale of 1/2, one score of 40 and all others far below."""
    return Question(
        truth=lambda: 0.5 * (0.5 * 40.0),
        because="{truth}: the maximum is scaled when it is found and again when it is added. Right would be 20.",
        hint="The sum of the powers is 1, so its logarithm is 0. What is m, and what is added?",
        ideas=(
            (20, "That would be right. This kernel scales the maximum when it finds it, and then?"),
            (40, "The scale is ½ and it is used twice."),
            (80, "A scale of ½ makes less of 40, not more."),
        ),
    )


def lines_that_race() -> Question:
    """The lines of ring's two accesses that nothing orders: the read first."""

    def truth() -> list[int]:
        report = Faulty("ring", 9).run(sanitize=True)
        (finding,) = [each for each in report.findings if each.detector == "races"]
        assert finding.at and finding.other and finding.at.source and finding.other.source
        return sorted((finding.at.source[1], finding.other.source[1]), reverse=True)

    return Question(
        truth=truth,
        because="{truth}: the sums' warp says that the buffer is empty, and reads it afterwards.",
        hint="Faulty('ring', 9).run(sanitize=True).findings; each party's line stands after faulty.cu. The read is the "
        "later line.",
    )


def silent() -> Question:
    """The kernels of which no sanitizer reports anything, whatever the size."""

    def truth() -> set[str]:
        sizes = range(1, 20)
        return {name for name in NAMES if not any(Faulty(name, n).run(sanitize=True).findings for n in sizes)}

    return Question(
        truth=truth,
        because="{truth}: every access is in order; the formula is wrong. Only a reference can tell.",
        hint="Run each with sanitize=True and several sizes, from 1 on. mean_rows has a finding for some.",
        ideas=(
            ({"mean_rows"}, "With fewer than eight rows there is a finding: memory is read that was never written."),
            ({"ring"}, "The race detector has a finding: two lines that nothing orders."),
            ({"plus_one"}, "The findings above are of this kernel."),
            ({"sum_row"}, "The findings at the beginning are of this kernel."),
        ),
    )


@cache
def _means() -> tuple[tuple[Callable[[torch.Tensor], torch.Tensor], str], ...]:
    """Faulty means of rows, (n, width) to (width), with what each does wrong."""

    def stale(x: torch.Tensor) -> torch.Tensor:
        tile, total = torch.zeros(8, x.shape[1]), torch.zeros(x.shape[1])
        for first in range(0, len(x), 8):
            rows = x[first : first + 8]
            tile[: len(rows)] = rows
            total += tile.sum(0)
        return total / len(x)

    return (
        (stale, "rows of the tile before are added again when the last tile is not full"),
        (lambda x: x.sum(0) / (-(-len(x) // 8) * 8), "it divides by whole tiles"),
        (lambda x: x[: max(len(x) // 8 * 8, 1)].mean(0), "it leaves out a last tile that is not full"),
        (lambda x: x[:64].mean(0), "it stops after 64 rows"),
        (lambda x: x.abs().mean(0), "it loses the sign"),
        (lambda x: x.half().mean(0).float(), "it adds in half precision: three digits, and nothing beyond 65,504"),
        (lambda x: x.mean(0).nan_to_num(), "it hides NaN: a row with NaN has no mean"),
    )


@dataclass(frozen=True)
class TestQuestion:
    """A test to write: `passes(mean)` runs an implementation and says whether it is right."""

    __test__ = False

    def check(self, given: Any = ...) -> Verdict:
        """Judge a test by whom it lets pass."""
        if given is ...:
            return Verdict(None, "Write passes, then replace the ... by its name and run the cell again.")
        if not callable(given):
            return Verdict(False, "The answer is the function itself: passes, not what it returns.")
        try:
            if not given(lambda x: x.mean(0)):
                return Verdict(False, "It fails torch's own mean, which is right. Is it too strict? Float32 rounds.")
            if not given(lambda x: x.double().mean(0).float()):
                return Verdict(False, "It fails a mean computed in float64. Compare within a tolerance, NaN with NaN.")
            missed = [fault for mean, fault in _means() if given(mean)]
        except NotImplementedError:
            return Verdict(None, "passes is still to be written.")
        except Exception as error:  # the reader's code: whatever it raises is what to tell
            return Verdict(False, f"passes raised {type(error).__name__}: {error}")
        if missed:
            return Verdict(
                False, f"It lets {len(missed)} of {len(_means())} faulty kernels pass. One of them: {missed[0]}."
            )
        return Verdict(True, f"It lets two right kernels pass, and catches all {len(_means())} faulty ones.")


def a_test_of_mean() -> TestQuestion:
    """The exercise of writing a test."""
    return TestQuestion()


def mended(name: str) -> MendQuestion:
    """The exercise of mending a kernel, by its name."""
    if name not in NAMES:
        raise ValueError(f"name: expected one of {', '.join(NAMES)}; got {name!r}")
    sizes = {"lse_of": (0.1, 1.0, 60.0)}.get(name, (1.0, 8.0, 9.0, 21.0))
    return MendQuestion(
        name, {f"size {size:g}": size for size in sizes}, lambda size, seed, kernel: Faulty(name, size, seed, kernel)
    )
