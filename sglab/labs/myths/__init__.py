"""Notebook "Myths": statements about LLM-serving attention, each tested by a run."""

from __future__ import annotations

from . import graphs, hardware, kernels, latent, numbers, pages, scores, splits
from .seen import Seen, keys_seen, seen, who_sees_whom
from .statement import Evidence, Statement

SUBJECTS = (hardware, latent, pages, scores, splits, kernels, graphs, numbers)

STATEMENTS: dict[str, Statement] = {
    thing.name: thing for subject in SUBJECTS for thing in vars(subject).values() if isinstance(thing, Statement)
}
"""All of them by name, in the notebook's order."""

__all__ = ["STATEMENTS", "SUBJECTS", "Evidence", "Seen", "Statement", "keys_seen", "seen", "who_sees_whom", *STATEMENTS]


def __getattr__(name: str) -> Statement:
    if name in STATEMENTS:
        return STATEMENTS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
