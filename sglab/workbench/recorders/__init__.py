"""Recorders: what a run did, as columns, on any machine."""

from sglab.workbench.recorders.memory import ATOMIC, LOAD, STORE, MemoryTrace, Source, TracedTensor

__all__ = ["ATOMIC", "LOAD", "STORE", "MemoryTrace", "Source", "TracedTensor"]
