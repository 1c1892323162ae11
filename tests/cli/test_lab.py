"""`sglab lab`: the command that it starts, and copies of the notebooks that one may write into."""

import os
from pathlib import Path

import pytest

from sglab import cli


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], object]]:
    made: list[tuple[list[str], object]] = []
    monkeypatch.setattr(cli.subprocess, "call", lambda command, cwd: made.append((command, cwd)) or 0)
    return made


def test_it_opens_the_first_notebook(commands: list) -> None:
    assert cli.main(["lab", "--no-browser", "--port", "9999"]) == 0
    ((command, cwd),) = commands
    assert "--no-browser" in command and "--port=9999" in command
    assert command[-1] == str(cli.NOTEBOOKS / "00_start_here.ipynb") and cwd == cli.NOTEBOOKS


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_root_may_start_it(commands: list, monkeypatch: pytest.MonkeyPatch, user: int, allowed: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    cli.main(["lab"])
    assert ("--allow-root" in commands[0][0]) is allowed


def test_copies_leave_the_checkout_clean_and_answers_stay(
    commands: list, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "course"
    cli.main(["lab", "--dir", str(folder)])
    names = {path.name for path in cli.NOTEBOOKS.glob("*.ipynb")}
    assert {path.name for path in folder.iterdir()} == names
    assert commands[0][0][-1] == str(folder / "00_start_here.ipynb") and commands[0][1] == folder
    answered = folder / "01_page_tables.ipynb"
    answered.write_text("my answers")
    (folder / "gallery.ipynb").unlink()
    cli.main(["lab", "--dir", str(folder)])
    assert answered.read_text() == "my answers" and (folder / "gallery.ipynb").exists()
    assert f"1 notebooks copied, {len(names) - 1} kept" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_one_line(
    commands: list, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["lab", "--dir", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("sglab: ") and not commands


def test_without_notebooks_there_is_nothing_to_copy(
    commands: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "NOTEBOOKS", tmp_path / "none")
    assert cli.main(["lab", "--dir", str(tmp_path / "course")]) == 2
    assert "come with the repository" in capsys.readouterr().err
