"""Traces: what a run did, as columns, whatever machine ran it."""

from .memory import ATOMIC, LOAD, STORE, MemoryTrace, Source, TracedTensor

__all__ = ["ATOMIC", "LOAD", "STORE", "MemoryTrace", "Source", "TracedTensor"]
