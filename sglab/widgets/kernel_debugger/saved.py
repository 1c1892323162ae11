"""The moments that a saved page can show: those around the present, and those at which the reader stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sglab.emulator.names import Names
from sglab.emulator.session import Session
from sglab.gpu import KernelError

from ..wire import WireArray
from .code import CodeTables
from .sentences import capitalised, sentence
from .state import Focus, registers, snapshot

AROUND = 150
"""Positions before the present one and after it that are kept one by one."""
MOST_BYTES = 24 << 20
"""Of distinct register values, before compression."""

ReadWatches = Callable[[Focus], list[dict[str, Any]]]


class Interned:
    """Byte strings, each distinct one once: neighbouring moments share nearly all."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self.size = 0

    def add(self, data: bytes) -> int:
        number = self._known.setdefault(data, len(self._known))
        if number == len(self._known) - 1:
            self.size += len(data)
        return number

    def tensors(self, name: str) -> dict[str, Any]:
        starts = np.cumsum([0, *map(len, self._known)], dtype=np.int32)
        values = np.frombuffer(b"".join(self._known), np.uint8)
        return {f"{name}.bytes": WireArray(values).saved(), f"{name}.start": WireArray(starts).saved()}


class Recorder:
    """Collects moments. A moment's registers are a set per group of lanes, a set is pairs of (register, values)."""

    def __init__(
        self, session: Session, names: Names, read_watches: ReadWatches, register_types: Mapping[str, str]
    ) -> None:
        self._session, self._names_of, self._read_watches = session, names, read_watches
        self._types = register_types
        self._values, self._sets = Interned(), Interned()
        self._names: dict[tuple[Any, ...], int] = {}
        self.rows: dict[int, dict[str, Any]] = {}

    @property
    def full(self) -> bool:
        return self._values.size + self._sets.size > MOST_BYTES

    def keep(self, words: str, failed: bool) -> None:
        """The session's present moment."""
        session = self._session
        focus = Focus(session, None, None, 0)
        row = snapshot(session, focus, self._names_of)
        row["sentence"], row["failed"] = words, failed
        row["watches"] = self._read_watches(focus)
        row["sets"] = [
            [warp["cta"], warp["warp"], group, self._set(warp["cta"], warp["warp"], group)]
            for warp in row["warps"]
            for group in range(len(warp["groups"]))
        ]
        self.rows[session.now] = row

    def _set(self, cta: int, warp: int, group: int) -> int:
        found, data = registers(self._session, cta, warp, group, self._types)
        pairs = [
            (self._names.setdefault(tuple(row), len(self._names)), self._values.add(values))
            for row, values in zip(found, data, strict=True)
        ]
        return self._sets.add(np.array(pairs, "<i4").tobytes())

    def tensors(self, common: dict[str, Any]) -> dict[str, Any]:
        """Everything, as Widget.saved has its tensors."""
        content = {
            **common,
            "job": None,
            "registers": [list(name) for name in self._names],
            "moments": [self.rows[position] for position in sorted(self.rows)],
        }
        text = json.dumps(content, separators=(",", ":"), default=_plain).encode()
        moments = WireArray(np.frombuffer(text, np.uint8)).saved()
        return {"moments": moments, **self._values.tensors("values"), **self._sets.tensors("sets")}


def saved_moments(
    session: Session,
    names: Names,
    visits: Sequence[int],
    common: dict[str, Any],
    read_watches: ReadWatches,
    code: CodeTables,
) -> dict[str, Any]:
    """Tensors with the moments around the present one and those visited. The session is left as it was found."""
    here, origin, failed = session.now, session.moment, session.fault is not None
    recorder = Recorder(session, names, read_watches, code.float_types)
    recorder.keep(common["sentence"], failed)
    length = common["length"]
    near = sorted(range(max(0, here - AROUND), min(length, here + AROUND) + 1), key=lambda at: abs(at - here))
    with session.quiet():
        try:
            for position in [*reversed(visits), 0, length, *near]:
                if position in recorder.rows or recorder.full:
                    continue
                session.seek(position)
                recorder.keep(capitalised(sentence(session, None, None, code.line_of)), False)
        finally:
            _return(session, origin, failed)
    return recorder.tensors({**common, "present": here})


def _return(session: Session, moment: int, failed: bool) -> None:
    """To a moment; if the session had failed there, it does so again."""
    try:
        session.return_to(moment)
        if failed:
            session.step()
    except KernelError:
        return


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be saved")
