"""Random live tensors: standard normal queries and KV rows, drawn on the CPU so that every device gets the same."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from sglab.engine.cache.kv_pool import KVCache
from sglab.engine.layer import RadixAttention
from sglab.engine.model_runner import ModelRunner

_ROWS_AT_ONCE = 8192


class RandomRows:
    """A stream of random rows from one seed."""

    def __init__(self, seed: int, runner: ModelRunner) -> None:
        self._generator = torch.Generator("cpu").manual_seed(seed)
        self._runner = runner

    def queries(self, layer: RadixAttention, count: int) -> torch.Tensor:
        """[count, num_heads, head_dim]."""
        return self._draw(count, layer.tp_q_head_num, layer.head_dim)

    def fill_kv(self, slots: torch.Tensor) -> None:
        """New rows in every layer of the KV pool."""
        for buffer in _buffers(self._runner.token_to_kv_pool):
            for some in slots.split(_ROWS_AT_ONCE):
                buffer[some] = self._draw(len(some), *buffer.shape[1:])

    def _draw(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self._generator, device="cpu").to(self._runner.device, self._runner.dtype)


def copy_kv(pool: KVCache, source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy rows between slots, in every layer."""
    for buffer in _buffers(pool):
        buffer[target] = buffer[source]


def kv_rows(pool: KVCache, slots: torch.Tensor) -> list[torch.Tensor]:
    """Copies of the rows in these slots, for `put_kv_rows`."""
    return [buffer[slots] for buffer in _buffers(pool)]


def put_kv_rows(pool: KVCache, slots: torch.Tensor, rows: list[torch.Tensor]) -> None:
    for buffer, kept in zip(_buffers(pool), rows, strict=True):
        buffer[slots] = kept


def _buffers(pool: KVCache) -> Iterator[torch.Tensor]:
    for layer_id in range(pool.start_layer, pool.start_layer + pool.layer_num):
        yield from pool.named_buffers(layer_id).values()
