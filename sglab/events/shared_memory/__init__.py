"""A CTA's shared memory in a recorded launch: who touches which bytes, and the shapes that they have."""

from sglab.events.shared_memory.elements import ElementSpan, Extent, element_spans
from sglab.events.shared_memory.reads import KINDS, SWIZZLES, SmemRun, read_run
from sglab.events.shared_memory.tiles import Area, SharedTile, element_bits, window_areas
from sglab.events.shared_memory.trace import SharedMemoryTrace

__all__ = [
    "KINDS",
    "SWIZZLES",
    "Area",
    "ElementSpan",
    "Extent",
    "SharedMemoryTrace",
    "SharedTile",
    "SmemRun",
    "element_bits",
    "element_spans",
    "read_run",
    "window_areas",
]
