"""What lies where in a CTA's shared memory, and from which moment on: the types of its elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sglab.events.shared_memory.reads import KINDS, SmemRun

Ints = npt.NDArray[np.int64]
Phases: TypeAlias = list[tuple[int, str]]
CHUNK = 16
WHOLE = 15
NOWHERE = (0, 0, WHOLE)
COPY, MMA, LD, ST = (KINDS.index(kind) for kind in ("copy", "mma", "ld", "st"))
WEAK, INTEGER, FLOAT, WRITER = 1, 2, 3, 4
"""How much a word counts: of a dtype elsewhere; of instructions that compute with what was loaded; of who wrote it."""


class Says(Protocol):
    """What an instruction says of the bytes that it moves: see sglab.emulator.moved_elements.Moved."""

    @property
    def element(self) -> str: ...
    @property
    def computed(self) -> bool: ...
    @property
    def updates(self) -> bool: ...


@dataclass(frozen=True)
class ElementSpan:
    """Bytes of the same kind. phases: (from how many moments on, element type, empty where nothing says it)."""

    start: int
    end: int
    phases: tuple[tuple[int, str], ...]


def element_spans(
    run: SmemRun,
    moved: Callable[[int], Says],
    copied: Mapping[int, str],
    extents: Mapping[int, tuple[int, int, int]],
) -> list[ElementSpan]:
    """The elements of every 16 bytes that were accessed, neighbours together.

    An array may be a union: halves are copied in, and sums of another type stored over them. Who writes says what the
    bytes are from then on; else those who read them until they are written again; else what the same instruction wrote
    elsewhere.

    Args:
        moved: what an instruction moves, by pc.
        copied: by event, the element type of what a copy without a tensor map reads. One that reads nothing is not
            listed: zeros are as good for what lay there.
        extents: by pc, where the bytes that it touches begin and end, and a mask of the words of 16 bytes.
    """
    rows = _Words(run, moved, copied, extents)
    if not rows:
        return []
    table = _Table(*(np.array(column, np.int64) for column in rows.columns()))
    edges = np.unique(np.concatenate([table.start, table.end]))
    if (table.words == WHOLE).all():
        return _merged(edges, _phases(table, edges, rows.names))
    parts = [_phases(table.of_word(word), edges, rows.names) for word in range(4)]
    return _merged(
        edges,
        {at: _together([part.get(at, []) for part in parts]) for at in sorted({at for part in parts for at in part})},
    )


@dataclass(frozen=True)
class _Table:
    """What moments say, in columns; start and end in chunks."""

    moment: Ints
    start: Ints
    end: Ints
    kind: Ints
    weight: Ints
    writes: Ints
    pc: Ints
    words: Ints

    def of_word(self, word: int) -> _Table:
        mine = self.words >> word & 1 > 0
        return _Table(*(getattr(self, column.name)[mine] for column in fields(self)))


def _phases(table: _Table, edges: Ints, names: Sequence[str]) -> dict[int, Phases]:
    """By segment between two edges, what it holds since when."""
    if not len(table.moment):
        return {}
    first, last = np.searchsorted(edges, table.start), np.searchsorted(edges, table.end)
    # A row for each word and each segment that it speaks of, by segment and time.
    count = last - first
    word = np.repeat(np.arange(len(count)), count)
    segment = np.arange(len(word)) - np.repeat(np.cumsum(count) - count, count) + first[word]
    order = np.lexsort((word, segment))
    word, segment = word[order], segment[order]
    new = np.concatenate([[True], segment[1:] != segment[:-1]])
    began = new | (table.writes[word] > 0)
    interval = np.cumsum(began) - 1
    chosen = _chosen(interval, table.kind[word], table.weight[word])
    begins = np.flatnonzero(began)
    _from_the_same_writer(chosen, np.where(table.writes[word[begins]] > 0, table.pc[word[begins]], -1))
    since = np.where(new[begins], 0, table.moment[word[begins]])
    found: dict[int, Phases] = {}
    for at, moment, kind in zip(segment[begins].tolist(), since.tolist(), chosen.tolist(), strict=True):
        phases = found.setdefault(at, [])
        if not phases or phases[-1][1] != names[kind]:
            phases.append((moment, names[kind]))
    return found


def _together(words: Sequence[Phases]) -> Phases:
    """Of the four words of 16 bytes: "f32|s32|f32|s32" where they differ, as in an array of structs."""
    phases: Phases = []
    for moment in sorted({since for each in words for since, _ in each}):
        held = [next((name for since, name in reversed(each) if since <= moment), "") for each in words]
        name = held[0] if len(set(held)) == 1 else "|".join(held)
        if not phases or phases[-1][1] != name:
            phases.append((moment, name))
    return phases


class _Words:
    """What moments say, row by row."""

    def __init__(
        self,
        run: SmemRun,
        moved: Callable[[int], Says],
        copied: Mapping[int, str],
        extents: Mapping[int, tuple[int, int, int]],
    ) -> None:
        self.names = [""]
        self._rows: list[tuple[int, ...]] = []
        self._numbers = {"": 0}
        known: dict[int, Says] = {}
        for number, row in enumerate(run.moments[:, :9].tolist()):
            event, _, _, pc, kind, tile, other, start, nbytes = row
            if kind == COPY and tile >= 0:
                self._add(number, start, start + nbytes, run.tiles[tile].element, WRITER, True, pc)
            elif kind == COPY and event in copied:
                self._add(number, start, start + nbytes, copied[event], WEAK, True, pc)
            elif kind == MMA:
                for one in (run.tiles[each] for each in (tile, other) if each >= 0):
                    self._add(number, one.start, one.start + one.bytes, one.element, FLOAT, False, pc)
            elif kind in (LD, ST):
                says = known.get(pc) or known.setdefault(pc, moved(pc))
                begin, end = (start, start + nbytes) if nbytes else extents.get(pc, NOWHERE)[:2]
                words = extents.get(pc, NOWHERE)[2]
                reads = INTEGER if says.element[:1] in ("s", "u") else FLOAT
                if kind == LD or says.updates:
                    self._add(number, begin, end, says.element, reads if says.computed else WEAK, False, pc, words)
                if kind == ST:
                    self._add(number, begin, end, says.element, WRITER if says.computed else WEAK, True, pc, words)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def columns(self) -> list[tuple[int, ...]]:
        return list(zip(*self._rows, strict=True))

    def _add(
        self, moment: int, start: int, end: int, element: str, weight: int, writes: bool, pc: int, words: int = WHOLE
    ) -> None:
        if end <= start:
            return
        element = "f32" if element == "tf32" else element
        if element not in self._numbers:
            self._numbers[element] = len(self.names)
            self.names.append(element)
        self._rows.append((moment, start // CHUNK, -(-end // CHUNK), self._numbers[element], weight, writes, pc, words))


def _chosen(interval: Ints, kind: Ints, weight: Ints) -> Ints:
    """Of each interval the type with the weightiest words, of those the one that most say; 0 where none is said."""
    chosen = np.zeros(interval[-1] + 1, np.int64)
    said = kind > 0
    if not said.any():
        return chosen
    keys = np.stack([interval[said], weight[said], kind[said]], axis=1)
    found, votes = np.unique(keys, axis=0, return_counts=True)
    order = np.lexsort((votes, found[:, 1], found[:, 0]))  # the last of an interval is its best
    chosen[found[order, 0]] = found[order, 2]
    return chosen


def _from_the_same_writer(chosen: Ints, writer: Ints) -> None:
    """Where nothing is said, what the same instruction writes elsewhere, if that is always the same."""
    for pc in np.unique(writer[(chosen == 0) & (writer >= 0)]).tolist():
        mine = writer == pc
        kinds = np.unique(chosen[mine & (chosen > 0)])
        if len(kinds) == 1:
            chosen[mine & (chosen == 0)] = kinds[0]


def _merged(edges: Ints, found: Mapping[int, Phases]) -> list[ElementSpan]:
    spans: list[ElementSpan] = []
    for at, phases in found.items():
        start, end = int(edges[at]) * CHUNK, int(edges[at + 1]) * CHUNK
        if spans and spans[-1].end == start and spans[-1].phases == tuple(phases):
            spans[-1] = ElementSpan(spans[-1].start, end, spans[-1].phases)
        else:
            spans.append(ElementSpan(start, end, tuple(phases)))
    return spans
