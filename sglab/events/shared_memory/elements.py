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
WHOLE = (1 << CHUNK) - 1
WORDS = 0x1111
"""A bit of each word of a chunk."""
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
class Extent:
    """Which bytes an instruction touches, in the whole launch: from start to end, or, where chunks are listed, of these
    the bytes in their masks."""

    start: int
    end: int
    chunks: Ints
    masks: Ints


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
    extents: Mapping[int, Extent],
) -> list[ElementSpan]:
    """The elements of every 16 bytes that were accessed, neighbours together.

    An array may be a union: halves are copied in, and sums of another type stored over them. Who writes says what the
    bytes are from then on; else those who read them until they are written again; else what the same instruction wrote
    elsewhere.

    Args:
        moved: what an instruction moves, by pc.
        copied: by event, the element type of what a copy without a tensor map reads. One that reads nothing is not
            listed: zeros are as good for what lay there.
        extents: by pc, the bytes that it touches.
    """
    rows = _Words(run, moved, copied, extents)
    if not rows:
        return []
    table = _Table(*(np.array(column, np.int64) for column in rows.columns()))
    edges = np.unique(np.concatenate([table.start, table.end]))
    masks = np.unique(table.mask)
    if masks.tolist() == [WHOLE]:
        return _merged(edges, _phases(table, edges, rows.names))
    alike: dict[tuple[int, ...], dict[int, Phases]] = {}  # bytes of a chunk of which the same is said
    parts = []
    for byte in range(CHUNK):
        said = tuple((masks >> byte & 1).tolist())
        if said not in alike:
            alike[said] = _phases(table.of_byte(byte), edges, rows.names)
        parts.append(alike[said])
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
    mask: Ints

    def of_byte(self, byte: int) -> _Table:
        mine = self.mask >> byte & 1 > 0
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


def _together(parts: Sequence[Phases]) -> Phases:
    """Of the bytes of a chunk: "f32|s32|f32|s32" where its words differ, as in an array of structs, and
    "s32|bf16,bf16,s8,|s32|bf16,bf16,s8," where bytes of a word do."""
    phases: Phases = []
    for moment in sorted({since for each in parts for since, _ in each}):
        held = [next((name for since, name in reversed(each) if since <= moment), "") for each in parts]
        name = _joined(held) if len(set(held)) > 1 else held[0]
        if not phases or phases[-1][1] != name:
            phases.append((moment, name))
    return phases


def _joined(held: Sequence[str]) -> str:
    words = (held[at : at + 4] for at in range(0, CHUNK, 4))
    return "|".join(word[0] if len(set(word)) == 1 else ",".join(word) for word in words)


class _Reach:
    """What instructions touch, in stretches of chunks of which they touch the same bytes.

    Whole chunks where that says the same: where the others that touch a chunk say the same of it, and the instruction
    touches all words of some. What an array has left over at its ends is as the array.
    """

    def __init__(self, extents: Mapping[int, Extent], moved: Callable[[int], Says]) -> None:
        self._extents = extents
        first = np.full(max((-(-each.end // CHUNK) for each in extents.values()), default=0), -1)
        several = np.zeros(len(first), bool)
        names: dict[str, int] = {}
        for pc, each in extents.items():
            number = names.setdefault(moved(pc).element, len(names))
            mine: Ints | slice = each.chunks if len(each.chunks) else slice(each.start // CHUNK, -(-each.end // CHUNK))
            several[mine] |= (first[mine] >= 0) & (first[mine] != number)
            first[mine] = number
        self._runs = {pc: self._stretches(each, several) for pc, each in extents.items() if len(each.chunks)}

    @staticmethod
    def _stretches(extent: Extent, several: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Ints] | None:
        masks, chunks = extent.masks, extent.chunks
        words = int(np.bitwise_or.reduce(masks | masks >> 1 | masks >> 2 | masks >> 3)) & WORDS
        if words == WORDS:
            masks = np.where(several[chunks], masks, WHOLE)
            if (masks == WHOLE).all():
                return None
        new = np.flatnonzero((np.diff(chunks) != 1) | (np.diff(masks) != 0)) + 1
        begins = np.concatenate([[0], new])
        return chunks[begins], chunks[np.concatenate([new - 1, [len(chunks) - 1]])] + 1, masks[begins]

    def of(self, pc: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """(begin, end, mask) in chunks of what it touches of these bytes; of all that it touches where end is 0."""
        extent = self._extents.get(pc)
        if end <= start:
            start, end = (extent.start, extent.end) if extent else (0, 0)
        begin, last = start // CHUNK, -(-end // CHUNK)
        runs = self._runs.get(pc)
        if runs is None:
            return [(begin, last, WHOLE)]
        begins, ends, masks = runs
        rows = slice(int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(begins, last, "left")))
        clipped = np.maximum(begins[rows], begin).tolist(), np.minimum(ends[rows], last).tolist()
        return list(zip(*clipped, masks[rows].tolist(), strict=True))


class _Words:
    """What moments say, row by row."""

    def __init__(
        self,
        run: SmemRun,
        moved: Callable[[int], Says],
        copied: Mapping[int, str],
        extents: Mapping[int, Extent],
    ) -> None:
        reach = _Reach(extents, moved)
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
                reads = INTEGER if says.element[:1] in ("s", "u") else FLOAT
                for begin, end, mask in reach.of(pc, start, start + nbytes):
                    if kind == LD or says.updates:
                        self._row(number, begin, end, says.element, reads if says.computed else WEAK, False, pc, mask)
                    if kind == ST:
                        self._row(number, begin, end, says.element, WRITER if says.computed else WEAK, True, pc, mask)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def columns(self) -> list[tuple[int, ...]]:
        return list(zip(*self._rows, strict=True))

    def _add(self, moment: int, start: int, end: int, element: str, weight: int, writes: bool, pc: int) -> None:
        self._row(moment, start // CHUNK, -(-end // CHUNK), element, weight, writes, pc, WHOLE)

    def _row(
        self, moment: int, begin: int, end: int, element: str, weight: int, writes: bool, pc: int, mask: int
    ) -> None:
        """begin, end: in chunks."""
        if end <= begin:
            return
        element = "f32" if element == "tf32" else element
        if element not in self._numbers:
            self._numbers[element] = len(self.names)
            self.names.append(element)
        self._rows.append((moment, begin, end, self._numbers[element], weight, writes, pc, mask))


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
