"""MLA pools that also keep a key per token for DeepSeek-V3.2's indexer, in rows or in FP8 pages.

Source: SGLang 0.5.23 `mem_cache/memory_pool.py`, DSATokenToKVPool, which has the pages alone.
"""

from __future__ import annotations

import torch

from sglab.engine.cache.kv_pool import MLATokenToKVPool
from sglab.engine.cache.record_pool import MLARecordTokenToKVPool
from sglab.engine.cache.zeroed import zeroed
from sglab.engine.errors import BadArgumentError
from sglab.engine.layer import RadixAttention
from sglab.kernels import set_index_k_scale_buffer
from sglab.kernels.indexer.layout import DIM, keys_and_scales, page_bytes

E4M3 = torch.float8_e4m3fn
INDEX_DTYPES = (None, torch.float32, torch.float16, torch.bfloat16, E4M3)


class NSATokenToKVPool(MLATokenToKVPool):
    """Beside the latent rows one index key per token.

    Args:
        index_dtype: of the keys. float8_e4m3fn: quantised, with a float32 scale each, page by page: first a page's
            keys, then its scales. Another: rows [size + page_size, index_head_dim]. None: rows of the pool's dtype,
            beside FP8 in bfloat16.
        shared_by: ranks that share the requests: latent rows are those of one rank, index keys those of all of them, by
            the slots of all.
    """

    name = "NSATokenToKVPool"

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        index_head_dim: int,
        device: str | torch.device = "cpu",
        start_layer: int = 0,
        index_dtype: torch.dtype | None = None,
        shared_by: int = 1,
    ) -> None:
        super().__init__(size, page_size, dtype, kv_lora_rank, qk_rope_head_dim, layer_num, device, start_layer)
        if index_dtype not in INDEX_DTYPES:
            expected = "None, float32, float16, bfloat16 or float8_e4m3fn"
            raise BadArgumentError("index_dtype", expected, index_dtype, "None: the pool's.")
        self.index_head_dim = index_head_dim
        self.index_dtype = index_dtype or (torch.bfloat16 if self.store_dtype == torch.uint8 else dtype)
        self.index_slots = (size + page_size) * shared_by
        shape, stored = (self.index_slots, index_head_dim), self.index_dtype
        if self.packs_index_keys:
            if index_head_dim != DIM:
                remedy = "Other dims are kept in rows: leave index_dtype out."
                raise BadArgumentError("index_head_dim", f"{DIM} for keys in FP8", index_head_dim, remedy)
            shape, stored = (self.index_slots // page_size, page_bytes(page_size)), torch.uint8
        self._index_keys = [zeroed(shape, stored, self.device) for _ in range(layer_num)]

    @property
    def packs_index_keys(self) -> bool:
        """Whether index keys are FP8 in pages, with scales."""
        return self.index_dtype == E4M3

    def get_index_k_buffer(self, layer_id: int) -> torch.Tensor:
        """[size + page_size, index_head_dim], live."""
        self._check_packed(False)
        return self._buffer(self._index_keys, layer_id)

    def get_index_k_with_scale_buffer(self, layer_id: int) -> torch.Tensor:
        """uint8 [pages, page_size · 132], live; see `sglab.kernels.indexer.layout`."""
        self._check_packed(True)
        return self._buffer(self._index_keys, layer_id)

    def set_index_k_buffer(self, layer: RadixAttention, loc: torch.Tensor, index_k: torch.Tensor) -> None:
        """Store the keys [n, index_head_dim] of `loc`'s tokens in their rows."""
        self._check_loc(loc, self.index_slots)
        buffer = self.get_index_k_buffer(layer.layer_id)
        self._check_rows("index_k", index_k, loc, (buffer.shape[1],))
        buffer[loc] = index_k.to(buffer.dtype)

    def set_index_k_scale_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, index_k: torch.Tensor, index_k_scale: torch.Tensor
    ) -> None:
        """Store quantised keys, e4m3 [n, 128], and their scales, float32 [n, 1], of `loc`'s tokens in their pages."""
        self._check_loc(loc, self.index_slots)
        buffer = self.get_index_k_with_scale_buffer(layer.layer_id)
        set_index_k_scale_buffer(buffer, loc, index_k, index_k_scale, self.page_size, check_values=False)

    def stored_bytes(self, layer_id: int) -> list[torch.Tensor]:
        keys = self._buffer(self._index_keys, layer_id)
        if not self.packs_index_keys:
            return [*super().stored_bytes(layer_id), keys.view(torch.uint8).unflatten(0, (-1, self.page_size))]
        values, scales = keys_and_scales(keys, self.page_size)
        return [*super().stored_bytes(layer_id), values.view(torch.uint8), scales[..., None].view(torch.uint8)]

    def get_kv_size_bytes(self) -> int:
        return super().get_kv_size_bytes() + sum(each.nbytes for each in self._index_keys)

    def _check_packed(self, wanted: bool) -> None:
        if self.packs_index_keys is not wanted:
            expected = "float8_e4m3fn of a pool with pages of index keys" if wanted else "one of rows of index keys"
            remedy = "Read them with get_index_k_buffer." if wanted else "Read get_index_k_with_scale_buffer."
            raise BadArgumentError("index_dtype", expected, self.index_dtype, remedy)


class NSARecordTokenToKVPool(MLARecordTokenToKVPool, NSATokenToKVPool):
    """FlashMLA's records, and the index keys beside them."""

    name = "NSARecordTokenToKVPool"
