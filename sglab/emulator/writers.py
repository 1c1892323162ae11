"""Which instructions write a register, by their text: its destination is the first operand."""

from __future__ import annotations

import re

GUARD = re.compile(r"^@!?%\w+\s+")
NO_DESTINATION = (
    *("st.", "red.", "bar.", "barrier.", "bra", "brx", "call", "ret", "exit", "trap", "nanosleep", "fence", "membar"),
    *("cp.", "prefetch", "discard", "applypriority", "tcgen05.st", "tcgen05.mma", "tcgen05.cp", "setmaxnreg"),
)


def writes(text: str, register: str) -> bool:
    """Whether a line of PTX writes a register, such as "%r12", alone or as one of {%r11, %r12} or %r12|%p1."""
    opcode, _, rest = GUARD.sub("", text.strip()).replace("\t", " ").partition(" ")
    if opcode.startswith(NO_DESTINATION):
        return False
    rest = rest.strip()
    first = rest[: rest.find("}")] if rest.startswith("{") else rest.split(",", 1)[0]
    return not first.startswith("[") and register in re.findall(r"%[A-Za-z_$][\w$]*", first)
