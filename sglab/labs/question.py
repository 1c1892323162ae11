"""A question about live objects: the right answer is computed from them when the reader answers, never stored."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """What became of an answer. `right` is None while there is no answer (`...`)."""

    right: bool | None
    text: str

    def __str__(self) -> str:
        word = {True: "Right.", False: "Not yet.", None: "Your turn."}[self.right]
        return f"{word} {self.text}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        colour, sign, word = {
            True: ("var(--jp-success-color1, #2e7d32)", "✓", "Right."),
            False: ("var(--jp-warn-color1, #b45309)", "△", "Not yet."),
            None: ("var(--jp-info-color1, #1565c0)", "?", "Your turn."),
        }[self.right]
        return (
            f'<div style="border-left:4px solid {colour};padding:6px 12px;margin:4px 0;'
            'font-family:var(--jp-ui-font-family, sans-serif)">'
            f"<strong>{sign} {word}</strong> {html.escape(self.text)}</div>"
        )


@dataclass(frozen=True)
class Question:
    """One question with the means to judge an answer.

    Attributes:
        truth: computes the right answer from live objects.
        because: what a right answer gets to read; `{truth}` is replaced by the answer.
        hint: what a wrong answer gets to read.
        tolerance: relative error allowed for numbers that are not integers.
        ideas: answers that known wrong ideas lead to, each with what its author gets to read instead of the hint.
        exact: texts are compared letter by letter, spaces and case included: for an answer that is a piece of text.
    """

    truth: Callable[[], Any]
    because: str
    hint: str
    tolerance: float = 0.01
    ideas: tuple[tuple[Any, str], ...] = ()
    exact: bool = False
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def answer(self) -> Any:
        """The right answer, for those who gave up."""
        if "truth" not in self._cache:
            self._cache["found"] = found = self.truth()
            self._cache["truth"] = plain(found)
        return self._cache["truth"]

    def _shown(self) -> Any:
        """The right answer as a reader would write it: a set in braces, in order; four digits of a list's numbers."""
        truth = self.answer()
        if not isinstance(truth, list):
            return truth
        items = ", ".join(f"{item:.4g}" if isinstance(item, float) else repr(item) for item in truth)
        return f"{{{items}}}" if isinstance(self._cache["found"], (set, frozenset)) else f"[{items}]"

    def check(self, given: Any = ...) -> Verdict:
        """Judge `given`; `...` means that there is no answer yet."""
        if given is ...:
            return Verdict(None, "Replace the ... by your answer and run the cell again.")
        if given is None:
            return Verdict(None, "Your answer is None: the expression after answer = gives no value.")
        truth, answer = self.answer(), plain(given)
        if same(answer, truth, self.tolerance, self.exact):
            return Verdict(True, self.because.format(truth=self._shown()))
        for idea, feedback in self.ideas:
            if same(answer, plain(idea), self.tolerance, self.exact):
                return Verdict(False, feedback)
        wanted, came = (
            form(self._cache["found"]) or form(truth),
            form(given if isinstance(given, (set, frozenset)) else answer),
        )
        if not wanted or form(answer) in (form(truth), "a list"):
            return Verdict(False, self.hint)
        return Verdict(
            False, f"The answer is {wanted}; this is {came or f'of type {type(given).__name__}'}. {self.hint}"
        )


def plain(value: Any) -> Any:
    """Tensors, arrays and their scalars as Python numbers and lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, set, frozenset)):
        return value
    items = [plain(item) for item in value]
    return sorted(items, key=_order) if isinstance(value, (set, frozenset)) else items


def _order(item: Any) -> tuple[str, Any]:
    """Sorts what a set holds; texts that `same_text` takes for equal come to the same place."""
    return str(type(item)), re.sub(r"[\s,_-]", "", item).lower() if isinstance(item, str) else item


def form(value: Any) -> str:
    """What kind of answer this is, as a reader would say it; empty for what is none. A list's length stays open."""
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, Real):
        return "a number"
    if isinstance(value, str):
        return "a text in quotes"
    if isinstance(value, (set, frozenset)):
        return form(plain(value)).replace("list", "set", 1)
    if not isinstance(value, list):
        return ""
    kinds = {form(item) for item in value}
    inside = {"a number": "numbers", "a text in quotes": "texts in quotes", "True or False": "True and False"}
    return f"a list of {inside.get(kinds.pop(), 'lists')}" if len(kinds) == 1 else "a list"


def sentence(text: str) -> str:
    """A finding's or an error's message as a sentence that another may follow."""
    text = f"{text} them" if text.endswith(" between") else text
    return text if text.endswith((".", "!", "?")) else f"{text}."


def same(given: Any, truth: Any, tolerance: float, exact: bool = False) -> bool:
    """Equal: text by its words (see `same_text`), letter by letter if `exact`; integers exactly, other numbers within
    `tolerance`; lists item by item."""
    if isinstance(truth, list):
        if not isinstance(given, list) or len(given) != len(truth):
            return False
        return all(same(one, other, tolerance, exact) for one, other in zip(given, truth, strict=True))
    if isinstance(truth, str):
        return isinstance(given, str) and (given == truth if exact else same_text(given, truth))
    if isinstance(truth, bool) or isinstance(given, bool):
        return given is truth
    if isinstance(truth, float) and isinstance(given, Real):
        return math.isclose(float(given), truth, rel_tol=tolerance) or (math.isnan(float(given)) and math.isnan(truth))
    return bool(given == truth)


def same_text(given: str, truth: str) -> bool:
    """Whether two texts say the same words in the same order; case does not matter.

    Words stay apart: where `truth` has a space or a comma, `given` has spaces, commas, `_` or `-`, however many. The
    parts of one name ("flash_mla", "FlashMLA") may be written with any of them or none, as widgets and code do.
    """
    words = [_PARTS.findall(word) for word in re.split(r"[\s,]+", truth.strip(" ,"))]
    pattern = r"[\s,_-]+".join(r"[\s_-]*".join(re.escape(part) for part in parts if part) for parts in words)
    return re.fullmatch(rf"[\s,]*{pattern}[\s,]*", given, re.IGNORECASE) is not None


_PARTS = re.compile(r"[A-Z]*[^\s,_A-Z-]*")
"""A name's parts: they end at `_`, at `-`, and before a capital in the middle."""
