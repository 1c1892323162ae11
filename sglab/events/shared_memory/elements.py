"""What lies where in a CTA's shared memory, and from which moment on: the types of its elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sglab.events.shared_memory.reads import KINDS, SmemRun

Ints = npt.NDArray[np.int64]
CHUNK = 16
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
    extents: Mapping[int, tuple[int, int]],
) -> list[ElementSpan]:
    """The elements of every 16 bytes that were accessed, neighbours together.

    An array may be a union: halves are copied in, and sums of another type stored over them. Who writes says what the
    bytes are from then on; else those who read them until they are written again; else what the same instruction wrote
    elsewhere.

    Args:
        moved: what an instruction moves, by pc.
        copied: by event, the element type of what a copy without a tensor map reads. One that reads nothing is not
            listed: zeros are as good for what lay there.
        extents: by pc, the bytes that it touches, of instructions whose moments do not say.
    """
    rows = _Words(run, moved, copied, extents)
    if not rows:
        return []
    moment, start, end, kind, weight, writes, pc = (np.array(column, np.int64) for column in rows.columns())
    start, end = start // CHUNK, -(-end // CHUNK)
    edges = np.unique(np.concatenate([start, end]))
    first, last = np.searchsorted(edges, start), np.searchsorted(edges, end)
    # A row for each word and each segment between two edges that it speaks of, by segment and time.
    count = last - first
    word = np.repeat(np.arange(len(count)), count)
    segment = np.arange(len(word)) - np.repeat(np.cumsum(count) - count, count) + first[word]
    order = np.lexsort((word, segment))
    word, segment = word[order], segment[order]
    new = np.concatenate([[True], segment[1:] != segment[:-1]])
    began = new | (writes[word] > 0)
    interval = np.cumsum(began) - 1
    chosen = _chosen(interval, kind[word], weight[word])
    begins = np.flatnonzero(began)
    _from_the_same_writer(chosen, np.where(writes[word[begins]] > 0, pc[word[begins]], -1))
    since = np.where(new[begins], 0, moment[word[begins]])
    return _merged(edges, segment[begins], since, [rows.names[one] for one in chosen.tolist()])


class _Words:
    """What moments say, in columns: moment, start, end, number of the element type, weight, whether it writes, pc."""

    def __init__(
        self,
        run: SmemRun,
        moved: Callable[[int], Says],
        copied: Mapping[int, str],
        extents: Mapping[int, tuple[int, int]],
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
                begin, end = (start, start + nbytes) if nbytes else extents.get(pc, (0, 0))
                reads = INTEGER if says.element[:1] in ("s", "u") else FLOAT
                if kind == LD or says.updates:
                    self._add(number, begin, end, says.element, reads if says.computed else WEAK, False, pc)
                if kind == ST:
                    self._add(number, begin, end, says.element, WRITER if says.computed else WEAK, True, pc)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def columns(self) -> list[tuple[int, ...]]:
        return list(zip(*self._rows, strict=True))

    def _add(self, moment: int, start: int, end: int, element: str, weight: int, writes: bool, pc: int) -> None:
        if end <= start:
            return
        element = "f32" if element == "tf32" else element
        if element not in self._numbers:
            self._numbers[element] = len(self.names)
            self.names.append(element)
        self._rows.append((moment, start, end, self._numbers[element], weight, writes, pc))


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


def _merged(edges: Ints, segment: Ints, since: Ints, element: list[str]) -> list[ElementSpan]:
    by_segment: dict[int, list[tuple[int, str]]] = {}
    for at, moment, name in zip(segment.tolist(), since.tolist(), element, strict=True):
        phases = by_segment.setdefault(at, [])
        if not phases or phases[-1][1] != name:
            phases.append((moment, name))
    spans: list[ElementSpan] = []
    for at, phases in by_segment.items():
        start, end = int(edges[at]) * CHUNK, int(edges[at + 1]) * CHUNK
        if spans and spans[-1].end == start and spans[-1].phases == tuple(phases):
            spans[-1] = ElementSpan(spans[-1].start, end, spans[-1].phases)
        else:
            spans.append(ElementSpan(start, end, tuple(phases)))
    return spans
