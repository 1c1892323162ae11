"""The instructors' tools of `labs/`: model solutions, known wrong ideas, a simulated class."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent.parent / "labs"


def _loaded(name: str) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


hostile = _loaded("hostile")
selftest = _loaded("selftest")
simulate_class = _loaded("simulate_class")
