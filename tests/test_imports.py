"""Imports run one way: docs/architecture.md's table, held against the code."""

import ast
import re
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "sglab"
TABLE = PACKAGE.parent / "docs" / "architecture.md"


def may_import() -> dict[str, set[str]]:
    """Folder of `sglab` -> what the table lets it import."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.read_text("utf-8").splitlines()]
    rooms = {row[0].strip("`").removeprefix("sglab/"): row[2] for row in rows if row[0].startswith("`sglab/")}
    return {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rooms.items() if "." not in room}


MAY_IMPORT = may_import()


def imports(file: Path) -> set[str]:
    """Everything of ours that a file imports, at any depth of its code: sglab.gpu.module.Kernel."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    package = parts if file.name == "__init__.py" else parts[:-1]
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("sglab.")}


def imported_rooms(file: Path) -> set[str]:
    """First folder below `sglab` of everything that a file imports."""
    return {name.split(".")[1] for name in imports(file)}


def test_the_table_lists_every_folder() -> None:
    assert set(MAY_IMPORT) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_the_table_lists_what_lies_beside_the_package() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", TABLE.read_text("utf-8"), re.MULTILINE))
    tracked = subprocess.run(["git", "ls-files"], cwd=TESTS.parent, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    folders = {name.split("/")[0] for name in tracked.stdout.splitlines() if "/" in name and name[0] != "."}
    assert folders - {"csrc", "sglab"} == listed


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_imports_run_one_way(room: str) -> None:
    siblings = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | {"cli"}
    for file in (PACKAGE / room).rglob("*.py"):
        wrong = (imported_rooms(file) & siblings) - MAY_IMPORT[room] - {room}
        assert not wrong, f"{file.relative_to(PACKAGE)} imports {sorted(wrong)}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for annotations alone and imports inside functions count, too: a type belongs below its users."""
    files = {_module(file): file for file in PACKAGE.rglob("*.py")}
    graph = {name: {_owner(one, files) for one in imports(file)} - {name} for name, file in files.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_folders_within_a_room_import_one_way(room: str) -> None:
    """A folder is one node, whichever of its files imports: engine/batch imports engine/cache, not the other way."""
    folders = {path.name for path in (PACKAGE / room).iterdir() if path.is_dir()}
    graph: dict[str, set[str]] = {}
    for folder in folders:
        named = {
            tuple(name.split(".")[1:3]) for file in (PACKAGE / room / folder).rglob("*.py") for name in imports(file)
        }
        graph[folder] = {inner for outer, *rest in named for inner in rest if outer == room} & folders - {folder}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_no_test_module_is_imported() -> None:
    """What two of them need belongs in tests/support."""
    files = list(TESTS.rglob("*.py"))
    tests = {file.stem for file in files if file.stem.startswith("test_") or file.stem == "conftest"}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {f"{node.module or ''}.{alias.name}" for alias in node.names}
            wrong = {name for name in names if tests & set(name.split("."))}
            assert not wrong, f"{file.relative_to(TESTS)} imports {sorted(wrong)}"


def _module(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if file.name == "__init__.py" else parts)


def _owner(name: str, modules: dict[str, Path]) -> str:
    while name not in modules:
        name = name.rpartition(".")[0]
    return name
