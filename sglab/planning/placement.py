"""A model of where and when CTAs run. It is a picture of a plan's balance, not a measurement.

The device takes CTAs (or clusters) in launch order; each goes to the slot that is free first, the lowest slot on
ties. A CTA's work costs its KV tokens and nothing else: no launch, no prologue, no merge, no sharing of bandwidth
between slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace

import numpy as np

from sglab.planning.arith import exclusive_cumsum
from sglab.planning.check import Int64Array


@dataclass(frozen=True)
class Placement:
    """Per work unit (int64): its slot, its turn there (`wave`, from 0), and its start and end in KV tokens."""

    slot: Int64Array
    wave: Int64Array
    start: Int64Array
    end: Int64Array


def place(launch_index: Int64Array, cost: Int64Array, num_launched: int, num_slots: int) -> Placement:
    """Run work units, each belonging to the CTA or cluster that was launched `launch_index`-th of `num_launched`.

    Units of one CTA run one after the other, in the order given. CTAs without units take no time.
    """
    total = np.bincount(launch_index, weights=cost, minlength=num_launched).astype(np.int64)
    slot_of, start_of = _earliest_free(total, num_slots)
    slot = slot_of[launch_index]
    order = np.argsort(launch_index, kind="stable")
    elapsed = exclusive_cumsum(cost[order])
    launched = launch_index[order]
    start = np.empty_like(cost)
    start[order] = start_of[launched] + elapsed[:-1] - elapsed[np.searchsorted(launched, launched)]
    wave = np.empty_like(cost)
    wave[order] = _turns(slot[order])
    return Placement(slot, wave, start, start + cost)


def _earliest_free(cost: Int64Array, num_slots: int) -> tuple[Int64Array, Int64Array]:
    """(slot, start) of every CTA in launch order."""
    if cost.size <= num_slots:
        return np.arange(cost.size), np.zeros(cost.size, np.int64)
    slot, start = np.zeros(cost.size, np.int64), np.zeros(cost.size, np.int64)
    busy = np.flatnonzero(cost)  # the others leave no trace
    # one integer per slot: when it is free, times the slots, plus its number
    free = list(range(num_slots))
    taken = [heapreplace(free, free[0] + step) for step in (cost[busy] * num_slots).tolist()]
    start[busy], slot[busy] = np.divmod(np.array(taken, dtype=np.int64), num_slots)
    return slot, start


def _turns(slot: Int64Array) -> Int64Array:
    """How often each entry's slot occurred before it; entries are in launch order, so in time order on a slot."""
    by_slot = np.argsort(slot.astype(np.uint16), kind="stable")  # 16-bit keys sort by radix
    ordered = slot[by_slot]
    turn = np.empty_like(slot)
    turn[by_slot] = np.arange(slot.size) - np.searchsorted(ordered, ordered)
    return turn
