"""`sglab labs` as a student and an instructor use it."""

import csv
from pathlib import Path

import pytest

from sglab.cli import main
from sglab.labs.coursework import lab
from tests.support.labs import selftest


def labs(*words: object) -> int:
    return main(["labs", *map(str, words)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert labs("start", "06", "--student", "ada") == 0
    return tmp_path / "my_labs" / "06_retraction"


def test_list_names_every_lab(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert labs("list", "--dir", tmp_path) == 0
    said = capsys.readouterr().out
    assert "03  The radix tree" in said and "15  Capstone" in said


def test_start_keeps_what_is_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "retraction.py").write_text("mine = 1")
    assert labs("start", "06") == 0
    assert "kept" in capsys.readouterr().out
    assert (folder / "retraction.py").read_text() == "mine = 1"
    assert labs("start", "06", "--student", "bob") == 2
    assert "ada's" in capsys.readouterr().err


def test_a_lab_that_was_not_started_is_not_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert labs("check", "03") == 2
    assert "Begin with: sglab labs start 03" in capsys.readouterr().err


def test_a_starter_is_told_what_is_still_to_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert labs("start", "03") == labs("check", "03") == 0
    assert "RadixTree.__init__ is still to be written" in " ".join(capsys.readouterr().out.split())


def test_check_hint_submit_and_grade(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert labs("check", "06") == 0
    assert "0 of 65 points" in capsys.readouterr().out
    for name, text in selftest.solution(lab("06"), "ada").items():
        (folder / name).write_text(text)
    assert labs("check") == 0
    assert "65 of 65 points" in capsys.readouterr().out
    assert labs("hint", "06") == 0
    assert "retract: 0 of 2 hints taken, the next costs 2" in capsys.readouterr().out
    assert labs("hint", "06", "retract", "--yes") == 0
    assert labs("submit") == 0
    assert labs("grade", "submissions", "--reports", "pages", "--statistics", "items.csv", "--store", "all.sqlite") == 0
    with open("grades.csv") as file:
        (row,) = csv.DictReader(file)
    assert (row["student"], row["points"], row["hints"]) == ("ada", "63", "2")
    assert Path("pages/ada.html").exists() and Path("items.csv").exists()
    capsys.readouterr()
    assert labs("export", "all.sqlite") == 0
    assert "ada,06,grade" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("grade", "nowhere"), ("hint", "01", "nonsense"), ("export", "nowhere")])
def test_what_is_not_there_is_said(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert labs(*words) == 2


def test_a_rubric_names_criteria_ideas_and_hints(capsys: pytest.CaptureFixture[str]) -> None:
    assert labs("rubric", "05") == 0
    said = capsys.readouterr().out
    assert "| 20 | further tiles" in said and "| no_rescale |" in said and "- hint, 3 points" in said
