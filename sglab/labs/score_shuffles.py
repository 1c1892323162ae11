"""compute_qk's lanes: which dims of which head each holds, and how xor shuffles sum them, read from a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sglab.emulator.session import Session

from .code_question import CodeQuestion
from .debugging import DIM, WARP, Decode
from .decode_block import Mapping
from .question import Question

Floats = npt.NDArray[np.float32]
_SHUFFLE = re.compile(r"(%\w+)\|%\w+,\s*(%\w+),\s*(%\w+|\d+)")


@dataclass(frozen=True)
class Round:
    """One shuffle of a warp, as its registers have it.

    Attributes:
        event: its number in the launch's event log.
        distance: lane l gets what lane l ^ distance sends.
        sent, received, sum: float32 [32], by lane; `sum` after the addition that follows.
    """

    event: int
    distance: int
    sent: Floats
    received: Floats
    sum: Floats

    @property
    def partner(self) -> npt.NDArray[np.int64]:
        """From which lane each value came, int64 [32]: found among the values that were sent; where several lanes sent
        the same, the one at `distance`."""
        lanes = np.arange(WARP)
        found = np.array([np.flatnonzero(self.sent == value)[0] for value in self.received])
        stated = lanes ^ self.distance
        return np.where(self.sent[stated] == self.received, stated, found)

    @property
    def sums(self) -> int:
        """Different sums among the lanes."""
        return len(np.unique(self.sum))


class ScoreShuffles:
    """The shuffles by which a warp gets the score of its row's first key, in `Decode`'s launch.

    Args:
        group: query heads that share the KV head: 1, 4 or 8.
        warp: of the first CTA.

    Attributes:
        mapping: FlashInfer's block of threads.
        rounds: in order; log2(bdx) of them.
    """

    def __init__(self, group: int = 4, warp: int = 0, seed: int = 0) -> None:
        self.lesson, self.mapping, self.warp = Decode(group=group, seed=seed), Mapping.of(DIM, group), warp
        session = self.lesson.session()
        count = int(np.log2(self.mapping.bdx))
        self.rounds = tuple(_next_round(session, warp) for _ in range(count))

    def place(self, lane: int) -> tuple[int, int, int]:
        """(x, y, z) of a lane."""
        return self.mapping.place(WARP * self.warp + lane)

    def token(self, lane: int) -> int:
        """The key whose score a lane works on first: its row z's first."""
        keys = 4 if self.mapping.bdy == 1 else 1
        return self.place(lane)[2] * self.mapping.bdy * keys

    def part(self, lane: int) -> float:
        """A lane's part of the score in float64, from the tensors: its vec dims of q times those of the key, scaled and
        in base 2."""
        x, y, _ = self.place(lane)
        dims = slice(x * self.mapping.vec, (x + 1) * self.mapping.vec)
        page, row = divmod(self.token(lane), self.lesson.k.shape[1])
        key = self.lesson.k[self.lesson.kv_indices[page].long(), row, 0, dims].double()
        return float(key @ self.lesson.q[0, y, dims].double()) * DIM**-0.5 * float(np.log2(np.e))

    def score(self, lane: int) -> float:
        """q · k of a lane's head and key in float64, scaled and in base 2."""
        return float(self.lesson.scores(0, self.place(lane)[1])[self.token(lane)])

    def table(self) -> str:
        """Lanes with their dims, what they hold before and after each round, and float64's score."""
        steps = "".join(f"{'^ ' + str(each.distance):>9}" for each in self.rounds)
        lines = [f"{'lane':>4}{'(x, y, z)':>13}{'dims':>11}{'part':>9}{steps}{'float64':>9}"]
        for lane in range(WARP):
            x = self.place(lane)[0]
            dims = f"{x * self.mapping.vec} … {(x + 1) * self.mapping.vec - 1}"
            sums = "".join(f"{each.sum[lane]:>9.3f}" for each in self.rounds)
            first = f"{self.rounds[0].sent[lane]:>9.3f}"
            lines.append(f"{lane:>4}{self.place(lane)!s:>13}{dims:>11}{first}{sums}{self.score(lane):>9.3f}")
        counts = ", ".join(f"{each.sums} after ^ {each.distance}" for each in self.rounds)
        return "\n".join([*lines, f"different sums among {WARP} lanes: {counts}"])


