"""From which lane a `shfl.sync` takes the value that another gets."""

from __future__ import annotations

from sglab.emulator.state import Register


def shuffled(text: str, registers: dict[str, Register], lane: int) -> tuple[str, int] | None:
    """The register that a shuffle gives, and the lane that a lane takes it from; None if it is no register.

    Args:
        text: of the instruction.
        registers: before it was executed.
        lane: that takes.
    """
    mode = text.split("shfl.sync.", 1)[1].split(".", 1)[0]
    operands = [each.strip().rstrip(";") for each in text.split(",")]
    name = operands[1]
    if name not in registers:
        return None
    step, control = (_number(each, registers, lane) for each in operands[2:4])
    segment, clamp, step = control >> 8 & 31, control & 31, step & 31
    least, most = lane & segment, (lane & segment) | (clamp & ~segment & 31)
    source = {"up": lane - step, "down": lane + step, "bfly": lane ^ step, "idx": least | (step & ~segment & 31)}[mode]
    inside = source >= most if mode == "up" else source <= most
    return name, source if inside else lane


def _number(operand: str, registers: dict[str, Register], lane: int) -> int:
    return int(registers[operand].values[lane]) if operand in registers else int(operand, 0)
