"""A class is graded: hostile submissions cost only themselves, nothing is graded twice, pages and tables are right."""

import csv
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sglab.cli import main
from sglab.labs import command
from sglab.labs.coursework import lab
from sglab.labs.grading import Grade, find_submissions, grade_all, item_statistics
from sglab.labs.grading import submissions as submissions_module
from sglab.labs.grading.report import write_reports
from sglab.labs.grading.submissions import hand_in
from sglab.labs.grading.tables import grade_book, leaderboard
from sglab.labs.sandbox import OpenBench, Sandbox, SandboxError
from tests.support.labs import hostile, selftest, simulate_class


@pytest.fixture
def submissions(tmp_path: Path) -> Path:
    """Four hostile ones and four honest ones."""
    folder = tmp_path / "submissions"
    one = lab("06")
    for name in ("eats_memory", "forges_results", "reads_others", "crashes"):
        text = simulate_class.HOSTILE[name].replace("{folder}", str(folder))
        simulate_class.write(folder / name / one.folder, {each.file: text for each in one.exercises})
    right = selftest.solution(one, "ada")
    simulate_class.write(folder / "ada" / one.folder, right)
    simulate_class.write(folder / "bob" / one.folder, selftest.starters(one, "bob"))
    half = {**right, "retraction.py": right["retraction.py"].replace("20 * len(requests)", "20")}
    simulate_class.write(folder / "cyd" / one.folder, half)
    simulate_class.write(folder / "dan" / one.folder, {"retraction.py": right["retraction.py"]})
    return folder


def test_a_class_with_hostile_ones_among_them(submissions: Path, tmp_path: Path) -> None:
    found = find_submissions(submissions)
    grades = grade_all(found, Sandbox(hidden=[submissions]), "secret", tmp_path / "journal", jobs=2)
    points = {each.student: each.points for each in grades}
    assert points["ada"] == lab("06").points
    assert points["dan"] == lab("06").points - 5
    assert 0 < points["cyd"] < points["ada"]
    assert {name for name, value in points.items() if value == 0} == {
        "bob",
        "eats_memory",
        "forges_results",
        "reads_others",
        "crashes",
    }
    rows = list(csv.DictReader(io.StringIO(grade_book(grades))))
    assert [row["student"] for row in rows] == sorted(points)
    assert next(row for row in rows if row["student"] == "cyd")["ideas"].split()[0] == "twenty_once"
    thief = next(each for each in grades if each.student == "reads_others")
    assert all("retract" not in text.partition("STOLEN")[2] for text in thief.printed.values())


SLOW = {"hangs", "sleeps", "changes_time", "ignores_signals", "fills_the_disk", "leaves_a_daemon", "threads", "prints"}
"""They end with the time, or are tried in tests of the sandbox."""


@pytest.mark.parametrize("name", sorted({*simulate_class.HOSTILE, *hostile.MANIFESTS, *hostile.LINKS} - SLOW))
def test_a_hostile_submission_costs_only_itself(name: str, tmp_path: Path) -> None:
    one, folder = lab("06"), tmp_path / "submissions"
    place = folder / "eve" / one.folder
    simulate_class.write(place, simulate_class.hostile_files(one, name, folder))
    if name in hostile.LINKS:
        simulate_class.link(place, one)
    simulate_class.write(folder / "ada" / one.folder, {"answers.py": selftest.solution(one, "ada")["answers.py"]})
    found = find_submissions(folder)
    assert [(each.student, each.lab.id) for each in found] == [("ada", "06"), ("eve", "06")], "no link is followed"
    bench = Sandbox(hidden=[folder])
    ada, eve = grade_all(found, bench, "secret", tmp_path / "journal")
    assert (ada.points, eve.points) == (5, 0)
    assert "STOLEN [" not in str(eve.printed) and "STOLEN b" not in str(eve.printed)
    assert "STOLEN /" not in str(eve.printed)


def grade_of(student: str, tmp_path: Path, files: dict[str, str], **manifest: object) -> Grade:
    simulate_class.write(tmp_path / "s" / student / "06_retraction", files)
    if manifest:
        (tmp_path / "s" / student / "06_retraction" / "submission.json").write_text(json.dumps(manifest))
    return next(
        g for g in grade_all(find_submissions(tmp_path / "s"), OpenBench(), "x", tmp_path / "j") if g.student == student
    )


