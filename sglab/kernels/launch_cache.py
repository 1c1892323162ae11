"""Launches kept for the next call with the same arguments: to recognise them takes some µs, to check and pack them 200.

What decides is the tensors' addresses, shapes, strides and dtypes, not their contents; a decode step's
layers, and the next steps, use the same addresses again. No tensor is kept alive.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from sglab.gpu import Device, Launch
from sglab.gpu.arguments import Held

MOST = 2048
"""Calls remembered per device; then all are forgotten."""

_kept: WeakKeyDictionary[Any, dict[Hashable, tuple[Launch, ...]]] = WeakKeyDictionary()


def described(*tensors: torch.Tensor | None) -> Hashable:
    """All that a launch depends on but the contents."""
    return tuple(
        [
            (each.data_ptr(), each.shape, each.stride(), each.dtype, each.device)
            if isinstance(each, torch.Tensor)
            else type(each)  # None, or what a check refuses
            for each in tensors
        ]
    )


def shaped(*tensors: torch.Tensor | None) -> Hashable:
    """All but contents and addresses: for tensors that no check holds against another's memory."""
    return tuple(
        [
            (each.shape, each.stride(), each.dtype, each.device) if isinstance(each, torch.Tensor) else type(each)
            for each in tensors
        ]
    )


class Known:
    """Calls whose arguments a check has found right, by `described` or `shaped` and whatever else it looks at.

    For checks that read no contents: a decode's layers and the next steps make the same calls again, and to recognise
    one takes a fifth of checking it.
    """

    def __init__(self) -> None:
        self._keys: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def add(self, key: Hashable) -> None:
        """Remember a call that was found right."""
        if len(self._keys) >= MOST:
            self._keys.clear()
        self._keys.add(key)


def kept(device: Device, key: Hashable, make: Callable[[], Sequence[Launch]], keep: Any) -> tuple[Launch, ...]:
    """The launches made for this key before, or those that `make` makes, if it does not raise.

    Args:
        key: whose launches, and `described` for every tensor that they work on.
        keep: these tensors. An emulated device's launch holds them, for it may be stepped when the call is long over.
    """
    known = _kept.setdefault(device, {})
    launches = known.get(key)
    if launches is None:
        launches = tuple([launch.over(None) for launch in make()])
        _remember(known, key, launches)
    if device.torch_device == "cpu":
        return tuple([launch.over(keep) for launch in launches])
    return launches


_packed: WeakKeyDictionary[Any, dict[Hashable, tuple[_Packed, ...]]] = WeakKeyDictionary()


class _Packed(NamedTuple):
    """A launch without its tensors, and of each that it holds the name, the place among the call's, and the address."""

    launch: Launch
    held: tuple[tuple[str, int, int], ...]


def packed(
    device: Device, key: Hashable, make: Callable[[], Sequence[Launch]], tensors: Sequence[torch.Tensor | None]
) -> list[Launch]:
    """As `kept`, of launches that may run later: they hold their tensors and notice when one has moved.

    Args:
        tensors: all that the launches work on.
    """
    known = _packed.setdefault(device, {})
    found = known.get(key)
    if found is None:
        launches = list(make())
        places = {id(tensor): place for place, tensor in enumerate(tensors)}
        found = tuple(
            [
                _Packed(one.over(None), tuple([(name, places[id(of)], address) for name, of, address in one.tensors]))
                for one in launches
            ]
        )
        for one in found:
            _ = one.launch.allocations  # found once for all
        _remember(known, key, found)
        return launches
    keep = tuple(tensors)
    return [one.launch.over(keep, tuple([Held(name, keep[n], at) for name, n, at in one.held])) for one in found]


def _remember(known: dict[Hashable, Any], key: Hashable, value: Any) -> None:
    if len(known) >= MOST:
        known.clear()
    known[key] = value
