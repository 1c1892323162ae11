"""Which of shared memory's 32 banks a warp's access uses, and how many passes it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BANKS, BANK_BYTES, LANES = 32, 4, 32


@dataclass(frozen=True)
class BankUse:
    """One access of a warp.

    Attributes:
        phases: its parts that are served one after the other, each as lists of lanes: 4 bytes a lane are one phase, 8
            bytes one per half warp, 16 bytes one per quarter.
        passes: through the banks: per phase, as many as the busiest bank has different words to deliver.
        least: passes without conflicts: one per phase.
    """

    phases: tuple[tuple[int, ...], ...]
    passes: int
    least: int


def phase_of(lane: int, nbytes: int) -> int:
    """In which phase of an access of `nbytes` per lane a lane is served."""
    return lane // (8 if nbytes >= 16 else 16 if nbytes == 8 else 32)


def bank_use(addresses: Sequence[int], nbytes: int) -> BankUse:
    """The bank conflicts of one access.

    Args:
        addresses: byte addresses, by lane; fewer than 32: the other lanes do nothing.
        nbytes: per lane: at most 16.

    Raises:
        ValueError: more than 32 addresses, or more than 16 bytes.
    """
    if len(addresses) > LANES:
        raise ValueError(f"addresses: expected at most {LANES}, one per lane, got {len(addresses)}")
    if not 1 <= nbytes <= 16:
        raise ValueError(f"nbytes: expected 1 to 16 bytes per lane, got {nbytes}")
    phases: dict[int, list[int]] = {}
    for lane in range(len(addresses)):
        phases.setdefault(phase_of(lane, nbytes), []).append(lane)
    passes = sum(_passes([addresses[lane] for lane in lanes], nbytes) for lanes in phases.values())
    return BankUse(tuple(map(tuple, phases.values())), passes, len(phases))


def _passes(addresses: list[int], nbytes: int) -> int:
    words = {word for at in addresses for word in range(at // BANK_BYTES, (at + nbytes - 1) // BANK_BYTES + 1)}
    busy = [0] * BANKS
    for word in words:
        busy[word % BANKS] += 1
    return max(busy, default=0)
