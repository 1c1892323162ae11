"""Which of some elements a launch writes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.session import Session
from sglab.emulator.state import Stop

if TYPE_CHECKING:
    from torch import Tensor

Wanted = tuple[str, "Tensor", "Tensor"]
"""Name, tensor, and which of its elements as booleans."""
MOST_WATCHES = 64
"""Ranges of memory that are watched at once; those near to each other are joined."""


@dataclass(frozen=True)
class Span:
    """Memory in the form of a tensor, as Session.watch takes it."""

    address: int
    nbytes: int

    def data_ptr(self) -> int:
        return self.address

    def numel(self) -> int:
        return self.nbytes

    def element_size(self) -> int:
        return 1


def addresses(tensor: Tensor) -> npt.NDArray[np.uint64]:
    """Where each element lies, in the order of `tensor.flatten()`."""
    offsets = np.zeros(tuple(tensor.shape), np.uint64)
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        shape = [1] * tensor.dim()
        shape[axis] = extent
        offsets += (np.arange(extent, dtype=np.uint64) * np.uint64(stride)).reshape(shape)
    return offsets.reshape(-1) * np.uint64(tensor.element_size()) + np.uint64(tensor.data_ptr())


def first_store(launch: CapturedLaunch, wanted: Sequence[Wanted]) -> tuple[str, int] | None:
    """The name and the flat index of the element that the launch writes first; None if it writes none of them."""
    places = [_Elements(name, tensor, where) for name, tensor, where in wanted]
    session = CapturedLaunch.session(launch)
    for span in _joined(places):
        session.watch(span)
    while (stop := session.run()).reason == "breakpoint":
        for elements in places:
            flat = elements.written(session, stop)
            if flat is not None:
                return elements.name, flat
    return None


class _Elements:
    """The wanted elements of a tensor, and what they hold before the launch."""

    def __init__(self, name: str, tensor: Tensor, where: Tensor) -> None:
        self.name, self._tensor = name, tensor
        self._flat = where.flatten().nonzero().flatten().numpy()
        self.addresses = addresses(tensor)[self._flat]
        self.size = tensor.element_size()
        self._order = np.argsort(self.addresses)
        self._sorted = self.addresses[self._order]
        self._before = self._bits()

    def _bits(self) -> npt.NDArray[Any]:
        import torch

        raw = self._tensor.contiguous().flatten().view(torch.uint8).numpy()
        return raw.view(f"V{self.size}" if self.size > 8 else f"u{self.size}")[self._flat]

    def written(self, session: Session, stop: Stop) -> int | None:
        """The first of them that is about to be written, or that an asynchronous operation has just changed."""
        for begin, nbytes in _stores(session, stop):
            low, high = self._sorted.searchsorted([begin - np.uint64(self.size) + np.uint64(1), begin + nbytes])
            if low < high:
                return int(self._flat[self._order[low:high].min()])
        changed = self._bits() != self._before
        return int(self._flat[changed.argmax()]) if changed.any() else None


def _stores(session: Session, stop: Stop) -> Iterator[tuple[np.uint64, np.uint64]]:
    """Address and bytes of each lane of the store that stands next, if the session stopped before one."""
    at = stop.at
    if at is None:
        return
    for group in range(len(session.warp(at.warp, at.cta).groups)):
        access = session.global_access(at.warp, group, at.cta)
        if access is None or not access.writes or access.at is not at.instruction:
            continue
        for lane in range(32):
            if access.lanes >> lane & 1:
                yield access.addresses[lane], np.uint64(access.nbytes)


def _joined(places: Sequence[_Elements]) -> list[Span]:
    """Ranges of memory that hold all elements: those side by side first, then those nearest to each other."""
    starts = np.concatenate([each.addresses for each in places])
    ends = np.concatenate([each.addresses + np.uint64(each.size) for each in places])
    order = np.argsort(starts)
    starts, ends = starts[order], ends[order]
    gaps = starts[1:].astype(np.int64) - ends[:-1].astype(np.int64)
    cuts: Any = np.flatnonzero(gaps > 0)
    if len(cuts) >= MOST_WATCHES:
        cuts = np.sort(cuts[np.argsort(gaps[cuts])[-(MOST_WATCHES - 1) :]])
    firsts, lasts = [0, *(cuts + 1)], [*cuts, len(starts) - 1]
    return [Span(int(starts[i]), int(ends[j] - starts[i])) for i, j in zip(firsts, lasts, strict=True)]
