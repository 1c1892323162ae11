"""MLA pools that store FlashMLA's 656-byte records in the place of rows: latent in e4m3 with scales, RoPE in bfloat16.

Source: SGLang 0.5.23 `mem_cache/memory_pool.py`, DSATokenToKVPool with a packed FP8 cache.
"""

from __future__ import annotations

import torch

from sglab.engine.cache.kv_pool import MLATokenToKVPool
from sglab.engine.errors import BadArgumentError
from sglab.engine.layer import RadixAttention
from sglab.kernels import dequantize_k_cache_paged, set_mla_k_records
from sglab.kernels.k_records.layout import NOPE, RECORD, ROPE, TILE, TILES, taken_apart


class MLARecordTokenToKVPool(MLATokenToKVPool):
    """One record per token: [size + page_size, 1, 656] bytes per layer. dtype is float8_e4m3fn.

    A record is 512 e4m3 values, a float32 scale for each 128 of them, 64 bfloat16. Only kernels that know records read
    them where they lie (`get_records`); keys and values come as copies.
    """

    name = "MLARecordTokenToKVPool"
    records = True

    def _new_rows(self) -> list[torch.Tensor]:
        dims = self.kv_lora_rank, self.qk_rope_head_dim
        if dims != (NOPE, ROPE):
            remedy = "Other dims are stored in rows: MLATokenToKVPool."
            raise BadArgumentError("kv_lora_rank, qk_rope_head_dim", f"{(NOPE, ROPE)} of a record", dims, remedy)
        if self.dtype != torch.float8_e4m3fn:
            raise BadArgumentError("dtype", "float8_e4m3fn for records", self.dtype, "Other dtypes are stored in rows.")
        return self._zeros(1, RECORD)

    def get_records(self, layer_id: int) -> torch.Tensor:
        """uint8 [size + page_size, 656], live."""
        return self._buffer(self.kv_buffer, layer_id)[:, 0]

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """float32 [size + page_size, 1, 576], a copy: each value times its scale."""
        views = taken_apart(self.get_records(layer_id))
        latent = views.nope.float().unflatten(-1, (TILES, TILE)) * views.scales[..., None]
        return torch.cat((latent.flatten(1), views.rope.float()), -1)[:, None]

    def named_buffers(self, layer_id: int) -> dict[str, torch.Tensor]:
        """The records' three parts, live: each is of a dtype of its own."""
        views = taken_apart(self._buffer(self.kv_buffer, layer_id))
        return {"latent": views.nope, "scales": views.scales, "RoPE": views.rope}

    def set_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        """Quantise whole rows [n, 1, 576] into the records of `loc`; `cache_v` is part of `cache_k`, not looked at."""
        self._check_loc(loc)
        self._check_rows("cache_k", cache_k, loc, (1, self.kv_cache_dim))
        set_mla_k_records(self.get_records(layer.layer_id), loc, cache_k.contiguous())

    def set_mla_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, cache_k_nope: torch.Tensor, cache_k_rope: torch.Tensor
    ) -> None:
        """Quantise latent [n, 1, 512] and rotary [n, 1, 64] parts into the records of `loc`."""
        self._check_loc(loc)
        self._check_rows("cache_k_nope", cache_k_nope, loc, (1, self.kv_lora_rank))
        self._check_rows("cache_k_rope", cache_k_rope, loc, (1, self.qk_rope_head_dim))
        set_mla_k_records(self.get_records(layer.layer_id), loc, torch.cat((cache_k_nope, cache_k_rope), -1))

    def get_mla_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The latent and rotary parts of the records of `loc`, rounded to bfloat16: [n, 1, 512] and [n, 1, 64]."""
        rows = dequantize_k_cache_paged(self.get_records(layer.layer_id), loc).to(dst_dtype or torch.bfloat16)
        return rows[..., : self.kv_lora_rank], rows[..., self.kv_lora_rank :]
