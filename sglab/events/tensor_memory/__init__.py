"""Tensor memory over a recorded launch: who wrote and who read each cell, and when."""

from sglab.events.tensor_memory.cells import History, Touch
from sglab.events.tensor_memory.trace import TensorMemoryTrace
from sglab.events.tensor_memory.writes import TensorMatrix, TmemRun, cta_group, read_run, uses_tensor_memory

__all__ = [
    "History",
    "TensorMatrix",
    "TensorMemoryTrace",
    "TmemRun",
    "Touch",
    "cta_group",
    "read_run",
    "uses_tensor_memory",
]