def test_what_was_graded_is_not_graded_again(submissions: Path, tmp_path: Path) -> None:
    class Counting(OpenBench):
        runs = 0

        def run(self, *args: object) -> object:
            Counting.runs += 1
            return super().run(*args)

    honest = [each for each in find_submissions(submissions) if each.student in ("ada", "bob", "cyd")]
    journal = tmp_path / "journal"
    first = grade_all(honest[:2], Counting(), "secret", journal)
    done = Counting.runs
    with open(journal, "a") as file:
        file.write('{"salt": "cut sho')
    assert [g.points for g in grade_all(honest[:2], Counting(), "secret", journal)] == [g.points for g in first]
    assert Counting.runs == done
    grade_all(honest, Counting(), "secret", journal)
    assert Counting.runs == 3 * done // 2
    grade_all(honest, Counting(), "another secret", journal)
    assert Counting.runs == 3 * done


def test_hints_cost(tmp_path: Path) -> None:
    right = selftest.solution(lab("06"), "ada")
    cost = sum(hint.cost for hint in lab("06")["retract"].hints)
    one = grade_of("ada", tmp_path, right, hints={"retract": 99, "nonsense": 3})
    assert (one.points, one.hint_cost) == (lab("06").points - cost, cost)


@pytest.mark.parametrize("hints", ['{"retract": Infinity}', '{"retract": 1e999}', '{"retract": "9"}', "[]", "3"])
def test_a_manifest_costs_only_its_own_submission(tmp_path: Path, hints: str) -> None:
    simulate_class.write(tmp_path / "s" / "eve" / "06_retraction", {"submission.json": f'{{"hints": {hints}}}'})
    simulate_class.write(tmp_path / "s" / "ada" / "06_retraction", {"retraction.py": "x = 1"})
    assert {each.student for each in find_submissions(tmp_path / "s")} == {"ada", "eve"}


def test_answers_that_would_crash_a_parser_are_not_parsed(tmp_path: Path) -> None:
    one = grade_of("eve", tmp_path, {"answers.py": "x = 1" + "+1" * 120_000})
    assert "at most" in str(one.marks["answers"])


def test_what_a_judge_cannot_stand_earns_nothing_and_ends_nothing(tmp_path: Path) -> None:
    class Odd(OpenBench):
        def run(self, *args: object) -> object:
            raise RecursionError("too deep")

    files = selftest.solution(lab("06"), "ada")
    simulate_class.write(tmp_path / "s" / "ada" / "06_retraction", files)
    (one,) = grade_all(find_submissions(tmp_path / "s"), Odd(), "x", tmp_path / "j")
    assert one.points == 5 and "cannot be judged" in str(one.marks["retract"])


def test_a_system_that_can_hold_nothing_stops_the_grading(tmp_path: Path) -> None:
    class Unsafe(OpenBench):
        def run(self, *args: object) -> object:
            raise SandboxError("root")

    simulate_class.write(tmp_path / "s" / "ada" / "06_retraction", selftest.solution(lab("06"), "ada"))
    with pytest.raises(SandboxError):
        grade_all(find_submissions(tmp_path / "s"), Unsafe(), "x", tmp_path / "j")


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="needs openat")
def test_what_is_swapped_while_it_is_read_stays_the_students_own(tmp_path: Path) -> None:
    for name in ("ada", "eve"):
        simulate_class.write(tmp_path / name / "06_retraction", {"retraction.py": name})
    inside = submissions_module._opened(tmp_path / "eve", "06_retraction")
    assert inside is not None
    (tmp_path / "eve" / "06_retraction").rename(tmp_path / "eve" / "old")
    (tmp_path / "eve" / "06_retraction").symlink_to(tmp_path / "ada" / "06_retraction")
    with inside:
        assert submissions_module._text(inside, "retraction.py") == "eve"
    assert submissions_module._opened(tmp_path / "eve", "06_retraction") is None


