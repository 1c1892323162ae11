"""Memory in which sanitizers found something: what to write to watch it, and which values of a watch it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from sglab.emulator.session import Session
from sglab.emulator.watch import DTYPES, Watch, WatchParser
from sglab.gpu.findings import Finding

MOST_ELEMENTS = 32
"""Of a finding's memory that its expression names."""
RANK_SHIFT = 24
"""Of the CTA's rank in a finding's shared address."""


@dataclass(frozen=True)
class Place:
    """Bytes from begin to end, of global memory or of one CTA's shared memory."""

    space: str
    begin: int
    end: int
    cta: int | None = None

    @staticmethod
    def of(session: Session, finding: Finding) -> Place | None:
        """Of a finding; None where it is about no memory that can be watched."""
        if finding.space == "global":
            return Place("global", finding.address, finding.address + finding.nbytes)
        if finding.space != "shared" or finding.at is None:
            return None
        geometry = session.launch.geometry
        cta = int(geometry.neighbour(geometry.linear(finding.at.cta), finding.address >> RANK_SHIFT))
        offset = finding.address & ((1 << RANK_SHIFT) - 1)
        return Place("shared", offset, offset + finding.nbytes, cta)


def expression(parser: WatchParser, session: Session, finding: Finding) -> str:
    """What the reader would write to watch the memory of a finding, by a name where it has one; "" if it has none, as
    memory out of bounds."""
    place = Place.of(session, finding)
    if place is None:
        return ""
    if place.space == "global":
        return _tensor(parser, place)
    whose = f"@{place.cta}" if session.launch.geometry.ctas > 1 else ""
    for name, (begin, nbytes) in parser.shared.items():
        if begin <= place.begin and place.end <= begin + nbytes:
            size, dtype = DTYPES[parser.shared_dtype(name)][1], ""
            if (place.begin - begin) % size or (place.end - place.begin) % size:
                size, dtype = 1, ":u8"
            return f"{name}{whose}[{_range(place, begin, size)}]{dtype}"
    size = 4 if place.begin % 4 == 0 and (place.end - place.begin) % 4 == 0 else 1
    count = min(MOST_ELEMENTS, (place.end - place.begin) // size)
    return f"smem{whose}+0x{place.begin:x}*{count}:{'f32' if size == 4 else 'u8'}"


def touched(watch: Watch, focus: int | None, places: list[Place | None]) -> list[list[int]]:
    """[number of a place, element of the watch] of what lies in both."""
    cta = focus if watch.cta is None else watch.cta
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(watch.shape, watch.strides, strict=True):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    first = watch.begin + offsets
    found = []
    for number, place in enumerate(places):
        if place is None or place.space != watch.space or (place.space == "shared" and place.cta != cta):
            continue
        inside = (first < place.end) & (first + watch.itemsize > place.begin)
        found += [[number, int(element)] for element in np.flatnonzero(inside)]
    return found


def _tensor(parser: WatchParser, place: Place) -> str:
    for name, tensor in parser.tensors.items():
        size, begin = tensor.element_size(), tensor.data_ptr()
        inside = begin <= place.begin and place.end <= begin + tensor.numel() * size
        if not inside or not tensor.is_contiguous():
            continue
        shape = tuple(tensor.shape) or (1,)
        first = (place.begin - begin) // size
        *row, column = (int(i) for i in np.unravel_index(first, shape))
        last = min(shape[-1], column + min(MOST_ELEMENTS, ceil((place.end - begin) / size) - first))
        if not tensor.dim():
            return name
        return f"{name}[{', '.join([*map(str, row), _span(column, last)])}]"
    return ""


def _range(place: Place, begin: int, size: int) -> str:
    first = (place.begin - begin) // size
    return _span(first, first + min(MOST_ELEMENTS, (place.end - place.begin) // size))


def _span(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first}:{end}"
