"""The hub's proxy gets a Node that its packages run on: the machine's where it is new enough, else one of its own."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def start() -> ModuleType:
    spec = importlib.util.spec_from_file_location("start", ROOT / "start.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_oldest_node_is_what_the_locked_packages_ask_for(start: ModuleType) -> None:
    locked = json.loads((ROOT / "deploy" / "hub" / "proxy" / "package-lock.json").read_text())["packages"]
    asked = [
        re.fullmatch(r">= ?(\d+)(?:\.(\d+))?.*", one.get("engines", {}).get("node", "")) for one in locked.values()
    ]
    assert max((int(one[1]), int(one[2] or 0)) for one in asked if one) == start.OLDEST_NODE


@pytest.mark.parametrize(("said", "will_do"), [("v22.12.0", True), ("v24.1.0", True), ("v22.11.9", False), ("", False)])
def test_an_older_node_of_the_machine_is_not_taken(
    start: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, will_do: bool
) -> None:
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\necho {said}\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert start.has_node() is will_do
    node.unlink()
    assert not start.has_node()
