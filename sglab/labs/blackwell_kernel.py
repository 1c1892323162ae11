"""Notebook "Your own Blackwell kernel": Gluon kernels that the reader writes, and blackwell_tile (csrc/kernels/lessons)
whose descriptors and whose PTX the reader changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sglab.emulator import EmulatedDevice
from sglab.events.tables import TMEM_KINDS
from sglab.gpu import KernelError, TensorMap
from sglab.kernels import ptx
from sglab.stepping import KernelLaunch, step
from sglab.stepping import ptx as ptx_program

from .blackwell_product import AlongK, K, M, N, error, tensor_map
from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.events.timing import TimedLog

CUTS = {
    "fence_proxy_async": "fence.proxy.async.shared::cta;",
    "wait_ld": "tcgen05.wait::ld.sync.aligned;",
    "after_thread_sync": "tcgen05.fence::after_thread_sync;",
    "wait_loaded": "",
    "wait_done": "",
}
"""What can be taken out of blackwell_tile's PTX, by name. The waits are found by their barrier."""
_WAIT = re.compile(r"mbarrier\.try_wait\.parity\.shared::cta\.b64 done, \[[^]]*\], [^;]*;")


def busy(timed: TimedLog, unit: str) -> float:
    """The share of the modelled time in which SM 0's `unit` ("mma", "copy" …) was at work."""
    return float(np.diff(timed.busy(unit, sm=0)).sum() / timed.total_ns)


# ---- the product in CUDA and PTX ----


def layout(rows_apart: int = 1024, swizzle: int = 2) -> int:
    """A shared-memory descriptor of SM100 without its address.

    Args:
        rows_apart: bytes from eight rows to the next eight.
        swizzle: the code in bits 61-63: 0 none, 2 by 128 bytes, 4 by 64, 6 by 32.
    """
    return rows_apart // 16 << 32 | 1 << 46 | swizzle << 61


def instruction(m: int = M, n: int = N, bfloat16: bool = False) -> int:
    """tcgen05.mma's instruction descriptor for kind::f16: float32 sums of K-major operands."""
    return 1 << 4 | int(bfloat16) << 7 | int(bfloat16) << 10 | n // 8 << 17 | m // 16 << 24


@dataclass
class Tile:
    """A launch of blackwell_tile on fresh tensors: d (128, 64) = a (128, 64) · b (64, 64)ᵀ.

    Attributes:
        layout, instruction: the descriptors' bits.
        without: what to take out of its PTX, by name; see CUTS.
        text: other PTX to launch in its place.
    """

    layout: int = layout()
    instruction: int = instruction()
    without: str = ""
    text: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        self.a, self.b = (torch.randn(rows, K, generator=random).half() for rows in (M, N))
        self.d = torch.full((M, N), torch.nan)
        self.text = taken_out(self.text or ptx.text("blackwell_tile"), self.without)

    def step(self, **device: Any) -> KernelLaunch:
        """The launch, before its first instruction; `device` are options of EmulatedDevice."""
        self.d.fill_(torch.nan)
        on = EmulatedDevice("sm_100a", **{"sanitize": True, "max_instructions": 1_000_000, **device})
        args = (TensorMap(self.a, (M, K), swizzle=128), self.b, self.d, self.layout, self.instruction)
        launch = step(ptx_program(self.text, "blackwell_tile.ptx")[1, 128], *args, device=on)
        assert isinstance(launch, KernelLaunch)
        return launch

    def run(self, **device: Any) -> Any:
        """Launches with the sanitizers; returns the report."""
        return self.step(**device).run()

    def error(self) -> float:
        return error(self.d, self.a, self.b)


def taken_out(text: str, name: str) -> str:
    """PTX without one of CUTS. A wait that is taken out finds its phase over.

    Raises:
        ValueError: there is no such name.
    """
    if not name:
        return text
    if name not in CUTS:
        raise ValueError(f"without: expected one of {', '.join(CUTS)}; got {name!r}")
    if CUTS[name]:
        return text.replace(CUTS[name], "")
    wait = list(_WAIT.finditer(text))[("wait_loaded", "wait_done").index(name)]
    return text[: wait.start()] + "setp.eq.u32 done, 0, 0;" + text[wait.end() :]


