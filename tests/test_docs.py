"""docs/api.md lists what the packages offer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import sglab

ROOT = Path(__file__).parent.parent


def test_the_list_of_public_names_is_up_to_date() -> None:
    ran = subprocess.run(
        [sys.executable, "docs/update_api.py", "--check"], cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True
    )
    assert ran.returncode == 0, ran.stderr.decode()


def test_every_package_is_reached_by_its_name() -> None:
    packages = {path.parent.name for path in (ROOT / "sglab").glob("*/__init__.py")}
    assert packages == sglab._PACKAGES


def test_the_page_of_backends_is_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, "docs/update_backends.py", "--check"], cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True
    )
    assert run.returncode == 0, run.stderr.decode()


def _syllabi() -> list[tuple[list[str], list[str]]]:
    """Notebooks and labs of each week of docs/teaching.md's two syllabi."""
    text = (ROOT / "docs" / "teaching.md").read_text("utf-8").partition("## Slides")[0]
    weeks = []
    for table in text.split("\n\n"):
        if "| Week |" in table:
            weeks += re.findall(r"^\| \d+ \| [^|]+ \| ([^|]*)\| ([\d, ]*)\|", table, re.MULTILINE)
    return [(re.findall(r"\b\d\d\b", notebooks), re.findall(r"\d+", labs)) for notebooks, labs in weeks]


def test_a_syllabus_names_notebooks_and_labs_that_exist() -> None:
    weeks = _syllabi()
    assert len(weeks) == 6 + 14
    notebooks = {path.name[:2] for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    labs = {path.name[:2] for path in (ROOT / "labs").glob("[0-9][0-9]_*")}
    for named, set_ in weeks:
        assert set(named) <= notebooks, f"no such notebook: {sorted(set(named) - notebooks)}"
        assert set(set_) <= labs, f"no such lab: {sorted(set(set_) - labs)}"
    term = weeks[6:]
    assert {one for named, _ in term for one in named} >= notebooks, "fourteen weeks have time for every notebook"
    assert sorted(one for _, set_ in term for one in set_) == sorted(labs), "each lab is set once"
