"""The plan of our own SM90 MLA decode kernel: which part of the grid attends to which tokens of which request.

A part is one CTA per 64 heads. There are two ways to cut. Into work units of at most `limit` tiles, as equal as they
can be, dealt out, longest first, to the part with the least to do. Or in a row, as FlashMLA does: part after part is
filled to the same load, and a request is cut where a part is full; that balances what equal pieces do not fit. Which
way and which limit is best depends on what a work unit, a tile and a partial result cost; `WorkCost` says that in
microseconds, and the plan with the lowest modelled time wins.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.arith import ceil_div

Int32Array = NDArray[np.int32]
IntArray = NDArray[np.int64]
TILE = 64
"""KV tokens per tile."""
HEADS_PER_CTA = 64
MAX_SPLITS = 256
"""What the combine kernel can merge."""
NO_WORK = -1
"""Request number where a part has no further work unit."""
IN_A_ROW_PAYS = 0.99
"""Of the modelled time of equal pieces, which are cut where a row promises less. Of 56 shapes on an H200, 19 were
promised more, and all of these were faster in a row, by up to 15 %; where it promised less, rows lost as often as won.
"""
ROUNDING = 1e-9
"""Far more than a sum of loads is rounded by, of it."""
NO_SLOT = -1
"""In place of a slot: the work unit is its request's only one and writes the result itself."""


@dataclass(frozen=True)
class WorkCost:
    """Modelled times in µs, fitted to 25 steps measured on an H100 SXM, plans that lost included: 5 % off (root mean
    square), 6 % for a shape that the fit has not seen.

    What the busiest CTA computes and starts overlaps with the reading of all bytes, but not wholly: both together take
    the root of the sum of their squares. The larger of the two would leave SMs idle wherever that is the bytes.

    Plans are compared by it, so `start`, which all have, matters only where a plan must pay by a share of the whole.

    Attributes:
        start: the launch, and starting and ending a CTA's first work unit.
        tile: what a CTA needs for 64 tokens when it computes all the time.
        tile_bytes: what the whole device needs to read 64 tokens once.
        work: what every further work unit of a CTA adds.
        combine: the combine kernel with next to nothing to do.
        slot: writing and reading a partial result of 64 heads.
    """

    start: float = 12.8
    tile: float = 1.24
    tile_bytes: float = 0.0238
    work: float = 7.8
    combine: float = 2.0
    slot: float = 0.035


@dataclass(frozen=True)
class MlaSm90Plan:
    """works int32 (rounds, parts, 4), the work units: request, first token, end token, slot or −1. Part p does
    works[:, p], the longest first, up to the first whose request is −1.

    split_requests int32 (n,): the requests with several work units, whose partial results must be combined
    slot_indptr int32 (n + 1,): entry i's partial results are in slots slot_indptr[i] to slot_indptr[i + 1]

    Attributes:
        limit: the most tiles of a work unit.
        in_a_row: requests were cut where a part was full.
        microseconds: the modelled time.
    """

    works: Int32Array
    split_requests: Int32Array
    slot_indptr: Int32Array
    limit: int
    microseconds: float
    in_a_row: bool = False

    @property
    def parts(self) -> int:
        return self.works.shape[1]

    @property
    def slots(self) -> int:
        return int(self.slot_indptr[-1])


