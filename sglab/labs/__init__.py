"""Exercises whose answers check themselves."""

from .question import Question, Verdict

__all__ = ["Question", "Verdict"]
