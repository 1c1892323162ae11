"""Otter-Grader: a notebook and a folder of tests per lab. A criterion is a question of four tests, a quarter each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sglab.labs.lab import Criterion, Exercise, Lab

from .notebook import code, criteria, file_cell, files, markdown, name_of, title, write

QUARTERS = 4
START = "import otter\n\ngrader = otter.Notebook()"


def write_otter(labs: Sequence[Lab], folder: Path) -> list[Path]:
    """Writes `LAB/LAB.ipynb` and `LAB/tests/*.py`. Returns the notebooks.

    Then `otter generate -t tests -o autograder.zip` in the lab's folder, and `otter run` or `otter grade`: sglab must
    be installed where they run.
    """
    return [_write(one, folder / one.folder) for one in labs]


def _write(one: Lab, folder: Path) -> Path:
    cells = [title(one), code("start", START)]
    tests = folder / "tests"
    tests.mkdir(parents=True, exist_ok=True)
    for name, text, exercises in files(one):
        file = file_cell(name, text)
        cells += [markdown(f"about-{file['id']}", f"## {name}"), file]
        for exercise, criterion in criteria(exercises):
            question = name_of(exercise, criterion)
            (tests / f"{question}.py").write_text(_test(one, exercise, criterion, question), "utf-8")
            check = f'# {criterion.points:g} points: {criterion.text}\ngrader.check("{question}")'
            cells.append(code(f"check-{question}".replace("_", "-"), check))
    path = folder / f"{one.folder}.ipynb"
    write(path, cells)
    config = {"show_stdout": True}
    (folder / "otter_config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")
    return path


def _test(one: Lab, exercise: Exercise, criterion: Criterion, question: str) -> str:
    """A test file in Otter's exception-based format. Its cases pass or fail, so a share is given in quarters."""
    call = f'share("{one.id}", "{exercise.id}", "{criterion.id}")'
    head = [
        "from otter.test_files import test_case",
        "",
        "OK_FORMAT = False",
        f'name = "{question}"',
        f"points = {criterion.points:g}",
    ]
    for quarter in range(1, QUARTERS + 1):
        least = quarter / QUARTERS
        head += [
            "",
            "",
            f"@test_case(points={criterion.points / QUARTERS:g}, hidden=False)",
            f"def test_{quarter}_of_{QUARTERS}():",
            "    from sglab.labs.export.marks import share",
            "",
            f"    assert {call} >= {least - 1e-9!r}, {criterion.text!r}",
        ]
    return "\n".join(head) + "\n"