def mla_sm90_plan(
    seq_lens: ArrayLike,
    *,
    num_heads: int,
    sm_count: int,
    cost: WorkCost | None = None,
    limit: int | None = None,
) -> MlaSm90Plan:
    """Plan one decode step of `seq_lens` KV tokens per request.

    Args:
        limit: the most tiles per work unit; None chooses it by modelled time.

    Raises:
        ValueError: a length is negative, or a limit would cut a request into more than 256 splits.
    """
    lengths = check.lengths("seq_lens", seq_lens).tolist()
    heads = check.integer("num_heads", num_heads, minimum=1, maximum=128)
    head_blocks = ceil_div(heads, HEADS_PER_CTA)
    parts = max(check.integer("sm_count", sm_count, minimum=1) // head_blocks, 1)
    tiles = [ceil_div(length, TILE) for length in lengths]
    least = max(1, ceil_div(max(tiles), MAX_SPLITS))
    if limit is not None:
        candidates = [check.integer("limit", limit, minimum=least)]
    else:
        candidates = _candidates(tiles, parts, least)
    model = _Model(tiles, parts, head_blocks, cost or WorkCost())
    best, equal = model.best(candidates)
    if limit is None and (row := model.in_a_row()) is not None and row[1] < IN_A_ROW_PAYS * equal:
        return _plan(lengths, row[0], parts, row[1], in_a_row=True)
    requests = _unit_tiles(tiles, best)
    where = _deal([units * model.cost.tile + model.cost.work for each in requests for units in each], parts)
    return _plan(lengths, _placed(requests, where), parts, equal)


def _candidates(tiles: list[int], parts: int, least: int) -> list[int]:
    """Limits worth a look: those that cut the longest request evenly, and the mean load of a part."""
    longest = max(max(tiles), 1)
    limits = {ceil_div(longest, splits) for splits in range(1, min(longest, MAX_SPLITS, 2 * parts) + 1)}
    limits.add(ceil_div(sum(tiles), parts))
    return sorted(limit for limit in limits if limit >= least)


def _unit_tiles(tiles: list[int], limit: int) -> list[list[int]]:
    """Per request the tiles of each of its work units, which differ by one at most; of a request of length 0, [0]."""
    shares = []
    for count in tiles:
        units = max(ceil_div(count, limit), 1)
        shares.append([(i + 1) * count // units - i * count // units for i in range(units)])
    return shares


class _Model:
    """The modelled time of limits."""

    def __init__(self, tiles: list[int], parts: int, head_blocks: int, cost: WorkCost) -> None:
        self.tiles, self.parts, self.head_blocks, self.cost = tiles, parts, head_blocks, cost
        self._bytes = sum(tiles) * cost.tile_bytes

    def best(self, limits: list[int]) -> tuple[int, float]:
        """The limit of the least modelled time, of several the smallest; and that time.

        Dealing is what takes long, so limits are looked at in the order of a time that they cannot be below, until that
        is above the best: a part does its largest unit, one has at least the mean.
        """
        cost, tiles = self.cost, np.array(self.tiles, np.int64)
        units = np.maximum(-(-tiles // np.array(limits, np.int64)[:, None]), 1)
        largest = (-(-tiles // units)).max(1) * cost.tile + cost.work
        mean = (tiles.sum() * cost.tile + units.sum(1) * cost.work) / self.parts * (1 - ROUNDING)
        after = [self._combine(slots) for slots in np.where(units > 1, units, 0).sum(1).tolist()]
        least = [
            self._attention(load) + combine
            for load, combine in zip(np.maximum(largest, mean).tolist(), after, strict=True)
        ]
        time, limit = math.inf, limits[0]
        for i in sorted(range(len(limits)), key=lambda i: (least[i], limits[i])):
            if least[i] > time:
                break
            found = self._attention(self._longest(tiles, units[i], self._load(time - after[i]))) + after[i]
            if (found, limits[i]) < (time, limit):
                time, limit = found, limits[i]
        return limit, time

    def _longest(self, tiles: IntArray, units: IntArray, most: float) -> float:
        """The heaviest part's load when each request's units are dealt out; infinity if it is well above `most`.

        Which part is which does not matter to it, nor which of several equal units comes first.
        """
        cost, parts = self.cost, self.parts
        small, rest = tiles // units, tiles % units
        count = np.bincount(np.concatenate((small, small + 1)), np.concatenate((units - rest, rest)))
        sizes = np.flatnonzero(count)[::-1]
        loads = np.repeat(sizes * cost.tile + cost.work, count[sizes].astype(np.int64))
        if len(loads) <= parts:
            return float(loads[0])
        heap = loads[parts - 1 :: -1].tolist()  # one each for the first; in ascending order, which is a heap
        limit, replace = most * (1 + ROUNDING), heapq.heapreplace
        for load in loads[parts:].tolist():
            made = heap[0] + load
            if made > limit:
                return math.inf
            replace(heap, made)
        return max(heap)

    def in_a_row(self) -> tuple[Placed, float] | None:
        """Each part filled before the next, and the modelled time; None where a request has too many pieces."""
        cost = self.cost
        # A cut adds a work unit, so the load that fits is a little above the mean without cuts.
        total = sum(count * cost.tile + cost.work for count in self.tiles) + (self.parts - 1) * cost.work
        requests = _filled(self.tiles, self.parts, total / self.parts, cost)
        if max(map(len, requests)) > MAX_SPLITS:
            return None
        loads = [0.0] * self.parts
        for units in requests:
            for unit, part in units:
                loads[part] += unit * cost.tile + cost.work
        slots = sum(len(units) for units in requests if len(units) > 1)
        return requests, self._attention(max(loads)) + self._combine(slots)

    def _attention(self, load: float) -> float:
        """The time of the kernel whose heaviest part has this load."""
        return self.cost.start + math.hypot(load - self.cost.work, self._bytes)

    def _load(self, attention: float) -> float:
        """The load with which the kernel takes so long; infinity where none is so fast."""
        rest = attention - self.cost.start
        return self.cost.work + math.sqrt(rest**2 - self._bytes**2) if rest > self._bytes else math.inf

    def _combine(self, slots: int) -> float:
        """Of so many partial results."""
        return self.cost.combine + slots * self.head_blocks * self.cost.slot if slots else 0.0


Placed = list[list[tuple[int, int]]]
"""Of each request its work units: tiles, and the part that does them."""


def _placed(requests: list[list[int]], where: list[int]) -> Placed:
    """The units with the parts that they were dealt to, in the requests' order."""
    dealt = iter(where)
    return [[(units, next(dealt)) for units in each] for each in requests]


def _filled(tiles: list[int], parts: int, load: float, cost: WorkCost) -> Placed:
    """Requests in a row over the parts, each with work of about `load` µs; the last takes what is left."""
    requests: Placed = []
    part, room = 0, load
    for count in tiles:
        units: list[tuple[int, int]] = []
        left = count
        while True:
            fits = max(round((room - cost.work) / cost.tile), 0)
            if fits < min(left, 1) and part < parts - 1:
                part, room = part + 1, load
                continue
            taken = left if part == parts - 1 else min(left, fits)
            units.append((taken, part))
            left, room = left - taken, room - taken * cost.tile - cost.work
            if not left:
                break
            part, room = part + 1, load + room
        requests.append(units)
    return requests


def _deal(loads: list[float], parts: int) -> list[int]:
    """Which part does each, the heaviest first to the least loaded part."""
    heap = [(0.0, part) for part in range(parts)]
    where = [0] * len(loads)
    for index in sorted(range(len(loads)), key=lambda i: (-loads[i], i)):
        load, part = heap[0]
        where[index] = part
        heapq.heapreplace(heap, (load + loads[index], part))
    return where


def _plan(lengths: list[int], requests: Placed, parts: int, microseconds: float, in_a_row: bool = False) -> MlaSm90Plan:
    units: list[tuple[int, int, int, int]] = []
    where: list[int] = []
    split_requests: list[int] = []
    slot_indptr = [0]
    for request, shares in enumerate(requests):
        slot = slot_indptr[-1] if len(shares) > 1 else NO_SLOT
        ends = [min(end * TILE, lengths[request]) for end in accumulate(tiles for tiles, _ in shares)]
        for begin, end, (_, part) in zip([0, *ends], ends, shares, strict=False):
            units.append((request, begin, end, slot))
            where.append(part)
            slot += slot != NO_SLOT
        if len(shares) > 1:
            split_requests.append(request)
            slot_indptr.append(slot)
    return MlaSm90Plan(
        works=_rounds(units, where, parts),
        split_requests=np.array(split_requests, np.int32),
        slot_indptr=np.array(slot_indptr, np.int32),
        limit=max(tiles for shares in requests for tiles, _ in shares),
        microseconds=microseconds,
        in_a_row=in_a_row,
    )


def _rounds(units: list[tuple[int, int, int, int]], where: list[int], parts: int) -> Int32Array:
    """The work units of each part below each other, the longest first."""
    columns: list[list[tuple[int, int, int, int]]] = [[] for _ in range(parts)]
    for unit, part in sorted(zip(units, where, strict=True), key=lambda pair: pair[0][1] - pair[0][2]):
        columns[part].append(unit)
    rounds = np.full((max(map(len, columns)), parts, 4), NO_WORK, np.int32)
    for part, column in enumerate(columns):
        for turn, unit in enumerate(column):
            rounds[turn, part] = unit
    return rounds