def test_no_submission_sees_what_grading_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the secret it could draw the inputs that it is not shown."""
    simulate_class.write(tmp_path / "s" / "ada" / "06_retraction", {"retraction.py": "x = 1"})
    benches: list[Sandbox] = []
    monkeypatch.setattr(command, "grade_all", lambda found, bench, *rest: benches.append(bench) or [])
    out = tmp_path / "g" / "grades.csv"
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(["labs", "grade", str(tmp_path / "s"), "--out", str(out), "--store", str(tmp_path / "x.sqlite")]))
    assert not ended.value.code
    hidden = {path.name for path in benches[0].hidden}
    assert hidden >= {"s", "grades.secret", "grades.journal", "grades.csv", "x.sqlite"}


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    place = tmp_path / "s" / "eve" / "06_retraction"
    place.mkdir(parents=True)
    (tmp_path / "secret").write_text("solution")
    (place / "retraction.py").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "answers.py")
    (one,) = find_submissions(tmp_path / "s")
    assert one.sources == {} and len(one.problems) == 2
    assert "retraction.py: is a link, and no file" in one.problems


def test_handing_in_replaces_what_was_handed_in_before(tmp_path: Path) -> None:
    one, work = lab("06"), tmp_path / "work"
    simulate_class.write(work, selftest.starters(one, "ada"))
    hand_in(one, "ada", work, tmp_path / "s", {})
    (work / "retraction.py").write_text("new = 1")
    place = hand_in(one, "ada", work, tmp_path / "s", {"retract": 1})
    assert (place / "retraction.py").read_text() == "new = 1"
    (found,) = find_submissions(tmp_path / "s")
    assert found.hints == {"retract": 1}
    with pytest.raises(ValueError, match="labs start"):
        hand_in(one, "ada", tmp_path / "nowhere", tmp_path / "s", {})


def test_pages_show_feedback_and_no_markup_of_the_students(tmp_path: Path) -> None:
    files = selftest.starters(lab("06"), "ada")
    evil = "print('<script>alert(1)</script>')\n"
    one = grade_of("ada", tmp_path, {**files, "retraction.py": evil + files["retraction.py"]})
    (page,) = write_reports([one], tmp_path / "pages")
    text = page.read_text()
    assert "<script" not in text
    assert "is still to be written" in text and "0 of 65 points" in text


def test_statistics_and_ranks(tmp_path: Path) -> None:
    right = selftest.solution(lab("06"), "ada")
    grades = [grade_of("ada", tmp_path, right), grade_of("bob", tmp_path, selftest.starters(lab("06"), "bob"))]
    rows = {(row[1], row[2]): row for row in item_statistics(grades)}
    assert rows["ratio", "ratio"][4:8] == [2, 0.5, 1, 1]
    times = [replace(grades[0], student=name, modelled_ns=ns) for name, ns in (("a", 5e3), ("b", 4e3), ("c", 5e3))]
    assert leaderboard(times, "06") == [(1, "b", 4.0), (2, "a", 5.0), (2, "c", 5.0)]


def test_a_table_is_held_against_what_a_simulated_class_deserves(tmp_path: Path) -> None:
    kinds = {"ada": "right", "bob": "starter", "cyd": "wrong twenty_once", "dan": "part", "eve": "hostile forks"}
    (tmp_path / "expected.json").write_text(json.dumps(kinds))
    full = lab("06").points
    rows = {"ada": (full, ""), "bob": (0, ""), "cyd": (full - 30, "twenty_once"), "dan": (full - 5, ""), "eve": (0, "")}

    def problems(**changed: tuple[float, str]) -> list[str]:
        lines = [f"{name},06,{points},{ideas}" for name, (points, ideas) in {**rows, **changed}.items()]
        (tmp_path / "grades.csv").write_text("\n".join(["student,lab,points,ideas", *lines]))
        return [line.split(",")[0] for line in simulate_class.undeserved(tmp_path, tmp_path / "grades.csv")]

    assert problems() == []
    wrong = {"ada": (full - 1, ""), "bob": (1, ""), "cyd": (full - 30, "another"), "dan": (full, ""), "eve": (1, "")}
    assert problems(**wrong) == list(kinds)
    assert problems(cyd=(full, "twenty_once")) == ["cyd"]
    del rows["eve"]
    assert problems(mallory=(full, "")) == ["eve: no grade", "mallory: not of this class", "mallory"]