def outcome(launch: Tile, **device: Any) -> str:
    """What came of a launch, in a line: its error and the kinds of findings, or how it failed."""
    try:
        found = launch.run(**device).findings
    except KernelError as failed:
        return str(failed).partition(" [kernel")[0].splitlines()[0]
    kinds = ", ".join(dict.fromkeys(finding.kind for finding in found)) or "nothing found"
    return f"error {launch.error():8.1e}; {kinds}"


# ---- questions ----


def place_of(load_tile: Any, row: int, column: int) -> Question:
    """Bytes from the tile's first to those of element [row, column], once TMA has brought it."""

    def truth() -> int:
        numbered = torch.arange(M * K, dtype=torch.int16).view(M, K)
        out = torch.zeros(M, K, dtype=torch.float16)
        session = step(load_tile[(1,)], tensor_map(numbered.view(torch.float16), M), out).session()
        session.run_to(opcode="ld.shared")
        first = int(session.log.copies.shared[0]) & 0xFFFFFF
        tile = session.shared(0)[first : first + 2 * M * K].copy().view(np.int16)
        return 2 * int(np.flatnonzero(tile == int(numbered[row, column]))[0])

    return Question(
        truth=truth,
        because="{truth}: the row begins at 128 · row; its 16-byte chunk c lies at place c xor (row mod 8).",
        hint="A row is 128 bytes, a chunk eight numbers. Which chunk is it, and where does the swizzle put it?",
        ideas=(
            (128 * row + 2 * column, "There it would lie without a swizzle. The row stays; where does its chunk go?"),
            (K * row + column, "So many numbers come before it without a swizzle. A number has two bytes."),
            (128 * row + (column // 8 ^ row % 8) * 8, "The chunk's place is right, but a chunk has 16 bytes."),
        ),
    )


def hangs(launch: KernelLaunch) -> Question:
    """Whether a launch does not end."""

    def truth() -> bool:
        try:
            launch.run()
        except KernelError as failed:
            return failed.fault is not None and failed.fault.kind in ("deadlock", "livelock")
        return False

    return Question(
        truth=truth,
        because="{truth}: the phase before the first counts as over, and its parity is 1. The wait waits for nothing, "
        "the threads read a tile that is not there, and the sanitizers say so.",
        hint="Which phase has parity 1 when none has ended yet? Notebook 10 has the rule. Or run it.",
        ideas=(
            (
                True,
                "Which phase has parity 1 when none has ended yet? The one before the first, and it counts as over.",
            ),
        ),
    )


def products(launch: KernelLaunch) -> Question:
    """How many tcgen05.mma a launch executes."""
    return Question(
        truth=lambda: len(launch.record().mmas.event),
        because="{truth}: one tcgen05.mma of float16 sums over 16, and K is 64. Between them both descriptors go on by "
        "32 bytes.",
        hint="How many columns of a and b does one tcgen05.mma sum over? 32 bytes of a row.",
        ideas=(
            (1, "That is the call. Each instruction sums over 32 bytes of a row, and a row has 64 numbers of two."),
        ),
    )


def readers_of_row(launch: KernelLaunch, row: int) -> Question:
    """The warps whose tcgen05.ld reads lane `row` of tensor memory."""

    def truth() -> set[int]:
        log = launch.record()
        table = log.tmem
        first = table.address >> 16
        reads = (table.kind == TMEM_KINDS.index("ld")) & (first <= row) & (row < first + table.lanes)
        return {int(warp) for warp in log.warp[table.event[reads]]}

    return Question(
        truth=truth,
        because="{truth}: a warp reaches the 32 lanes of its number modulo 4, so the two share the columns.",
        hint="A row of the accumulator is a lane. Lanes 96 to 127 belong to warps whose number modulo 4 is 3.",
        ideas=(
            ({row // 32}, "So it was with four warps. Which of the four new ones reaches the same lanes?"),
            ({row // 16}, "The warps do not divide the rows again: each reaches the 32 lanes of its number modulo 4."),
        ),
    )


def enough_stages(total_ns: Mapping[int, float], pays: float = 0.1) -> Question:
    """The number of stages beyond which no further one saves more than `pays` of the time."""

    def truth() -> int:
        counts = sorted(total_ns)
        saving = [n for n, more in pairwise(counts) if total_ns[more] < (1 - pays) * total_ns[n]]
        return saving[-1] + 1 if saving else counts[0]

    return Question(
        truth=truth,
        because="{truth}: from there on copies are under way most of the time, and what is left are the loop's own "
        "instructions, which four warps execute in step. Warp roles (notebook 12) take them apart.",
        hint="Divide each time by the one before it. Which is the last step that saves more than 10 %?",
        ideas=(
            (min(total_ns), "With one stage copies and products take turns. Does a second save less than 10 %?"),
            (max(total_ns), "Each saves a little. From which on is it less than 10 %?"),
        ),
    )


def tensor_core_share(launch: KernelLaunch) -> Question:
    """The share of the modelled time in which the tensor core multiplies."""
    return Question(
        truth=lambda: busy(launch.record().timed("sm_100"), "mma"),
        because="{truth:.3f}: load, product, softmax, product, in single file: whoever is at work, the others wait. "
        "Warp roles and two tiles in flight are what notebook 12's kernel adds.",
        hint="The timeline has one tensor core. For how much of the time is something drawn in its row? A share is "
        "between 0 and 1.",
        tolerance=0.03,
        ideas=(
            (1.0, "Look at its row in the timeline: most of the time nothing is drawn there."),
            (0.5, "Look at its row in the timeline: it is empty for far more than half of the time."),
        ),
    )


def found_without() -> Question:
    """The names of CUTS after which the sanitizers find something."""

    def truth() -> set[str]:
        return {name for name in CUTS if Tile(without=name).run().findings}

    return Question(
        truth=truth,
        because="{truth}. The one that is missing orders what an mbarrier orders already: the commit completes at it, "
        "and everybody waits for it.",
        hint="Take them out one by one; lab.outcome says what comes of it. Two orders can be the same order.",
        ideas=(
            (set(CUTS), "One of them orders what is ordered already. Which promise does another line make, too?"),
            (
                {name for name in CUTS if name.startswith("wait")},
                "These three make a thread wait. A fence makes one proxy see what another has written.",
            ),
        ),
    )


def instruction_descriptor() -> CodeQuestion:
    """The exercise of writing instruction(m, n, bfloat16)."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        drawn = [[64, 8, False], [128, 64, False], [128, 128, True]]
        for _ in range(5):
            n = 16 * int(torch.randint(1, 17, (), generator=random))
            drawn.append([64 * int(torch.randint(1, 3, (), generator=random)), n, bool(n % 32)])
        return drawn

    return CodeQuestion(
        function="instruction",
        cases=cases,
        truth=instruction,
        because="The same 32 bits go to every tcgen05.mma of this shape.",
        ideas=(
            (lambda m, n, bf: instruction(m, n, bf) & ~(1 << 4), "The sums are float32: bits 4-5 must say 1."),
            (lambda m, n, bf: instruction(m, n, bf) & ~(1 << 10), "a and b have a format each: bits 7-9 and 10-12."),
            (lambda m, n, bf: instruction(m, 8 * n, bf), "n stands there in units of 8."),
            (lambda m, n, bf: instruction(16 * m, n, bf), "m stands there in units of 16."),
            (lambda m, n, bf: instruction(m, n, not bf), "Format 0 is float16, 1 is bfloat16."),
        ),
    )


def along_k() -> AlongK:
    """The exercise of a product over any K."""
    return AlongK()
