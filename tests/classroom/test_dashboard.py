"""What the dashboard says of records, honest and forged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sglab.classroom.dashboard.records import MOST, ClassRecords
from sglab.classroom.dashboard.state import STUCK_CHECKS, Seat, class_state
from sglab.classroom.folders import ClassFolder
from sglab.labs.coursework import lab
from sglab.labs.folder import result_of
from sglab.labs.sandbox import OpenBench
from sglab.labs.store import FileStore, Record
from tests.support.labs import selftest

NOW = 1_000_000.0


def checked(student: str, files: dict[str, str], when: float = NOW) -> Record:
    """A real check of lab 06."""
    one = lab("06")
    return Record(student, "06", "check", when, result_of(one, one.judge(files, 7, OpenBench(), 7)))


def test_wrong_ideas_of_real_checks_are_counted_with_their_feedback() -> None:
    one = lab("06")
    exercise, idea, files = next(iter(selftest.wrongs(one)))
    right = selftest.solution(one, "ada")
    records = {
        "ada": [checked("ada", files), checked("ada", right)],  # has got over it
        "bob": [checked("bob", files)],
        "eve": [checked("eve", files), Record("eve", "06", "attempt", NOW + 1, {})],
        "new": [],
    }
    state = class_state(records, {"bob": Seat(True, NOW - 5, ("a.ipynb",), True, 5, 10)}, NOW + 60)
    ideas = {(row["exercise"], row["idea"]): row for row in state["ideas"]}
    assert ideas[exercise, idea]["students"] == ["bob", "eve"]
    assert ideas[exercise, idea]["feedback"] == one[exercise].feedback_of(idea)
    by_name = {row["name"]: row for row in state["students"]}
    assert by_name["ada"]["labs"]["06"]["checks"] == 2
    assert (
        by_name["eve"]["did"] == "attempt" and by_name["eve"]["labs"]["06"]["submitted"] and by_name["eve"]["ago"] == 59
    )
    assert by_name["bob"]["busy"] and by_name["bob"]["idle_seconds"] == 65 and by_name["new"]["lab"] is None
    assert state["totals"] == {"students": 4, "running": 1, "busy": 1, "stuck": 0, "checks": 4, "submitted": 1}
    assert all(row["mean"] < 1 and row["of"] == 3 for row in state["criteria"]) and state["criteria"]


def test_checks_without_a_new_point_are_stuck() -> None:
    check = checked("ada", selftest.starters(lab("06"), "ada"))
    many = [check] * STUCK_CHECKS
    assert not class_state({"ada": many[1:]}, {}, NOW)["students"][0]["stuck"]
    assert class_state({"ada": many}, {}, NOW)["students"][0]["stuck"]
    assert not class_state({"ada": many}, {}, NOW + 86_400)["students"][0]["stuck"], "it was yesterday"


@pytest.mark.parametrize(
    "data",
    [
        {"points": 1e9, "marks": {"retract": {"nonsense": [5, "x"]}}},
        {"points": float("nan"), "marks": [1, 2]},
        {"points": "many", "marks": {"retract": "all"}},
        {"points": -5, "marks": {"<script>": {"a": [1, "b"]}}},
    ],
)
def test_forged_checks_show_no_more_than_the_lab_has(data: dict[str, Any]) -> None:
    state = class_state({"eve": [Record("eve", "06", "check", NOW, data)]}, {}, NOW)
    assert 0 <= state["students"][0]["labs"]["06"]["points"] <= lab("06").points
    assert not state["ideas"] and not state["criteria"]
    json.dumps(state, allow_nan=False)


def folder(tmp_path: Path) -> ClassFolder:
    place = ClassFolder(tmp_path, separate=False)
    for student in ("ada", "eve"):
        place.records(student).mkdir(parents=True)
    return place


def test_records_are_read_as_they_grow_and_links_are_not_followed(tmp_path: Path) -> None:
    place = folder(tmp_path)
    store, look = FileStore(place.records("ada")), ClassRecords(place)
    assert look.of("ada") == [] == look.of("nobody")
    store.add(Record("ada", "06", "hint", 1.0, {}))
    assert [record.kind for record in look.of("ada")] == ["hint"]
    store.add(Record("ada", "06", "attempt", 2.0, {}))
    with open(place.records("ada") / "ada.jsonl", "a") as file:
        file.write('not a record\n{"student": "bob", "lab": "06", "kind": "hint", "when": 1, "data": {}}\n[[[[\n{"stud')
    assert [record.kind for record in look.of("ada")] == ["hint", "attempt"]
    mine = place.records("eve") / "eve.jsonl"
    mine.symlink_to(place.records("ada") / "ada.jsonl")
    assert look.of("eve") == []
    mine.unlink()
    os.mkfifo(mine)
    assert look.of("eve") == [], "a pipe is not waited for"
    mine.unlink()
    with open(mine, "wb") as sparse:
        sparse.truncate(MOST + 1)
    assert look.of("eve") == []
