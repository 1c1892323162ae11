"""Exported labs: what nbgrader and Otter are given, and that its tests judge as the lab does."""

import json
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from sglab.cli import main
from sglab.labs.coursework import lab, labs
from sglab.labs.export import marks

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "labs" / "05_online_softmax" / "online_softmax.py"


def export(kind: str, folder: Path, *names: str) -> None:
    assert main(["labs", "export", "--format", kind, "--out", str(folder), "--labs", *names]) == 0


@pytest.fixture
def solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SOLUTION, tmp_path)
    return tmp_path


def test_nbgrader_has_a_locked_test_per_criterion_and_keeps_the_starters(tmp_path: Path) -> None:
    export("nbgrader", tmp_path, "05", "11")
    for one in (lab("05"), lab("11")):
        notebook = json.loads((tmp_path / "source" / one.folder / f"{one.folder}.ipynb").read_text())
        roles = [cell["metadata"].get("nbgrader") for cell in notebook["cells"]]
        tests = [role for role in roles if role]
        assert sum(role["points"] for role in tests) == one.points
        assert all(role["grade"] and role["locked"] and not role["solution"] for role in tests)
        assert len({role["grade_id"] for role in tests}) == len(tests)
        written = [cell["source"] for cell in notebook["cells"] if cell["source"].startswith("%%writefile")]
        assert [text.splitlines()[0].split()[1] for text in written] == list(one.files)
        assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


def test_every_lab_can_be_exported(tmp_path: Path) -> None:
    assert main(["labs", "export", "--format", "otter", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [one.folder for one in labs()]


@pytest.mark.parametrize(("file", "expected"), [("right", 20.0), ("none", 0.0), ("starter", 0.0)])
def test_points_are_the_labs(solved: Path, file: str, expected: float) -> None:
    if file == "none":
        (solved / "online_softmax.py").unlink()
    elif file == "starter":
        exercise = lab("05")["merge"]
        (solved / exercise.file).write_text(exercise.starter(lab("05"), marks.STUDENT))
    assert marks.points("05", "merge", "merge") == expected


def test_a_share_of_a_criterion_is_kept(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (solved / "online_softmax.py").read_text()
    (solved / "online_softmax.py").write_text(text.replace("o * factor + p @ values]", "o + p @ values]"))
    assert 0 < marks.share("05", "update", "further") < 1
    assert "rescale" in capsys.readouterr().out


def test_otters_tests_are_quarters(solved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export("otter", solved, "05")
    cases: list[tuple[float, object]] = []

    def test_case(points: float, hidden: bool) -> object:
        return lambda test: cases.append((points, test)) or test

    fake = types.ModuleType("otter.test_files")
    fake.test_case = test_case  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "otter", types.ModuleType("otter"))
    monkeypatch.setitem(sys.modules, "otter.test_files", fake)
    runpy.run_path(str(solved / "05_online_softmax" / "tests" / "merge_merge.py"))
    assert [points for points, _ in cases] == [5.0] * 4
    for _, test in cases:
        test()  # type: ignore[operator]
    (solved / "online_softmax.py").unlink()
    with pytest.raises(AssertionError):
        cases[0][1]()  # type: ignore[operator]


@pytest.mark.parametrize(("exercise", "criterion", "text"), [("x", "y", "exercise"), ("merge", "y", "criterion")])
def test_what_a_lab_lacks(exercise: str, criterion: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}: "):
        marks.share("05", exercise, criterion)


def test_refusals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["labs", "export", "--format", "otter"]) == 2
    assert "--out: expected a folder" in capsys.readouterr().err
    assert main(["labs", "export", str(tmp_path / "none.sqlite")]) == 2
    assert "there is no" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nbgrader") is None, reason="no nbgrader")
def test_nbgrader_grades(tmp_path: Path) -> None:
    export("nbgrader", tmp_path, "05")
    name = "05_online_softmax"

    def nbgrader(*words: str) -> None:
        subprocess.run(["nbgrader", *words], cwd=tmp_path, check=True, capture_output=True)

    nbgrader("generate_assignment", name)
    notebook = json.loads((tmp_path / "release" / name / f"{name}.ipynb").read_text())
    for cell in notebook["cells"]:
        if "".join(cell["source"]).startswith("%%writefile online_softmax.py"):
            cell["source"] = "%%writefile online_softmax.py\n" + SOLUTION.read_text()
    place = tmp_path / "submitted" / "ada" / name
    place.mkdir(parents=True)
    (place / f"{name}.ipynb").write_text(json.dumps(notebook))
    nbgrader("autograde", name)
    nbgrader("export")
    assert ",95.0,100.0" in (tmp_path / "grades.csv").read_text()
