"""HostKVPool: KV rows in the host's memory, with slots of their own. Source: SGLang `mem_cache/memory_pool_host.py`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator, TokenToKVPoolAllocator
from sglab.engine.cache.kv_pool import KVCache
from sglab.engine.cache.paged_allocator import PagedTokenToKVPoolAllocator
from sglab.engine.cache.zeroed import zeroed


class HostKVPool:
    """As many buffers as the device's pool has, layer by layer, pinned where the device is a GPU.

    Args:
        device_pool: whose rows are kept.
        size: slots, whole pages.

    Attributes:
        allocator: of the host's slots; page 0 is never handed out, as on the device.
        copied: is called after every copy with its slots of the host and of the device and whether they came back: the
            pools of other ranks do the same; None: there are none.
    """

    def __init__(self, device_pool: KVCache, size: int) -> None:
        page = device_pool.page_size
        self.copied: Callable[[torch.Tensor, torch.Tensor, bool], None] | None = None
        self.allocator: BaseTokenToKVPoolAllocator = (
            TokenToKVPoolAllocator(size) if page == 1 else PagedTokenToKVPoolAllocator(size, page)
        )
        layers = range(device_pool.start_layer, device_pool.start_layer + device_pool.layer_num)
        self._device = [each for layer in layers for each in device_pool.stored_bytes(layer)]
        self._in_pages = device_pool.in_pages
        pinned = device_pool.device.type == "cuda"
        shapes = [(size // page + 1, page, each.shape[2]) for each in self._device]
        self._host = [
            torch.zeros(shape, dtype=torch.uint8, device="cpu", pin_memory=True)
            if pinned
            else zeroed(shape, torch.uint8, "cpu")
            for shape in shapes
        ]

    def backup(self, host_slots: torch.Tensor, device_slots: torch.Tensor) -> None:
        """Copy rows from the device: int64 [n] each."""
        to, of = self._in_pages(host_slots), self._in_pages(device_slots)
        for host, device in zip(self._host, self._device, strict=True):
            host[to] = device[of].cpu()
        if self.copied is not None:
            self.copied(host_slots, device_slots, False)

    def load(self, host_slots: torch.Tensor, device_slots: torch.Tensor) -> None:
        """Copy rows back: int64 [n] each."""
        to, of = self._in_pages(device_slots), self._in_pages(host_slots)
        for host, device in zip(self._host, self._device, strict=True):
            device[to] = host[of].to(device.device)
        if self.copied is not None:
            self.copied(host_slots, device_slots, True)

    def used(self) -> int:
        """Slots that hold rows."""
        return self.allocator.size - self.allocator.available_size()
