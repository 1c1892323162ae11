"""The compiled core loads and says which instruction set it runs with."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sglab
from sglab import _core


def test_active_isa_is_known() -> None:
    assert _core.active_isa() in {"baseline", "avx2", "avx512"}


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_isa_can_be_lowered_by_environment(isa: str) -> None:
    order = ["baseline", "avx2", "avx512"]
    code = "from sglab import _core; print(_core.active_isa())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SGLAB_ISA": isa},
        capture_output=True,
        text=True,
        check=True,
    )
    assert order.index(ran.stdout.strip()) <= order.index(isa)


def declared(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What a stub's module or class declares, by name; the stub's own type aliases are assignments and not meant."""
    found: dict[str, ast.stmt] = {}
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = statement
    return {name: statement for name, statement in found.items() if not name.startswith("_")}


def public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def test_the_stub_declares_what_the_core_has() -> None:
    stub = declared(ast.parse(Path(sglab.__file__).with_name("_core.pyi").read_text("utf-8")).body)
    assert stub.keys() == public(_core)
    for name, statement in stub.items():
        there = getattr(_core, name)
        if not isinstance(statement, ast.ClassDef):
            continue
        members = declared(statement.body)
        if isinstance(there, ModuleType):  # of a submodule the stub lists what sglab calls
            assert members.keys() <= public(there), name
        elif not issubclass(there, Exception):  # errors get theirs when raised
            added = {each for each, how in members.items() if isinstance(how, ast.AnnAssign)}  # by sglab, from Python
            assert members.keys() - added <= public(there) <= members.keys(), name
