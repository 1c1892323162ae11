"""Names of entries and variables: mangled in PTX, as the source has them for people."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sglab.gpu import core


@lru_cache(maxsize=4096)
def source_name(entry: str) -> str:
    """A kernel as its C++ source calls it, "scale<4, float>", without result and parameters; others as they are."""
    if not entry.startswith("_Z"):
        return entry
    shown = core.shown_name(entry).replace("(anonymous namespace)::", "")
    depth, begin, end = 0, 0, len(shown)
    for at, letter in enumerate(shown):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if depth == 0 and letter == " ":
            begin = at + 1
        if depth == 0 and letter == "(":
            end = at
            break
    return shown[begin:end] or entry


@lru_cache(maxsize=4096)
def variable_name(symbol: str) -> str:
    """A variable as its C++ source declares it, without namespaces and the function that it is in; others as they
    are."""
    if not symbol.startswith("_Z"):
        return symbol
    return core.demangled(symbol).rpartition("::")[2]


def entries_called(name: str, entries: Iterable[str]) -> list[str]:
    """Those that have this name in the source; else those whose name, in either spelling, it is a part of."""
    wanted = _plain(name)
    shown = {entry: _plain(source_name(entry)) for entry in entries}
    exact = [entry for entry, one in shown.items() if wanted in (one, one.partition("<")[0])]
    return exact or [entry for entry, one in shown.items() if name in entry or wanted in one]


def _plain(name: str) -> str:
    return "".join(name.split())
