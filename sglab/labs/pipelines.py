"""Questions of notebook 10: mbarriers, a TMA pipeline, and what its faults do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.emulator.state import MBarrier
from sglab.events.log import MBARRIER, EventLog
from sglab.gpu import Kernel, KernelError, TensorMap
from sglab.kernels import ptx

from .code_question import CodeQuestion
from .question import Question

SCHEDULERS = ("fair", "random", "adversarial", "in_order")
COLUMNS, ROWS, KINDS, THREADS = 64, 32, ("full", "empty"), 160
TOLERANCE = 1e-3


@dataclass
class Pipeline:
    """A launch of the lesson kernel, csrc/kernels/lessons/tma_pipeline.cu, on fresh tensors: out = sum of x's rows.

    Attributes:
        variant: 1_stage, 2_stages, 4_stages, or a fault: no_wait, too_many_bytes, one_arrival, early_arrival.
    """

    variant: str = "2_stages"
    tiles: int = 10
    ctas: int = 1
    seed: int = 0
    x: torch.Tensor = field(init=False)
    out: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        self.x = torch.randn(self.ctas * self.tiles * ROWS, COLUMNS, generator=random)
        self.out = torch.zeros(COLUMNS)

    @property
    def kernel(self) -> Kernel:
        return ptx.module("tma_pipeline")[f"tma_pipeline_{self.variant}"]

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Returns the report, with findings if sanitize=True."""
        return self.kernel.launch(self._device(device), **self._arguments())

    def record(self, **device: Any) -> EventLog:
        """Launches and keeps every event."""
        return self.kernel.record(self._device(device), **self._arguments())

    def session(self, **device: Any) -> Session:
        """The launch, to be stepped."""
        return self.kernel.session(self._device(device), **self._arguments())

    def error(self) -> float:
        """How far `out` is from float64's sums, at worst."""
        return float((self.out - self.x.double().sum(0)).abs().max())

    def _device(self, options: dict[str, Any]) -> EmulatedDevice:
        return EmulatedDevice("sm_90a", **options)

    def _arguments(self) -> dict[str, Any]:
        self.out.zero_()
        args = [TensorMap(self.x, (ROWS, COLUMNS)), self.out, self.tiles]
        return {"grid": self.ctas, "block": THREADS, "args": args}


def barriers(session: Session) -> dict[str, MBarrier]:
    """The pipeline's mbarriers at this moment, by the names that the source gives them: "full[0]", "empty[0]", …"""
    found = sorted(session.mbarriers(), key=lambda barrier: barrier.offset)
    stages = len(found) // 2
    return {f"{KINDS[i // stages]}[{i % stages}]": barrier for i, barrier in enumerate(found)}


def arrivals() -> Question:
    """Arrivals that a phase of full and of empty takes."""

    def truth() -> list[int]:
        session = Pipeline().session()
        session.run_to(opcode="cp.async.bulk.tensor")
        now = barriers(session)
        return [now["full[0]"].expected, now["empty[0]"].expected]

    return Question(
        truth=truth,
        because="{truth}: one lane of the load warp, and one lane of each of the four sum warps.",
        hint="mbarrier_init takes the number. Or step past it: the second number under 'pending' in Barriers.",
        ideas=(
            ([4, 1], "The other way round: the load warp arrives at full, the sum warps at empty."),
            ([32, 128], "One lane arrives for its warp."),
            ([1, 128], "One lane arrives for each of the four sum warps."),
            ([1, 1], "Four warps read a tile, and each says when it is done."),
        ),
    )


def announced_bytes() -> Question:
    """The tx-count of full[0] right after the first arrive.expect_tx."""

    def truth() -> int:
        session = Pipeline().session()
        session.run_to(opcode="cp.async.bulk.tensor")
        return barriers(session)["full[0]"].tx_count

    return Question(
        truth=truth,
        because="{truth}: 32 rows of 64 floats. The phase ends when the arrival and all these bytes are there.",
        hint="A tile is 32 × 64 float32.",
        ideas=(
            (ROWS * COLUMNS, "So many numbers. A float32 has four bytes."),
            (0, "It is 0 before the announcement, and again when all has come."),
            (2 * ROWS * COLUMNS * 4, "That is two tiles. Each stage has a barrier of its own."),
        ),
    )


