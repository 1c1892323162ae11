"""KV pools: the third level, token slot -> key and value rows, one buffer (or two) per layer.

Every buffer has size + page_size rows: slots 0 .. page_size - 1 are the dummy page, which padded rows of a CUDA graph
write to. Rows start at zero and must stay finite: a kernel multiplies whole tiles of V, masked rows included.
Source: SGLang 0.5.9 `mem_cache/memory_pool.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch

from sglab.engine import arguments
from sglab.engine.cache.zeroed import zeroed
from sglab.engine.errors import BadArgumentError
from sglab.engine.layer import RadixAttention
from sglab.kernels import set_mla_kv_buffer
from sglab.kernels.contract import reads_values

_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


class KVCache(ABC):
    """What the pools share.

    Args:
        size: slots that requests can own; a multiple of page_size.
        page_size: slots per page.
        dtype: element type. FP8 is stored as uint8 (index_put has no FP8 kernel) and viewed on the way out.
        layer_num: layers, each with its own buffers; `layer_id` is counted from `start_layer`.
    """

    name = "KV pool"
    records: ClassVar[bool] = False
    """Whether tokens are stored as FlashMLA's records, which only kernels for them read."""
    kv_format: str = ""
    """Of a pool with a scale for each block of a row: "nvfp4", "fp4_mx_block16" or "mxfp8"; "": plain rows."""

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        layer_num: int,
        device: str | torch.device = "cpu",
        start_layer: int = 0,
    ) -> None:
        arguments.pool_size(size, page_size)
        self.size = size
        self.page_size = page_size
        self.dtype = dtype
        self.store_dtype = torch.uint8 if dtype in _FP8 else dtype
        self.layer_num = layer_num
        self.start_layer = start_layer
        self.device = torch.device(device)

    @property
    def num_pages(self) -> int:
        """Pages that requests can own, without the dummy page."""
        return self.size // self.page_size

    @abstractmethod
    def named_buffers(self, layer_id: int) -> dict[str, torch.Tensor]:
        """Buffer name ("K" and "V", or "KV") -> [size + page_size, heads, dim], live, in `dtype`."""

    @abstractmethod
    def get_key_buffer(self, layer_id: int) -> torch.Tensor: ...

    @abstractmethod
    def get_value_buffer(self, layer_id: int) -> torch.Tensor: ...

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def read(
        self, layer_id: int, slots: torch.Tensor | None, dtype: torch.dtype, count: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of a pool with a `kv_format`: the rows of some slots in `dtype`, K [n, heads, head_dim] and V alike.

        Args:
            slots: int [n]; None: all.
            count: int, one element on the device: so many slots are real; the others' rows are zeros.
        """
        raise BadArgumentError("token_to_kv_pool", "one with scales for blocks", self.name, "Use get_kv_buffer.")

    @abstractmethod
    def set_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None: ...

    def stored_bytes(self, layer_id: int) -> list[torch.Tensor]:
        """All that a layer keeps of its tokens: uint8 [pages, page_size, bytes of a token] each, live."""
        rows = (buffer.flatten(1).view(torch.uint8) for buffer in self.named_buffers(layer_id).values())
        return [each.unflatten(0, (-1, self.page_size)) for each in rows]

    def move_kv_cache(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        """Copy what all layers keep of tokens, int64 [n] slots each; all are read before any is written."""
        target, source = self.in_pages(tgt_loc), self.in_pages(src_loc)
        for layer_id in range(self.start_layer, self.start_layer + self.layer_num):
            for stored in self.stored_bytes(layer_id):
                stored[target] = stored[source]

    def in_pages(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Slots as (page, place in it), the index of `stored_bytes`."""
        return slots // self.page_size, slots % self.page_size

    def get_kv_size_bytes(self) -> int:
        """Bytes of all layers' buffers, dummy page included."""
        layers = range(self.start_layer, self.start_layer + self.layer_num)
        return sum(buffer.nbytes for layer_id in layers for buffer in self.named_buffers(layer_id).values())

    def _zeros(self, heads: int, dim: int) -> list[torch.Tensor]:
        shape = (self.size + self.page_size, heads, dim)
        return [zeroed(shape, self.store_dtype, self.device) for _ in range(self.layer_num)]

    def _buffer(self, buffers: list[torch.Tensor], layer_id: int) -> torch.Tensor:
        index = layer_id - self.start_layer
        if not 0 <= index < self.layer_num:
            last = self.start_layer + self.layer_num - 1
            raise BadArgumentError(
                "layer_id", f"{self.start_layer}..{last}", layer_id, "This pool holds no such layer."
            )
        return buffers[index]

    def _typed(self, buffer: torch.Tensor) -> torch.Tensor:
        return buffer if self.store_dtype == self.dtype else buffer.view(self.dtype)

    def _stored(self, rows: torch.Tensor) -> torch.Tensor:
        rows = rows.to(self.dtype)
        return rows if self.store_dtype == self.dtype else rows.view(self.store_dtype)

    def _check_rows(self, name: str, rows: torch.Tensor, loc: torch.Tensor, row_shape: tuple[int, ...]) -> None:
        if not rows.is_floating_point():
            raise BadArgumentError(name, "floating-point rows", rows.dtype, f"Convert them with .to({self.dtype}).")
        if tuple(rows.shape) != (loc.numel(), *row_shape):
            raise BadArgumentError(
                name, f"shape {(loc.numel(), *row_shape)}", tuple(rows.shape), "Pass one row per slot of loc."
            )

    def _check_loc(self, loc: torch.Tensor, count: int | None = None) -> None:
        """Slots of this pool, each once; their values only where reading them does not wait for a GPU.

        Args:
            count: how many there are; None: the pool's.
        """
        arguments.indices("loc", loc, "Take slots from the pool's allocator.")
        if not reads_values(None, loc.device):
            return
        count = self.size + self.page_size if count is None else count
        slots = loc.numpy()  # no operation, which a graph under way would record
        if slots.size == 1 and 0 <= slots.item() < count:
            return
        slots = np.sort(slots, axis=None)
        if not len(slots):
            return
        if slots[0] < 0 or slots[-1] >= count:
            expected = f"slots 0..{count - 1} of {self.name}"
            outside = int(slots[0] if slots[0] < 0 else slots[-1])
            raise BadArgumentError("loc", expected, outside, "Take slots from the pool's allocator.")
        real = slots[np.searchsorted(slots, self.page_size) :]  # padded rows share the dummy page
        twice = real[1:][real[1:] == real[:-1]]
        if len(twice):
            got = f"slot {twice[0]} twice"
            raise BadArgumentError("loc", "each slot once", got, "Two tokens cannot have the same slot.")


class MHATokenToKVPool(KVCache):
    """Separate K and V: [size + page_size, head_num, head_dim] and [..., v_head_dim] per layer."""

    name = "MHATokenToKVPool"

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device = "cpu",
        v_head_dim: int | None = None,
        start_layer: int = 0,
    ) -> None:
        super().__init__(size, page_size, dtype, layer_num, device, start_layer)
        self.head_num = head_num
        self.head_dim = head_dim
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        self.k_buffer = self._zeros(head_num, head_dim)
        self.v_buffer = self._zeros(head_num, self.v_head_dim)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return self._typed(self._buffer(self.k_buffer, layer_id))

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return self._typed(self._buffer(self.v_buffer, layer_id))

    def named_buffers(self, layer_id: int) -> dict[str, torch.Tensor]:
        return {"K": self.get_key_buffer(layer_id), "V": self.get_value_buffer(layer_id)}

    def set_kv_buffer(
        self,
        layer: RadixAttention,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
        k_scale: float | None = None,
        v_scale: float | None = None,
    ) -> None:
        """Store K and V rows of `loc`'s tokens; rows of another dtype are divided by their scale and cast.

        Args:
            loc: int [n], slots.
            cache_k, cache_v: [n, head_num, head_dim] and [n, head_num, v_head_dim]; never changed.

        Raises:
            BadArgumentError: a wrong shape, layer or slot; nothing was written.
        """
        self._check_loc(loc)
        self._check_rows("cache_k", cache_k, loc, (self.head_num, self.head_dim))
        self._check_rows("cache_v", cache_v, loc, (self.head_num, self.v_head_dim))
        if cache_k.dtype != self.dtype:
            cache_k = cache_k / k_scale if k_scale is not None else cache_k
            cache_v = cache_v / v_scale if v_scale is not None else cache_v
        self._buffer(self.k_buffer, layer.layer_id)[loc] = self._stored(cache_k)
        self._buffer(self.v_buffer, layer.layer_id)[loc] = self._stored(cache_v)


