"""Docstrings are in one style, Google's, which editors and documentation tools read."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sglab"
HOME_MADE = re.compile(r"^ *(raises( [A-Z]\w*)?|returns): ", re.MULTILINE)


def docstrings(file: Path) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node, text


def fields_outside_sections(node: ast.AST, text: str) -> list[str]:
    """Parameters that a function's docstring describes at its left margin instead of below Args."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    arguments = node.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return [line for line in text.splitlines()[1:] if line.partition(":")[0] in names and ": " in line]


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))
def test_fields_stand_in_sections(room: str) -> None:
    for file in (PACKAGE / room).rglob("*.py"):
        for node, text in docstrings(file):
            where = f"{file.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}"
            assert not HOME_MADE.search(text), f"{where}: use Raises: and Returns: sections"
            wrong = fields_outside_sections(node, text)
            assert not wrong, f"{where}: these belong below Args: {wrong}"
