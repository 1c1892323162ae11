"""Limits of a seat: what is written into control groups of either kind, what holds without them, and
users of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sglab.classroom import limits
from sglab.classroom.folders import ClassFolder, check_reach
from sglab.classroom.limits import SeatLimits, confine, parse_size, set_rlimits
from sglab.classroom.seat import lay_out

SOME = SeatLimits(memory=1 << 30, cpus=1.5, processes=99)


def test_groups_of_the_first_kind(tmp_path: Path) -> None:
    for controller in ("memory", "cpu", "pids"):
        (tmp_path / controller).mkdir()
    held = confine("ada", SOME, tmp_path)
    read = {file.name: file.read_text() for folder in held.folders for file in folder.iterdir()}
    assert read == {
        "memory.limit_in_bytes": str(1 << 30),
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
        "pids.max": "99",
    }
    assert "control groups" in held.enforced


def test_groups_of_the_second_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "system.slice" / "hub.service"
    own.mkdir(parents=True)
    (tmp_path / "cgroup.controllers").touch()
    (own / "cgroup.procs").write_text("17\n")
    monkeypatch.setattr(limits, "own_group", lambda: "/system.slice/hub.service")
    (folder,) = confine("ada", SOME, tmp_path).folders
    assert folder == own / "sglab-class" / "ada"
    assert (own / "hub" / "cgroup.procs").read_text() == "17", "a group with groups below holds no processes itself"
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "cpu.max": "150000 100000",
        "pids.max": "99",
    }
    (folder / "memory.current").write_text("4096\n")
    assert limits.used_memory((folder,)) == 4096


def test_without_groups_the_reason_is_said(tmp_path: Path) -> None:
    held = confine("ada", SOME, tmp_path)
    assert held.folders == () and "no control groups" in held.enforced and held.memory() is None


def test_rlimits_stop_a_process_that_takes_too_much() -> None:
    code = "x = bytearray(600 << 20)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: set_rlimits(SeatLimits(memory=300 << 20)),
        capture_output=True,
        text=True,
    )
    assert "MemoryError" in ran.stderr


@pytest.mark.parametrize(("text", "size"), [("2G", 2 << 30), ("1.5g", 3 << 29), ("800M", 800 << 20), ("4096", 4096)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "2T2", "G"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="memory: expected a size such as 2G"):
        parse_size(text)


def test_limits_that_no_notebook_can_live_with_are_refused() -> None:
    with pytest.raises(ValueError, match="memory: expected at least 256 MiB"):
        SeatLimits(memory=1 << 20)
    with pytest.raises(ValueError, match="cpus: expected more than 0"):
        SeatLimits(cpus=0.0)


def test_a_real_control_group_ends_who_takes_too_much() -> None:
    """On machines that let us make one."""
    held = confine(f"test{os.getpid()}", SeatLimits(memory=300 << 20))
    try:
        if not held.folders:
            pytest.skip(held.enforced)
        code = "x = bytearray(900 << 20); print(len(x))"
        ran = subprocess.run([sys.executable, "-c", code], preexec_fn=held.enter, capture_output=True, text=True)
        assert ran.returncode == -9 or "MemoryError" in ran.stderr
    finally:
        held.remove()


def test_a_group_whose_processes_are_still_ending_is_removed() -> None:
    held = confine("test-removal", SeatLimits())
    if not held.folders:
        pytest.skip(f"no control groups here: {held.enforced}")
    script = (
        "import subprocess, sys; [subprocess.Popen(['sleep', '600']) for _ in range(30)]; print(); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script]
    seat = subprocess.Popen(command, preexec_fn=held.enter, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert seat.stdout is not None and seat.stdout.readline()
        held.remove()
        assert not any(folder.exists() for folder in held.folders)
    finally:
        seat.kill()
        seat.wait()


def made(tmp_path: Path, separate: bool) -> ClassFolder:
    course = tmp_path / "course"
    course.mkdir()
    (course / "00_start.ipynb").write_text("{}")
    place = ClassFolder(tmp_path / "class", separate, first_uid=41_000)
    place.make(course)
    return place


def test_a_class_is_made_again_and_keeps_what_students_have(tmp_path: Path) -> None:
    place = made(tmp_path, separate=False)
    assert place.seat("ada") is None
    assert lay_out(place.home("ada"), place.course) == 1
    mine = place.home("ada") / "notebooks" / "00_start.ipynb"
    mine.write_text("my answers")
    (tmp_path / "course" / "01_next.ipynb").write_text("{}")
    place.make(tmp_path / "course")
    assert lay_out(place.home("ada"), place.course) == 1 and mine.read_text() == "my answers"
    assert (place.home("ada") / "course" / "01_next.ipynb").stat().st_mode & 0o222 == 0
    assert place.home("ada").stat().st_mode & 0o077 == 0 == place.hub.stat().st_mode & 0o077


def test_an_empty_course_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="course: expected a folder with notebooks"):
        ClassFolder(tmp_path / "class", False).make(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives seats users of their own")
def test_seats_have_users_of_their_own_who_cannot_read_each_other(tmp_path: Path) -> None:
    place = made(tmp_path, separate=True)
    ada, eve = place.seat("ada"), place.seat("eve")
    assert (ada, eve) == (41_000, 41_001) and place.seat("ada") == ada
    (place.home("ada") / "answer.py").write_text("42")
    for up in (tmp_path, *tmp_path.parents):  # pytest's folders are root's alone
        if up.stat().st_mode & 0o005 != 0o005 and up.owner() == "root" and "pytest" in str(up):
            up.chmod(up.stat().st_mode | 0o055)
    look = ["cat", str(place.home("ada") / "answer.py")]
    assert subprocess.run(look, user=ada, group=ada, extra_groups=[], capture_output=True).stdout == b"42"
    assert subprocess.run(look, user=eve, group=eve, extra_groups=[], capture_output=True).returncode != 0
    write = ["touch", str(place.course / "mine")]
    assert subprocess.run(write, user=ada, group=ada, extra_groups=[], capture_output=True).returncode != 0


def test_a_closed_folder_on_the_way_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").touch()
    with pytest.raises(ValueError, match="is closed to other users"):
        check_reach([closed / "python"])
