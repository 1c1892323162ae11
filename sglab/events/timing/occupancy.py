"""How many CTAs of a launch an SM of a GPU holds at once."""

from __future__ import annotations

import re
from math import prod

from sglab.events.columns import EventColumns
from sglab.events.timing.figures import Figures
from sglab.gpu.code import Code

_ANY = 16  # barriers that a CTA can name
# A use: the barrier, which `red` has after its result. A register that holds a number: its name and the number.
_BARRIER = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.(?:sync|arrive)\S*\s+(%?\w+)|\bbar\S*\.red\S*\s+%\w+\s*,\s*(%?\w+)")
_NUMBER = re.compile(r"\bmov\.\w+\s+(%\w+)\s*,\s*(\d+)\s*;")
_WRITTEN = re.compile(r"\s(%\w+)\s*,")


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
    texts = [code.text(line) for line, *_ in code.rows if line]
    uses = [found for text in texts if (found := _BARRIER.search(text))]
    if not uses:
        return 0
    numbers = {found[1]: int(found[2]) for text in texts if (found := _NUMBER.search(text))}
    written = [found[1] for text in texts if (found := _WRITTEN.search(text))]
    most = 0
    for use in uses:
        name = use[1] or use[2]
        if name.startswith("%"):
            if name not in numbers or written.count(name) != 1:
                return _ANY
            name = str(numbers[name])
        most = max(most, int(name, 0) + 1)
    return most
