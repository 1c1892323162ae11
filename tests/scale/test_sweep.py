"""Sweeps and gradings on Dask's workers: right results in their order, and a worker that dies loses nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="needs the extra scale")
pytest.importorskip("torch")

from sglab.labs.coursework import lab
from sglab.labs.grading import find_submissions, grade_all
from sglab.labs.sandbox import Sandbox
from sglab.scale import WorkerLost, fan_out, sweep, workers_of
from tests.support import scale
from tests.support.labs import selftest, simulate_class

pytestmark = pytest.mark.slow  # clusters start and end
PATIENCE_S = 600


def until(condition: object) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def address() -> object:
    """A scheduler with two workers that outlives each test, as one elsewhere would."""
    with workers_of("local", 2) as client:
        yield client.scheduler.address


def test_a_sweep_of_launches_is_a_row_per_point_in_order(address: str) -> None:
    seen: list[tuple[int, int]] = []
    grid = {"n": [32, 64, 160], "factor": [0.5, 3.0]}
    rows = sweep(scale.emulated, grid, scheduler=address, progress=lambda done, of: seen.append((done, of)))
    assert [(row["n"], row["factor"]) for row in rows] == [(n, f) for n in grid["n"] for f in grid["factor"]]
    for row in rows:
        assert row["total"] == row["factor"] * row["n"] * (row["n"] - 1) / 2
    assert rows[4]["warp_instructions"] == 5 * rows[0]["warp_instructions"] > 0
    assert seen == [(done, 6) for done in range(1, 7)]


def test_what_a_launch_raises_is_raised(address: str) -> None:
    with pytest.raises(TypeError, match="seq_len"):
        sweep(scale.emulated, [{"n": 32, "seq_len": 1}], scheduler=address, progress=False)


@pytest.mark.parametrize("over", [{}, [], {"n": []}])
def test_no_points_are_refused(over: object) -> None:
    with pytest.raises(ValueError, match="over: expected values by name"):
        sweep(scale.emulated, over)  # type: ignore[arg-type]


def test_nothing_at_an_address_is_said() -> None:
    with pytest.raises(ValueError, match="scheduler: expected 'local' or an address"), workers_of("nonsense://x"):
        pass


def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    """The first worker to take work is killed while it holds some; all results come, and its work was done again."""
    notes, gate, killed = tmp_path / "notes", tmp_path / "gate", []
    notes.mkdir()

    def kill_one() -> None:
        until(lambda: len(list(notes.iterdir())) >= 2)  # both workers hold something, neither can finish
        killed.append(int(next(notes.iterdir()).suffix[1:]))
        os.kill(killed[0], signal.SIGKILL)
        gate.touch()

    thread = threading.Thread(target=kill_one)
    thread.start()
    calls = [(number, str(notes), str(gate)) for number in range(8)]
    results = fan_out(scale.noted, calls, workers=2, progress=False)
    thread.join()
    assert [number for number, _ in results] == list(range(8))
    assert killed[0] not in {pid for _, pid in results}
    tried = [file.stem for file in notes.iterdir()]
    assert len(tried) > len(set(tried)) == 8, "what the dead worker held was done again"


def test_work_that_kills_every_worker_is_named() -> None:
    with pytest.raises(WorkerLost, match=r"\(7,\) killed every worker"):
        fan_out(scale.dies, [(7,)], workers=2, progress=False)


def test_grading_on_workers_gives_what_grading_here_gives(address: str, tmp_path: Path) -> None:
    for student, files in (
        ("ada", selftest.solution(lab("06"), "ada")),
        ("bob", selftest.starters(lab("06"), "bob")),
        ("eve", {"retraction.py": simulate_class.HOSTILE["kills"]}),
    ):
        simulate_class.write(tmp_path / "s" / student / lab("06").folder, files)
    found = find_submissions(tmp_path / "s")
    here = grade_all(found, Sandbox(), "secret", tmp_path / "here", jobs=2)
    there = grade_all(found, Sandbox(), "secret", tmp_path / "there", scheduler=address)
    assert [(each.student, each.points, each.marks) for each in here[:2]] == [
        (each.student, each.points, each.marks) for each in there[:2]
    ]
    assert there[0].points == lab("06").points and there[2].points == 0
    assert (tmp_path / "there").read_text().count("\n") == 3, "a line per grade, so that a break continues"