class MLATokenToKVPool(KVCache):
    """One joint latent row per token: [size + page_size, 1, kv_lora_rank + qk_rope_head_dim] per layer.

    The key is the whole row (512 + 64 in DeepSeek); the value is its first kv_lora_rank elements, not stored again.
    """

    name = "MLATokenToKVPool"

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device = "cpu",
        start_layer: int = 0,
    ) -> None:
        super().__init__(size, page_size, dtype, layer_num, device, start_layer)
        self.kv_lora_rank = kv_lora_rank
        self.qk_rope_head_dim = qk_rope_head_dim
        self.kv_cache_dim = kv_lora_rank + qk_rope_head_dim
        self.kv_buffer = self._new_rows()

    def _new_rows(self) -> list[torch.Tensor]:
        return self._zeros(1, self.kv_cache_dim)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return self._typed(self._buffer(self.kv_buffer, layer_id))

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]

    def named_buffers(self, layer_id: int) -> dict[str, torch.Tensor]:
        return {"KV": self.get_key_buffer(layer_id)}

    def set_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        """Store whole rows [n, 1, 576]; `cache_v` is part of `cache_k` and not looked at."""
        self._check_loc(loc)
        self._check_rows("cache_k", cache_k, loc, (1, self.kv_cache_dim))
        self._buffer(self.kv_buffer, layer.layer_id)[loc] = self._stored(cache_k)

    def set_mla_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, cache_k_nope: torch.Tensor, cache_k_rope: torch.Tensor
    ) -> None:
        """Scatter latent [n, 1, 512] and rotary [n, 1, 64] parts into their rows: the operator `set_mla_kv_buffer`.

        Raises:
            BadArgumentError, ContractError: a wrong shape, layer or slot, or a slot twice; nothing was written.
        """
        self._check_loc(loc)
        self._check_rows("cache_k_nope", cache_k_nope, loc, (1, self.kv_lora_rank))
        self._check_rows("cache_k_rope", cache_k_rope, loc, (1, self.qk_rope_head_dim))
        buffer = self._buffer(self.kv_buffer, layer.layer_id)
        set_mla_kv_buffer(buffer, loc, self._stored(cache_k_nope), self._stored(cache_k_rope))

    def get_mla_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The latent and rotary parts of the rows of `loc`: [n, 1, 512] and [n, 1, 64]."""
        rows = self.get_key_buffer(layer.layer_id)[loc].to(dst_dtype or self.dtype)
        return rows[..., : self.kv_lora_rank], rows[..., self.kv_lora_rank :]
