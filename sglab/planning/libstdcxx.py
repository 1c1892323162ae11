"""The heap and the sort of GNU libstdc++, element for element.

FlashInfer's planners break ties by whatever `std::push_heap`, `std::pop_heap` and `std::sort` happen to do, so
plans agree with the real ones only if these agree too. Sources: GCC `bits/stl_heap.h` (`__push_heap`,
`__adjust_heap`), `bits/stl_algo.h` (`__introsort_loop`, `__final_insertion_sort`); FlashInfer 0.7.2
`include/flashinfer/attention/heap.h` (`MinHeap`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sglab.planning.check import Int64Array

_EXACT_FLOAT32 = 1 << 24
_THRESHOLD = 16


def charge_cheapest(capacity: int, costs: Iterable[int]) -> Int64Array:
    """Index of the worker that a MinHeap of `capacity` workers gives each cost to, in order; int64.

    Every step pops the cheapest worker and inserts it again with the cost added, in float32.
    """
    last = capacity - 1
    heap = list(range(capacity))  # indices
    load = [0.0] * capacity  # costs, kept in the heap's order
    chosen = []
    for cost in costs:
        index, total = heap[0], load[0] + _float32(cost)
        if total > _EXACT_FLOAT32:
            total = _float32(total)
        chosen.append(index)
        _sift_out_top(heap, load, last)
        hole = last
        while hole > 0:
            parent = (hole - 1) >> 1
            if load[parent] <= total:
                break
            heap[hole], load[hole] = heap[parent], load[parent]
            hole = parent
        heap[hole], load[hole] = index, total
    return np.array(chosen, dtype=np.int64)


def _float32(value: float) -> float:
    return value if value <= _EXACT_FLOAT32 else float(np.float32(value))


def _sift_out_top(heap: list[int], load: list[float], length: int) -> None:
    """`std::pop_heap` on length + 1 elements: the top's place is refilled, the last place is left free."""
    if length == 0:
        return
    index, value = heap[length], load[length]
    hole, child, half = 0, 0, (length - 1) >> 1
    while child < half:
        child = 2 * child + 2
        if load[child] > load[child - 1]:
            child -= 1
        heap[hole] = heap[child]
        load[hole] = load[child]
        hole = child
    if not length & 1 and child == (length - 2) >> 1:
        child = 2 * child + 1
        heap[hole], load[hole] = heap[child], load[child]
        hole = child
    while hole > 0:
        parent = (hole - 1) >> 1
        if load[parent] <= value:
            break
        heap[hole], load[hole] = heap[parent], load[parent]
        hole = parent
    heap[hole], load[hole] = index, value


def sort_descending(keys: Iterable[int]) -> Int64Array:
    """Permutation that `std::sort` with `>` produces: ties fall as introsort leaves them, not stably; int64."""
    items = [(key, position) for position, key in enumerate(keys)]
    if items:
        _introsort(items, 0, len(items), 2 * (len(items).bit_length() - 1))
        _final_insertion_sort(items)
    return np.array([position for _, position in items], dtype=np.int64)


Item = tuple[int, int]


def _before(a: Item, b: Item) -> bool:
    return a[0] > b[0]


def _introsort(items: list[Item], first: int, last: int, depth: int) -> None:
    while last - first > _THRESHOLD:
        if depth == 0:
            _heap_sort(items, first, last)
            return
        depth -= 1
        cut = _partition_around_median(items, first, last)
        _introsort(items, cut, last, depth)
        last = cut


def _partition_around_median(items: list[Item], first: int, last: int) -> int:
    """`__unguarded_partition_pivot`: median of three to the front, then Hoare's partition."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if _before(items[a], items[b]):
        median = b if _before(items[b], items[c]) else c if _before(items[a], items[c]) else a
    else:
        median = a if _before(items[a], items[c]) else c if _before(items[b], items[c]) else b
    items[first], items[median] = items[median], items[first]
    pivot, low, high = items[first], first + 1, last
    while True:
        while _before(items[low], pivot):
            low += 1
        high -= 1
        while _before(pivot, items[high]):
            high -= 1
        if low >= high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1


def _final_insertion_sort(items: list[Item]) -> None:
    """Insertion sort, whose outcome does not depend on how libstdc++ divides it in two."""
    for position in range(1, len(items)):
        value, hole = items[position], position
        while hole > 0 and _before(value, items[hole - 1]):
            items[hole] = items[hole - 1]
            hole -= 1
        items[hole] = value


def _heap_sort(items: list[Item], first: int, last: int) -> None:
    """`std::partial_sort` of the whole range, which introsort falls back on at its depth limit."""
    part = items[first:last]
    for parent in range((len(part) - 2) >> 1, -1, -1):
        _adjust(part, parent, len(part), part[parent])
    for end in range(len(part) - 1, 0, -1):
        value, part[end] = part[end], part[0]
        _adjust(part, 0, end, value)
    items[first:last] = part


def _adjust(part: list[Item], top: int, length: int, value: Item) -> None:
    hole = child = top
    while child < (length - 1) >> 1:
        child = 2 * child + 2
        if _before(part[child], part[child - 1]):
            child -= 1
        part[hole] = part[child]
        hole = child
    if not length & 1 and child == (length - 2) >> 1:
        child = 2 * child + 1
        part[hole] = part[child]
        hole = child
    while hole > top and _before(part[(hole - 1) >> 1], value):
        part[hole] = part[(hole - 1) >> 1]
        hole = (hole - 1) >> 1
    part[hole] = value
