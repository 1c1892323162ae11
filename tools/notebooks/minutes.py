"""How long a notebook takes: counted, the same way for all.

Nobody has timed a class. A student reads prose at 150 words and code at 12 lines a minute, and takes for each thing to
do what stands below; hints are not counted. A notebook's parts that may be left out begin with a heading
*Further: …*; a notebook that is meant for several sittings divides them by headings *Sitting 1: …*. Each says its own
minutes, and the tests hold them to what is counted here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WORDS_PER_MINUTE = 150
LINES_PER_MINUTE = 12
QUESTION = 1.5
CHOICE = 0.5
"""A letter to choose among answers whose words are counted already."""
EXERCISE = 6.0
FIGURE = 1.0
WIDGET = 2.0
DEBUGGER = 4.0

_HINT = re.compile(r"<details><summary>Hint.*?</details>", re.DOTALL)
_OPTIONAL = re.compile(r"^#+ Further: ")
_SITTING = re.compile(r"^#+ Sitting \d+: ")
_DEBUGGERS = ("sglab.widgets.KernelDebugger(", "launch")
_WIDGETS = ("sglab.widgets.", "tree.page_table(")


@dataclass
class Part:
    """What is read in one go, or left out: the core (title ""), a further part, a sitting."""

    title: str
    optional: bool
    minutes: float = 0.0
    stated: int | None = None

    @property
    def rounded(self) -> int:
        """To five minutes, as it is said to students; short parts to the minute."""
        return max(1, round(self.minutes)) if self.optional else 5 * round(self.minutes / 5)


def parts(notebook: Any) -> list[Part]:
    """The parts of a notebook (nbformat's), in their order: the core, or the first sitting, first.

    A section after a *Further* one, of the same level or higher, belongs to the core (or the sitting) again.
    """
    found = [Part("", optional=False)]
    main = at = found[0]
    level = 0
    choices = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            at.minutes += _of_code(cell.source, choices)
            continue
        choices = "- **a** " in cell.source
        for block in re.split(r"^(?=#+ )", cell.source, flags=re.MULTILINE):
            heading = block.partition("\n")[0] if block.startswith("#") else ""
            depth = len(heading) - len(heading.lstrip("#"))
            if _OPTIONAL.match(heading) or _SITTING.match(heading):
                at = Part(heading.lstrip("# "), optional=bool(_OPTIONAL.match(heading)))
                found.append(at)
                level = depth
                if not at.optional:
                    main = at
            elif heading and at.optional and depth <= level:
                at = main
            at.minutes += _of_prose(block)
            if at.stated is None:
                at.stated = _stated(block)
    sittings = [part for part in found if part.title and not part.optional]
    if sittings:  # what comes before is read in the first
        sittings[0].minutes += found.pop(0).minutes
    return found


def _stated(text: str) -> int | None:
    said = re.search(r"[Aa]bout (\d+) minutes?", text)
    return int(said[1]) if said else None


def _of_prose(text: str) -> float:
    figures, exercises = text.count("](attachment:"), len(re.findall(r"\*\*Exercise", text))
    read = re.sub(r"\$[^$]*\$", " x ", re.sub(r"\]\([^)]*\)", "]", _HINT.sub("", text)))
    # an exercise is answered by a cell of its own, counted there as a question
    return len(re.findall(r"\w+", read)) / WORDS_PER_MINUTE + figures * FIGURE + exercises * (EXERCISE - QUESTION)


def _of_code(source: str, choices: bool) -> float:
    if "answer = ..." in source:
        return CHOICE if choices else QUESTION
    return len(list(_read(source))) / LINES_PER_MINUTE + _shown(source)


def _read(source: str) -> Iterator[str]:
    return (line for line in source.splitlines() if line.strip() and not line.startswith(("import ", "from ", "#")))


def _shown(source: str) -> float:
    last = source.strip().rpartition("\n")[2]
    if last.startswith(_DEBUGGERS[0]) or last in _DEBUGGERS:
        return DEBUGGER
    return WIDGET if last.startswith(_WIDGETS) or last in ("picture", "shown") else 0.0
