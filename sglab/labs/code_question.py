"""A coding exercise of a notebook: a function, judged by what it returns on fresh random inputs."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .exercises.functions import first_difference, same_value, short
from .question import Verdict


@dataclass(frozen=True)
class CodeQuestion:
    """A function to write.

    Attributes:
        function: its name, for what the reader gets to read.
        cases: lists of arguments, from random numbers; the first ones should be the simplest.
        truth: the right function.
        because: what a right function gets to read.
        ideas: known wrong functions, each with what its author gets to read.
        tolerance: relative and absolute, of numbers that are not integers.
        shown: writes a result for the reader, such as a mask in hex.
        objection: what there is to say against a function whose results are all right, such as how much it builds;
            empty if nothing is.
    """

    function: str
    cases: Callable[[torch.Generator], list[list[Any]]]
    truth: Callable[..., Any]
    because: str
    ideas: tuple[tuple[Callable[..., Any], str], ...] = ()
    tolerance: float = 1e-5
    shown: Callable[[Any], str] = short
    objection: Callable[[Callable[..., Any]], str] = lambda function: ""

    def check(self, given: Any = ...) -> Verdict:
        """Judge a function; `...` means that there is none yet."""
        if given is ...:
            return Verdict(None, f"Write {self.function}, then replace the ... by its name and run the cell again.")
        if not callable(given):
            return Verdict(
                False, f"The answer is the function itself: {self.function}, not what it returns ({short(given)})."
            )
        random = torch.Generator()
        random.seed()
        cases = self.cases(random)
        truths = [arrays(self.truth(*deepcopy(case))) for case in cases]
        results: list[Any] = []
        for case in cases:
            try:
                results.append(arrays(given(*deepcopy(case))))
            except NotImplementedError:
                return Verdict(None, f"{self.function} is still to be written.")
            except Exception as error:  # the reader's code: whatever it raises is what to tell
                return Verdict(False, f"{self._call(case)} raised {type(error).__name__}: {error}")
        wrong = [i for i, (r, t) in enumerate(zip(results, truths, strict=True)) if not self._same(r, t)]
        if not wrong and (objection := self.objection(given)):
            return Verdict(False, f"All {len(cases)} cases are right. {objection}")
        if not wrong:
            return Verdict(True, f"{len(cases)} fresh random cases. {self.because}")
        first = wrong[0]
        told = f"{self._call(cases[first])} gave {self.shown(results[first])}; expected {self.shown(truths[first])}."
        told += first_difference(results[first], truths[first], self.tolerance)
        count = f"{len(cases) - len(wrong)} of {len(cases)} cases are right."
        return Verdict(False, " ".join(part for part in (self._idea(cases, results), count, told) if part))

    def _same(self, result: Any, truth: Any, nan: bool = False) -> bool:
        return same_value(result, truth, self.tolerance, nan)

    def _idea(self, cases: list[list[Any]], results: list[Any]) -> str:
        """What to say to the idea that explains every result."""
        for function, feedback in self.ideas:
            try:
                told = [arrays(function(*deepcopy(case))) for case in cases]
            except (ArithmeticError, LookupError, ValueError, TypeError, RuntimeError):
                continue
            if all(self._same(r, t, nan=True) for r, t in zip(results, told, strict=True)):
                return feedback
        return ""

    def _call(self, case: list[Any]) -> str:
        return f"{self.function}({', '.join(short(arrays(argument)) for argument in case)})"


def arrays(value: Any) -> Any:
    """Tensors as float64 or integer arrays and numbers, in lists and tuples, too."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        array = (value.double() if value.is_floating_point() else value).numpy()
        return array if array.ndim else array.item()
    if isinstance(value, np.ndarray):
        return value if value.ndim else value.item()
    if isinstance(value, (list, tuple)):
        return [arrays(item) for item in value]
    return value
