"""nbgrader: `source/LAB/LAB.ipynb` of a course folder. A criterion is a test cell whose value is its points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sglab.labs.lab import Lab

from .notebook import code, criteria, file_cell, files, markdown, name_of, title, write

CONFIG = """c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "sglab"
c.ExecutePreprocessor.timeout = 900  # kernels of a lab are compiled and emulated
c.ExecutePreprocessor.iopub_timeout = 60  # on a busy machine the usual 4 s lose a submission
"""


def write_nbgrader(labs: Sequence[Lab], folder: Path) -> list[Path]:
    """Writes the labs into a course folder, and a config where there is none. Returns the notebooks.

    Then `nbgrader generate_assignment 01_page_table`, `nbgrader autograde …`: sglab must be installed where they run.
    """
    config = folder / "nbgrader_config.py"
    folder.mkdir(parents=True, exist_ok=True)
    if not config.exists():
        config.write_text(CONFIG, "utf-8")
    return [_write(one, folder / "source" / one.folder / f"{one.folder}.ipynb") for one in labs]


def _write(one: Lab, path: Path) -> Path:
    cells = [title(one)]
    for name, text, exercises in files(one):
        file = file_cell(name, text)
        cells += [markdown(f"about-{file['id']}", f"## {name}"), file]
        for exercise, criterion in criteria(exercises):
            call = f'points("{one.id}", "{exercise.id}", "{criterion.id}")'
            told = f"# {criterion.points:g} points: {criterion.text}"
            body = f"{told}\nfrom sglab.labs.export.marks import points\n\n{call}"
            test = code(f"test-{name_of(exercise, criterion)}".replace("_", "-"), body)
            test["metadata"]["nbgrader"] = _role(name_of(exercise, criterion), criterion.points)
            cells.append(test)
    write(path, cells)
    return path


def _role(identity: str, points: float) -> dict[str, Any]:
    """A test cell: locked, and worth points. Files have no role: a solution cell would be emptied on release."""
    role = {"grade": True, "grade_id": identity, "locked": True, "schema_version": 3}
    return {**role, "solution": False, "task": False, "points": points}
