"""How many CTAs of a launch an SM of a GPU holds at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from sglab.events.columns import EventColumns
from sglab.events.timing.figures import Figures
from sglab.gpu.code import Code

_ANY = 16  # barriers that a CTA can name


def occupancy(log: EventColumns, figures: Figures, registers: int) -> int:
    """CTAs per SM, by threads, shared memory, registers and named barriers; at least 1.

    Args:
        log: of the launch.
        figures: of the GPU.
        registers: 32-bit ones per thread.
    """
    geometry = log.geometry
    threads = -(-prod(geometry.block) // 32) * 32
    shared = geometry.smem + log.shared_bytes + 1024
    per_warp = -(-registers * 32 // 256) * 256
    limits = (
        figures["ctas"],
        figures["threads"] // threads,
        figures["shared"] // shared,
        figures["registers"] // per_warp // 4 * 4 // (threads // 32),
        figures["barriers"] // max(named_barriers(log.code), 1),
    )
    return max(1, int(min(limits)))


def named_barriers(code: Code) -> int:
    """How many ptxas reserves for a CTA: up to the highest that is named, or all 16 if it cannot know which.

    Args:
        code: the kernel's instructions.
    """
    uses: list[str] = []
    numbers: dict[str, str] = {}  # by register
    written: list[str] = []
    for opcode, operands in _instructions(code):
        place = _barrier_place(opcode)
        if place is not None:
            uses += operands[place : place + 1]
        elif len(operands) > 1 and operands[0].startswith("%"):
            written.append(operands[0])
            if opcode[0] == "mov":
                numbers[operands[0]] = operands[1]
    most = 0
    for name in uses:
        if name.startswith("%"):
            if written.count(name) != 1:
                return _ANY
            name = numbers.get(name, "")
        try:
            most = max(most, int(name, 0) + 1)
        except ValueError:
            return _ANY
    return most


def _instructions(code: Code) -> Iterator[tuple[list[str], list[str]]]:
    """The parts of each opcode, and the operands as they are written."""
    for line, opcode, *_ in code.rows:
        if line and opcode:
            written = code.text(line).partition(opcode)[2].partition(";")[0]
            yield opcode.split("."), [operand.strip() for operand in written.split(",")]


def _barrier_place(opcode: Sequence[str]) -> int | None:
    """Which operand names the barrier, which `red` has after its result; None: the instruction uses no named one."""
    if opcode[0] not in ("bar", "barrier") or "cluster" in opcode or "warp" in opcode:
        return None
    return 1 if "red" in opcode else 0