def parity_at_the_end(stages: int, tiles: int) -> Question:
    """The parity of full[0]'s phase when all tiles have passed."""

    def truth() -> int:
        log = Pipeline(f"{stages}_stages", tiles).record()
        first = log.barriers.object[log.barriers.kind == MBARRIER].min()  # full[0] is first
        return int(((log.phases.kind == MBARRIER) & (log.phases.object == first)).sum()) % 2

    return Question(
        truth=truth,
        because="{truth}: each phase flips it, and stage 0 has had every other tile.",
        hint="How many tiles went through stage 0? Each completed phase flips the parity, which starts at 0.",
        ideas=(
            (1 - -(-tiles // stages) % 2, "Count the tiles of stage 0 alone: each of them ended one phase."),
            (-(-tiles // stages), "So many phases have ended. A parity is the last bit of that number."),
        ),
    )


def tiles_ahead(stages: int) -> Question:
    """How many tiles the load warp has requested that no warp has finished reading, at most."""

    def truth() -> int:
        log = Pipeline(f"{stages}_stages", 16).record()
        ring = np.unique(log.barriers.object[log.barriers.kind == MBARRIER])
        freed = log.phases.position[(log.phases.kind == MBARRIER) & np.isin(log.phases.object, ring[stages:])]
        asked = np.sort(log.copies.event)
        return int((np.arange(1, len(asked) + 1) - np.searchsorted(np.sort(freed), asked)).max())

    return Question(
        truth=truth,
        because="{truth}: then it waits for the empty barrier of the stage that comes next.",
        hint="Where would the next tile go?",
        ideas=(
            (
                stages - 1,
                "All stages may be full at once: the loader waits for none of them before it has filled the last.",
            ),
            (stages + 1, "Where would one more lie? Every stage holds a tile that is not read."),
            (1, "That is what one stage allows."),
        ),
    )


def missing_arrivals() -> Question:
    """Arrivals that the empty barrier still lacks when one_arrival has stopped."""

    def truth() -> int:
        session = Pipeline("one_arrival").session()
        try:
            session.run()
        except KernelError:
            return barriers(session)["empty[0]"].pending
        raise AssertionError("one_arrival came to an end")

    return Question(
        truth=truth,
        because="{truth}: four were expected, one came.",
        hint="Run the widget's session into the deadlock and read 'pending'.",
        ideas=(
            (1, "One has come. How many has it waited for?"),
            (4, "So many it takes. One has come."),
            (0, "Then the phase would be over, and no thread would wait."),
        ),
    )


def wrong_under() -> Question:
    """The schedulers under which early_arrival gives wrong sums."""

    def truth() -> set[str]:
        lesson = Pipeline("early_arrival")

        def wrong(scheduler: str) -> bool:
            lesson.run(scheduler=scheduler)
            return lesson.error() > TOLERANCE

        return {scheduler for scheduler in SCHEDULERS if wrong(scheduler)}

    return Question(
        truth=truth,
        because="{truth}. Under the others nothing shows: a race that spares you is still a race.",
        hint="for s in lab.SCHEDULERS: early.run(scheduler=s); print(s, early.error()). Rounding leaves about 1e-6.",
        ideas=(
            (set(), "Under one of them at least the loader is quicker than the readers: look at the error of each."),
            (set(SCHEDULERS), "Look again at what fair gave above."),
            ({"fair"}, "Look again at what fair gave above."),
        ),
    )


def race_found() -> Question:
    """Whether a sanitizer finds early_arrival's race under the kind scheduler, where its result is right."""

    def truth() -> bool:
        return any(finding.detector == "races" for finding in Pipeline("early_arrival").run(sanitize=True).findings)

    return Question(
        truth=truth,
        because=(
            "{truth}: it does not look at results. It asks whether anything orders the read before the next copy into "
            "that stage, and nothing does."
        ),
        hint='print(lab.Pipeline("early_arrival").run(sanitize=True).findings)',
        ideas=(
            (False, "It does not look at the result: it asks whether anything orders the read before the next copy."),
        ),
    )


def waits_of_a_tile() -> CodeQuestion:
    """The exercise of writing waits(tile, stages): [stage, parity at empty, parity at full]."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        more = torch.randint(0, 40, (6,), generator=random).tolist()
        return [[0, 2], [1, 2], [2, 2], [5, 1], *([tile, 1 + i % 5] for i, tile in enumerate(more)), [11, 4]]

    def right(tile: int, stages: int) -> list[int]:
        turn = tile // stages & 1
        return [tile % stages, turn ^ 1, turn]

    return CodeQuestion(
        function="waits",
        cases=cases,
        truth=right,
        because="The same three numbers are in every producer and consumer of a ring; CUTLASS keeps them in a "
        "PipelineState.",
        ideas=(
            (
                lambda t, n: [t % n, t // n & 1, t // n & 1],
                "The load warp's first wait would be for a phase that has not "
                "begun: it hangs. It begins one parity ahead.",
            ),
            (
                lambda t, n: [t % n, t // n & 1, t // n & 1 ^ 1],
                "The two parities are swapped: it is the load warp that begins with 1.",
            ),
            (
                lambda t, n: [t % n, t & 1 ^ 1, t & 1],
                "The parity flips when a stage comes round again, not with every "
                "tile: it is the parity of tile // stages.",
            ),
            (lambda t, n: [t // n, t % n & 1 ^ 1, t % n & 1], "tile % stages is the stage, tile // stages the round."),
            (lambda t, n: [t % n, t // n ^ 1, t // n], "A parity is one bit of the round's number."),
            (lambda t, n: [t % n, 1 - t // n, t // n], "A parity is one bit of the round's number: 0 or 1."),
        ),
    )
