"""Imports run one way: docs/architecture.md's table, held against the code."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sglab"
TABLE = PACKAGE.parent / "docs" / "architecture.md"


def may_import() -> dict[str, set[str]]:
    """Folder of `sglab` -> what the table lets it import."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.read_text("utf-8").splitlines()]
    rooms = {row[0].strip("`").removeprefix("sglab/"): row[2] for row in rows if row[0].startswith("`sglab/")}
    return {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rooms.items() if "." not in room}


MAY_IMPORT = may_import()


def imported_rooms(file: Path) -> set[str]:
    """First folder below `sglab` of everything that a file imports, at any depth of its code."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    package = parts if file.name == "__init__.py" else parts[:-1]
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            names = [f"{module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("sglab.")}
    return rooms


def test_the_table_lists_every_folder() -> None:
    assert set(MAY_IMPORT) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_imports_run_one_way(room: str) -> None:
    siblings = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"cli"}
    for file in (PACKAGE / room).rglob("*.py"):
        wrong = (imported_rooms(file) & siblings) - MAY_IMPORT[room] - {room}
        assert not wrong, f"{file.relative_to(PACKAGE)} imports {sorted(wrong)}"
