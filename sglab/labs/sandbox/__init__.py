"""Processes for code that is not trusted: limits, what runs inside, and what comes back."""

from .limits import COMPILING, EMULATING, LAUNCHING, Limits
from .sandbox import CALLS, Bench, Ended, OpenBench, Sandbox, SandboxError

__all__ = [
    "CALLS",
    "COMPILING",
    "EMULATING",
    "LAUNCHING",
    "Bench",
    "Ended",
    "Limits",
    "OpenBench",
    "Sandbox",
    "SandboxError",
]
