"""Imports run one way: docs/architecture.md's table, held against the code."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sglab"
MAY_IMPORT: dict[str, set[str]] = {
    "planning": set(),
    "gpu": {"_core"},
    "kernels": {"planning", "gpu"},
    "engine": {"kernels"},
    "attention": {"engine", "kernels", "planning", "gpu"},
    "trace": {"gpu", "kernels", "engine", "attention", "planning"},
    "widgets": {"trace", "engine", "attention", "kernels", "planning", "gpu"},
    "labs": {"widgets", "trace", "engine", "attention", "kernels", "planning", "gpu"},
}


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


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_imports_run_one_way(room: str) -> None:
    siblings = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"cli"}
    for file in (PACKAGE / room).rglob("*.py"):
        wrong = (imported_rooms(file) & siblings) - MAY_IMPORT[room] - {room}
        assert not wrong, f"{file.relative_to(PACKAGE)} imports {sorted(wrong)}"
