"""Recorders: what a run did, as columns, whatever machine ran it."""

from sglab.workbench.recorders.memory import ATOMIC, LOAD, STORE, MemoryTrace, Source, TracedTensor

__all__ = ["ATOMIC", "LOAD", "STORE", "MemoryTrace", "Source", "TracedTensor"]
