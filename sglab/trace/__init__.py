"""Traces: what a run did, as columns, whatever machine ran it.

`sglab.trace(batch, backend=...)` runs a backend and returns the kernel launches that it made; see `trace`.
"""

import sys
from types import ModuleType
from typing import Any

from .memory import ATOMIC, LOAD, STORE, MemoryTrace, Source, TracedTensor

__all__ = ["ATOMIC", "LOAD", "STORE", "MemoryTrace", "Source", "TracedTensor"]


class _Trace(ModuleType):
    """This package, which can be called as well."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from .launches import trace

        return trace(*arguments, **options)


sys.modules[__name__].__class__ = _Trace
