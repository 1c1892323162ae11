"""A statement that is true or false, what a run says about it, and what to tell those who believe it or do not."""

from __future__ import annotations

import functools
import html
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sglab.labs.question import Verdict

Found = tuple[bool, Mapping[str, object]]
"""Whether a statement holds, and what the test looked at, by name."""

Test = Callable[..., Found]


@dataclass(frozen=True)
class Evidence:
    """What a test found.

    Attributes:
        holds: whether the statement is true, as this run has it.
        found: what was looked at, and its value.
        code: the test's own source.
    """

    holds: bool
    found: Mapping[str, object]
    code: str = field(repr=False)

    def __str__(self) -> str:
        width = max(map(len, self.found))
        return "\n".join(f"{name:{width}}  {value}" for name, value in self.found.items())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align:left;padding:2px 16px 2px 0;white-space:normal">{html.escape(name)}</td>'
            f'<td style="text-align:left;white-space:normal;font-family:var(--jp-code-font-family, monospace)">'
            f"{html.escape(str(value))}</td></tr>"
            for name, value in self.found.items()
        )
        font = "font:var(--jp-code-font-size, 13px) var(--jp-code-font-family, monospace);overflow-x:auto"
        return (
            f'<table style="margin:0">{rows}</table><details><summary>the code of this test</summary>'
            f'<pre style="{font}">{html.escape(self.code)}</pre></details>'
        )


@dataclass(frozen=True)
class Option:
    """One answer: whether it calls the statement true, and what its author gets to read."""

    says: bool
    feedback: str


class Statement:
    """One statement with its test; made by `statement`.

    Attributes:
        name: of the function that tests it.
        claim: what is stated, as the notebook prints it.
        options: by letter, the answers that the notebook offers.
        right: the letter of the right one.
    """

    def __init__(self, test: Test, right: str, options: Mapping[str, Option]) -> None:
        self._test = test
        self.name = test.__name__
        self.claim = " ".join((inspect.getdoc(test) or "").split())
        self.options, self.right = dict(options), right

    def test(self, *args: Any, **changed: Any) -> Evidence:
        """Runs the test, with other values where you give some."""
        holds, found = self._test(*args, **changed)
        return Evidence(holds, found, self.code())

    def code(self) -> str:
        """The test's source, without what the notebook says in words."""
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(self._test)))
        body = re.sub(r"\A.*?(?=^def )", "", source, count=1, flags=re.DOTALL | re.MULTILINE)
        return re.sub(r'\n    """.*?"""(?=\n)', "", body, count=1, flags=re.DOTALL)

    @functools.cached_property
    def evidence(self) -> Evidence:
        """The test's outcome with its own values."""
        return self.test()

    def check(self, given: Any = ...) -> Verdict:
        """Judges a letter; `...` means that there is no answer yet. The run decides: an answer is right if it agrees
        with what the test finds now, and gives the reason."""
        if given is ...:
            return Verdict(None, f"Replace the ... by {_listed(self.options)} in quotes and run the cell again.")
        if isinstance(given, bool):
            return Verdict(False, f"The why counts, too: answer {_listed(self.options)}, in quotes.")
        letter = given.strip().lower() if isinstance(given, str) else ""
        if letter not in self.options:
            return Verdict(False, f"The answer is {_listed(self.options)}, in quotes; this is {given!r}.")
        chosen = self.options[letter]
        right = chosen.says == self.evidence.holds and letter == self.right
        return Verdict(right, chosen.feedback)


def statement(right: str, **options: tuple[bool, str]) -> Callable[[Test], Statement]:
    """Makes a Statement of a test, whose docstring is the claim.

    Args:
        right: the letter of the right answer.
        options: by letter, whether that answer calls the claim true, and its feedback.
    """
    return lambda test: Statement(test, right, {letter: Option(*option) for letter, option in options.items()})


def _listed(letters: Mapping[str, Option]) -> str:
    *first, last = (f'"{letter}"' for letter in letters)
    return f"{', '.join(first)} or {last}"
