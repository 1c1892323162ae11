"""C++ includes run one way: docs/architecture.md's table, held against the code."""

import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

CSRC = Path(__file__).parent.parent / "csrc"
TABLE = CSRC.parent / "docs" / "architecture.md"
INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def may_include() -> dict[str, set[str]]:
    """Room of `csrc`, a folder with C++ files -> what the table lets it include; a folder includes those in it."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.read_text("utf-8").splitlines()]
    rooms = {row[0].strip("`").removeprefix("csrc/"): row[2] for row in rows if row[0].startswith("`csrc/")}
    return {room: set(re.findall(r"`([\w/]+)`", allowed)) for room, allowed in rooms.items() if room != "kernels"}


MAY_INCLUDE = may_include()


@cache
def sources() -> list[Path]:
    """All C++ files but kernels, which are CUDA."""
    files = [path for suffix in ("cpp", "hpp") for path in CSRC.rglob(f"*.{suffix}")]
    return sorted(path for path in files if "kernels" not in path.relative_to(CSRC).parts)


def room_of(path: str) -> str:
    """machine/ops/float.cpp -> machine/ops; observe/sanitize/races/detector.hpp -> observe/sanitize."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 2 if folders[0] in ("machine", "observe") else 1])


def included(file: Path) -> set[str]:
    """Rooms of everything of ours that a file includes."""
    here = room_of(file.relative_to(CSRC).as_posix())
    paths = INCLUDE.findall(file.read_text("utf-8"))
    missing = [path for path in paths if not (CSRC / path).exists()]
    assert not missing, f"{file.relative_to(CSRC)}: {missing} are not named from csrc/"
    return {room_of(path) for path in paths} - {here}


def test_the_table_lists_every_folder() -> None:
    assert set(MAY_INCLUDE) == {room_of(path.relative_to(CSRC).as_posix()) for path in sources()}


@pytest.mark.parametrize("room", sorted(MAY_INCLUDE))
def test_includes_run_one_way(room: str) -> None:
    for file in (CSRC / room).rglob("*.[ch]pp"):
        allowed = MAY_INCLUDE[room]
        wrong = {one for one in included(file) if one not in allowed and one.split("/")[0] not in allowed}
        assert not wrong, f"{file.relative_to(CSRC)} includes {sorted(wrong)}"


@pytest.mark.parametrize("depth", [1, 2])
def test_no_folders_include_each_other_in_a_circle(depth: int) -> None:
    """Neither rooms nor the folders that hold them: as `machine` includes `isa`, `isa` does not include `machine`."""
    graph: dict[str, set[str]] = {}
    for file in sources():
        here = "/".join(room_of(file.relative_to(CSRC).as_posix()).split("/")[:depth])
        there = {"/".join(room.split("/")[:depth]) for room in included(file)}
        graph.setdefault(here, set()).update(there - {here})
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_the_table_itself_has_no_circle() -> None:
    graph = {
        room: {other for other in MAY_INCLUDE for one in allowed if other == one or other.startswith(f"{one}/")}
        for room, allowed in MAY_INCLUDE.items()
    }
    TopologicalSorter(graph).prepare()