def _next_round(session: Session, warp: int) -> Round:
    """Runs to the warp's next xor shuffle, over it, and over the addition of what it brought."""
    stop = session.run_to(opcode="shfl.sync.bfly", warp=warp)
    assert stop.at is not None
    match = _SHUFFLE.search(stop.at.instruction.text)
    assert match, stop.at.instruction.text
    event, before = session.now, session.registers(warp)
    distance = match[3] if match[3].isdecimal() else str(before[match[3]].values.view(np.int32)[0])
    sent = before[match[2]].values.view(np.float32).copy()
    session.step(warp=warp)
    received = session.registers(warp)[match[1]].values.view(np.float32).copy()
    stop = session.run_to(opcode="add.f32", warp=warp)
    assert stop.at is not None
    register = stop.at.instruction.text.split()[1].rstrip(",")
    session.step(warp=warp)
    return Round(event, int(distance), sent, received, session.registers(warp)[register].values.view(np.float32).copy())


def sums_without(distance: int) -> Question:
    """Different values among a warp's lanes at the end, if the round over `distance` were left out."""

    def truth() -> int:
        rounds = ScoreShuffles().rounds
        held, lanes = rounds[0].sent.astype(np.float64), np.arange(WARP)
        for each in rounds:
            if each.distance != distance:
                held = held + held[lanes ^ each.distance]
        return len(np.unique(held.round(9)))

    return Question(
        truth=truth,
        because="{truth}: in each of the two heads, lanes that differ in that bit never hear of each other; two sums "
        "are left there, not one.",
        hint="Each round halves the number of different sums. With all four rounds a head is left with one.",
        ideas=((2, "That is with all four rounds."), (16, "Only that one round is left out, the others still run.")),
    )


def sum_over_lanes() -> CodeQuestion:
    """The exercise of writing total(parts, width): xor shuffles within groups of `width` lanes."""
    lanes = torch.arange(WARP)

    def cases(random: torch.Generator) -> list[list[Any]]:
        seed = int(torch.randint(1000, (), generator=random))
        live = torch.from_numpy(ScoreShuffles(seed=seed).rounds[0].sent.copy()).double()  # out of a warp's registers
        drawn = [[torch.randn(WARP, generator=random).double(), width] for width in (2, 8, 4)]
        return [[live, 16], *drawn]

    def shuffled(parts: torch.Tensor, distances: list[int], other: Callable[[int], torch.Tensor]) -> torch.Tensor:
        for distance in distances:
            parts = parts + parts[other(distance)]
        return parts

    def halves(width: int) -> list[int]:
        return [1 << i for i in reversed(range(width.bit_length() - 1))]

    def swap(distance: int) -> torch.Tensor:
        return lanes ^ distance

    return CodeQuestion(
        function="total",
        cases=cases,
        truth=lambda parts, width: parts.view(-1, width).sum(1).repeat_interleave(width),
        because="One of the cases was the registers of the kernel's warp 0 before its first shuffle.",
        ideas=(
            (
                lambda p, w: shuffled(p, halves(w), lambda d: (lanes + d) % WARP),
                "Every lane takes from the lane above, "
                "and the last ones from the next group. With xor partners swap, and stay in their group.",
            ),
            (
                lambda p, w: shuffled(p, halves(w), lambda d: (lanes + d).clamp(max=WARP - 1)),
                "That is a shuffle down: "
                "the first lane of a group may be right, the others are not. Take lane ^ distance.",
            ),
            (lambda p, w: shuffled(p, halves(WARP), swap), "All 32 lanes are summed: begin at width / 2."),
            (lambda p, w: shuffled(p, halves(w)[:-1], swap), "One round is missing: the last distance is 1."),
            (
                lambda p, w: shuffled(p, [w, *halves(w)], swap),
                "The first distance is width / 2: lanes that are width apart belong to another group.",
            ),
        ),
    )
