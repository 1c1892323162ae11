"""A lab as a notebook: its text, a cell per file that writes it, and a place for each criterion's test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglab.labs.lab import Criterion, Exercise, Lab

from .marks import STUDENT

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def markdown(identity: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": identity, "metadata": {}, "source": text}


def code(identity: str, text: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"execution_count": None, "outputs": []}
    return {"cell_type": "code", "id": identity, "metadata": {}, "source": text, **empty}


def title(one: Lab) -> dict[str, Any]:
    """What the lab is about, and what to read."""
    needs = f"\n\nNeeds {' and '.join(one.needs)}." if one.needs else ""
    reading = f"\n\nRead first: {', '.join(one.reading)}." if one.reading else ""
    how = "Each cell below that begins with `%%writefile` is a file: edit it, run it, then run the checks under it."
    return markdown("title", f"# {one.id} · {one.title}\n\n{one.goal}{reading}{needs}\n\n{how}")


def files(one: Lab) -> Iterator[tuple[str, str, list[Exercise]]]:
    """Each file: its name, the starter's text, the exercises that are judged by it."""
    for name in one.files:
        exercises = [each for each in one.exercises if each.file == name]
        yield name, exercises[0].starter(one, STUDENT), exercises


def file_cell(name: str, text: str) -> dict[str, Any]:
    return code(f"file-{name.partition('.')[0]}", f"%%writefile {name}\n{text.rstrip()}")


def criteria(exercises: list[Exercise]) -> Iterator[tuple[Exercise, Criterion]]:
    for exercise in exercises:
        for criterion in exercise.criteria:
            yield exercise, criterion


def name_of(exercise: Exercise, criterion: Criterion) -> str:
    """A name that graders accept: letters, digits, underscores."""
    return "".join(letter if letter.isalnum() else "_" for letter in f"{exercise.id}_{criterion.id}")


def write(path: Path, cells: list[dict[str, Any]], **metadata: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = {"cells": cells, "metadata": {**KERNEL, **metadata}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
