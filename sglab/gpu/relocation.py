"""A launch that was checked and packed once, on other tensors of the same shapes, strides and dtypes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sglab.gpu.arguments import Allocation
from sglab.gpu.device import Device, Launch
from sglab.gpu.tensor_map import TiledEncoding

MOST_MAPS = 64
"""Tensor maps remembered per launch; then all are forgotten."""
MOST_PLACES = 64
"""Sets of addresses remembered per launch, likewise: allocators give out the same ones again and again."""
_POINTER = struct.Struct("<Q")
_MAP_BYTES = 128


class Relocation:
    """Where each address of a launch comes from: so far into that tensor, or memory that stays where it is.

    Args:
        device: that the launch is for.
        launch: as Kernel.prepare made it, without `extra` tensors.
        tensors: that it was made for and that move; what is no tensor (None) does not.

    Raises:
        ValueError: an address may be of several of the tensors, or it is not known where addresses are.

    Attributes:
        launch: it, without its tensors.
        pointers: where addresses are put among its parameters: (offset, which tensor, bytes into it).
        maps: likewise where tensor maps are, (offset, encoding, which tensor, bytes into it).
    """

    def __init__(self, device: Device, launch: Launch, tensors: Sequence[Any]) -> None:
        if (known := launch.addresses) is None:
            raise ValueError(f"{launch.kernel.name}: it is not known where addresses are among its parameters")
        spans = [_span(tensor) for tensor in tensors]
        self._device, self.launch = device, replace(launch, keep=None, tensors=(), addresses=None)
        self.pointers = [
            (offset, *place) for offset, address in known.pointers if (place := _place(address, spans)) is not None
        ]
        self.maps = [
            (offset, encoding, *place)
            for offset, encoding in known.maps
            if (place := _place(encoding.address, spans)) is not None
        ]
        placed = [(span, _place(span.address, spans)) for span in launch.spans]
        self._fixed = tuple(span for span, place in placed if place is None)
        self._moving = [(*place, span.nbytes, span.name) for span, place in placed if place is not None]
        self._encoded = {
            (offset, encoding.address): launch.params[offset : offset + _MAP_BYTES] for offset, encoding in known.maps
        }
        self._known: dict[tuple[int, ...], Launch] = {}

    def at(self, addresses: Sequence[int], keep: Any = None) -> Launch:
        """The launch where the tensors are now.

        Args:
            addresses: of the tensors, in the order in which they were given; 0 for what is none.
            keep: the tensors, as `keep` of a launch.
        """
        place = tuple(addresses)
        moved = self._known.get(place)
        if moved is None:
            if len(self._known) >= MOST_PLACES:
                self._known.clear()
            moved = self._known[place] = self._moved(place)
        return moved if keep is None else _changed(moved, keep=keep)

    def _moved(self, addresses: tuple[int, ...]) -> Launch:
        params = bytearray(self.launch.params)
        for offset, tensor, into in self.pointers:
            _POINTER.pack_into(params, offset, addresses[tensor] + into)
        for offset, encoding, tensor, into in self.maps:
            params[offset : offset + _MAP_BYTES] = self._map(offset, encoding, addresses[tensor] + into)
        spans = tuple([Allocation(addresses[tensor] + into, size, name) for tensor, into, size, name in self._moving])
        return _changed(self.launch, params=bytes(params), spans=spans + self._fixed)

    def encoded(self, number: int, address: int) -> bytes:
        """The tensor map at `maps[number]` for memory at another address."""
        offset, encoding, *_ = self.maps[number]
        return self._map(offset, encoding, address)

    def _map(self, offset: int, encoding: TiledEncoding, address: int) -> bytes:
        found = self._encoded.get((offset, address))
        if found is None:
            if len(self._encoded) >= MOST_MAPS:
                self._encoded.clear()
            found = self._device.encode(encoding.at(address))
            self._encoded[offset, address] = found
        return found


def _changed(launch: Launch, **fields: Any) -> Launch:
    """dataclasses.replace, in a fifth of its time; what devices have made of the launch stays with it."""
    changed = object.__new__(Launch)
    changed.__dict__.update(launch.__dict__, **fields)
    return changed


def _span(tensor: Any) -> tuple[int, int]:
    """First byte of a tensor, and the one after the last."""
    if not hasattr(tensor, "data_ptr") or not tensor.numel():
        return 0, 0
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start: int = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()


def _place(address: int, spans: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Which tensor an address is in, and how far; None: in none. The rows of two strided tensors may lie between each
    other, so a tensor that begins there comes first."""
    starting = [index for index, (start, end) in enumerate(spans) if start == address < end]
    found = starting or [index for index, (start, end) in enumerate(spans) if start < address < end]
    if len(found) > 1:
        raise ValueError(f"the address {address:#x} is in {len(found)} of the tensors")
    return (found[0], address - spans[found[0]][0]) if found else None
