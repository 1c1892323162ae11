"""What the sanitizers of an emulated launch have found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sglab.gpu.code import Instruction


@dataclass(frozen=True)
class Party:
    """A party to a finding.

    Attributes:
        cta: along x, y, z.
        warp: in the CTA.
        lanes: a mask, 0 where no lane in particular is meant.
        instruction: None where no instruction in particular is meant.
        position: warp-instructions of the launch executed before.
        asynchronous: not the instruction itself but the operation that it had issued (a TMA copy, an MMA).
        role: what the warp does in the launch (Role.name), where warps have different roles.
    """

    cta: tuple[int, int, int]
    warp: int
    lanes: int
    instruction: Instruction | None
    position: int
    asynchronous: bool = False
    role: str = ""

    @property
    def ptx_line(self) -> int:
        """0 where no instruction is meant."""
        return self.instruction.ptx_line if self.instruction else 0

    @property
    def source(self) -> tuple[str, int] | None:
        """File and line, if the PTX was compiled with line information."""
        return self.instruction.source if self.instruction else None

    def __str__(self) -> str:
        who = f"CTA {self.cta} warp {self.warp}" + (f" ({self.role})" if self.role else "")
        who += f" {_lanes(self.lanes)}" if self.lanes else ""
        if self.instruction is None:
            return who
        what = "the operation issued at " if self.asynchronous else "at "
        source = "".join(f", {place}" for place in self.instruction.places)
        return f"{who}, {what}PTX line {self.ptx_line} `{_short(self.instruction.text)}`{source}"


@dataclass(frozen=True, repr=False)
class Finding:
    """One thing that is wrong with a launch. The same kind at the same instructions is one finding.

    Attributes:
        detector: memory, races, tensor or barriers; launch for a fault that ended the launch.
        kind: a word that programs can test, such as uninitialised_read.
        message: what is wrong.
        severity: error, or warning for what is legal but hardly meant.
        at: who did it, the first time; None for a fault that belongs to none in particular.
        other, other_did: the other party, such as the writer in a race, and what it did.
        space, address, nbytes: the memory in question; shared: rank of the CTA << 24 | offset; tensor: rank << 32 |
            lane << 16 | column.
        barrier: the name of the mbarrier in question, where it has one.
        count: how often it happened.
        position: warp-instructions of the launch executed when it was found first.
    """

    detector: str
    kind: str
    message: str
    severity: str
    kernel: str
    at: Party | None
    other: Party | None
    other_did: str
    space: str
    address: int
    nbytes: int
    count: int
    position: int
    barrier: str = ""

    @property
    def warp(self) -> int:
        """-1 for a fault that is no warp's in particular."""
        return self.at.warp if self.at else -1

    @property
    def ptx_line(self) -> int:
        return self.at.ptx_line if self.at else 0

    @property
    def source(self) -> tuple[str, int] | None:
        return self.at.source if self.at else None

    def __str__(self) -> str:
        parts = [f"{self.severity}: {self.kind}: {self.message}"]
        if self.at is not None:
            parts.append(f"  {self.at}")
        if self.other is not None:
            parts.append(f"  {self.other_did}: {self.other}" if self.other_did else f"  other party: {self.other}")
        if self.count > 1:
            parts.append(f"  {self.count} times")
        return "\n".join(parts)

    def __repr__(self) -> str:
        """Short, for a list of them; `str` has the sentences."""
        if self.at is None:
            return f"<{self.severity} {self.kind}>"
        where = self.at.instruction.places[:1] if self.at.instruction else []
        lanes = f" {_lanes(self.at.lanes)}" if self.at.lanes else ""
        place = "".join(f", {each}" for each in where or ([f"PTX line {self.ptx_line}"] if self.ptx_line else []))
        return f"<{self.severity} {self.kind}: CTA {self.at.cta} warp {self.at.warp}{lanes}{place}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """In a notebook, where a cell ends with `launch.run().findings`: the sentences, not the fields."""
        for number, line in enumerate(str(self).split("\n")):
            if number:
                printer.break_()
            printer.text(line)


def _short(text: str) -> str:
    """PTX with its long register lists cut."""
    return re.sub(r"\{([^{},]+)(?:,[^{},]+){7,},([^{},]+)\}", r"{\1, …, \2}", text)


def _lanes(mask: int) -> str:
    """ "lane 3", "lanes 0-15, 31"."""
    runs: list[list[int]] = []
    for lane in (lane for lane in range(32) if mask >> lane & 1):
        if runs and runs[-1][1] == lane - 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return ("lane " if mask.bit_count() == 1 else "lanes ") + text
