"""KV pools of 4 and 8 bits with a scale for each block of a row: nvfp4, fp4_mx_block16, mxfp8.

Source: SGLang 0.5.23 `mem_cache/memory_pool.py` (MHATokenToKVPool with a quant_method, MHATokenToKVPoolMXFP8,
MLATokenToKVPoolFP4) and `layers/quantization/fp4_kv_cache_quant_method.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from sglab.engine.cache.kv_pool import KVCache, MHATokenToKVPool, MLATokenToKVPool
from sglab.engine.cache.zeroed import zeroed
from sglab.engine.errors import BadArgumentError
from sglab.engine.layer import RadixAttention
from sglab.kernels import dequantize_kv_rows, quantize_kv_rows
from sglab.kernels.block_kv import FORMATS, ScaleLayout, scale_index, scale_shape

MXFP8_PAGE, MXFP8_HEAD = 128, 128
"""FlashAttention 4 reads the scales of 128 tokens at a time, four of a token's head."""
STORED = {4: torch.uint8, 8: torch.float8_e4m3fn}
"""Dtype of a pool by the bits of a code."""


class BlockScaledRows:
    """One kind of rows of all layers: codes, and a scale for each block.

    Args:
        layout: where scales lie.
    """

    def __init__(self, pool: KVCache, kv_format: str, heads: int, dim: int, layout: ScaleLayout) -> None:
        self.format, self.dim, self.layout = FORMATS[kv_format], dim, layout
        self.page_size = pool.page_size
        slots, device = pool.size + pool.page_size, pool.device
        unit = self.format.block * (4 if layout == "swizzled" else 1)
        if dim % unit:
            remedy = "Use a KV cache of the model's dtype."
            raise BadArgumentError("head_dim", f"a multiple of {unit} for {kv_format}", dim, remedy)
        shape = scale_shape(layout, slots, heads, self.format.scales(dim), pool.page_size)
        codes, layers = (slots, heads, self.format.row_bytes(dim)), range(pool.layer_num)
        self.codes = [zeroed(codes, torch.uint8, device) for _ in layers]
        self.scales = [zeroed(shape, torch.uint8, device) for _ in layers]
        self.factors: list[float | None] = [None] * pool.layer_num
        """nvfp4's, of each layer; None until its first write."""

    def write(self, layer: int, loc: torch.Tensor, rows: torch.Tensor, factor: float | None) -> None:
        """
        Raises:
            BadArgumentError: another factor than the layer's rows were stored with.
        """
        used = self.factor(layer, factor)
        quantize_kv_rows(
            *(rows, self.codes[layer], self.scales[layer], loc, self.format.name),
            factor=used,
            layout=self.layout,
            page_size=self.page_size,
            check_values=False,
        )
        self.factors[layer] = used

    def factor(self, layer: int, asked: float | None) -> float:
        """The factor that a write may have."""
        wanted, held = float(asked or 1.0) if self.format.has_factor else 1.0, self.factors[layer]
        if held is not None and wanted != held:
            remedy = "A layer's rows share one scale: set it before the first is stored."
            raise BadArgumentError("layer.k_scale, layer.v_scale", f"{held}, as before", wanted, remedy)
        return wanted

    def read(
        self, layer: int, slots: torch.Tensor | None, dtype: torch.dtype, count: torch.Tensor | None = None
    ) -> torch.Tensor:
        return dequantize_kv_rows(
            *(self.codes[layer], self.scales[layer], slots, self.format.name, self.dim),
            dtype=dtype,
            factor=self.factors[layer] or 1.0,
            layout=self.layout,
            page_size=self.page_size,
            count=count,
            check_values=False,
        )

    def move(self, layer: int, to: torch.Tensor, source: torch.Tensor) -> None:
        codes, scales = self.codes[layer], self.scales[layer].view(-1)
        codes[to] = codes[source]
        shape = codes.shape[1], self.format.scales(self.dim), self.page_size
        places = [scale_index(self.layout, each, *shape) for each in (to, source)]
        scales[places[0]] = scales[places[1]]

    def nbytes(self) -> int:
        return sum(each.nbytes for each in (*self.codes, *self.scales))


def check_format(kv_format: str, known: Iterable[str] = FORMATS) -> None:
    """
    Raises:
        BadArgumentError: an unknown format, or one that this pool does not have.
    """
    if kv_format not in known:
        raise BadArgumentError("kv_format", f"one of {', '.join(known)}", repr(kv_format), "Use one of them.")


class BlockScaledMHATokenToKVPool(MHATokenToKVPool):
    """K and V rows of 4 or 8 bits. Kernels that do not know the format get copies: of some slots (`read`), or of all.

    A layer's `k_scale` and `v_scale` are nvfp4's factors; the other formats have none.

    Args:
        kv_format: "nvfp4", "fp4_mx_block16", or "mxfp8": of heads of 128 dims, in pages of 128.
        native_scales: nvfp4: scales where TensorRT-LLM's kernels for SM100 read them, by pages.
    """

    name = "BlockScaledMHATokenToKVPool"

    def __init__(
        self,
        size: int,
        page_size: int,
        kv_format: str,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device = "cpu",
        v_head_dim: int | None = None,
        start_layer: int = 0,
        native_scales: bool = False,
    ) -> None:
        check_format(kv_format)
        KVCache.__init__(self, size, page_size, STORED[FORMATS[kv_format].bits], layer_num, device, start_layer)
        self.kv_format = kv_format
        self.head_num, self.head_dim = head_num, head_dim
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        layouts: tuple[ScaleLayout, ScaleLayout] = ("slots", "slots")
        if kv_format == "mxfp8":
            layouts = ("interleaved", "interleaved")
            dims = head_dim, self.v_head_dim
            if page_size != MXFP8_PAGE:
                remedy = "Its scales are interleaved over 128 tokens."
                raise BadArgumentError("page_size", f"{MXFP8_PAGE} for mxfp8", page_size, remedy)
            if dims != (MXFP8_HEAD, MXFP8_HEAD):
                remedy = "Use a KV cache of the model's dtype."
                raise BadArgumentError("head_dim, v_head_dim", f"{MXFP8_HEAD} for mxfp8", dims, remedy)
        if native_scales:
            check_format(kv_format, ("nvfp4",))
            layouts = ("pages", "swizzled")
            if page_size % 4:
                remedy = "Scales of four tokens lie interleaved."
                raise BadArgumentError("page_size", "a multiple of 4 for native scales", page_size, remedy)
        self._k = BlockScaledRows(self, kv_format, head_num, head_dim, layouts[0])
        self._v = BlockScaledRows(self, kv_format, head_num, self.v_head_dim, layouts[1])

    def _index(self, layer_id: int) -> int:
        self._buffer(self._k.codes, layer_id)
        return layer_id - self.start_layer

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """float32 [size + page_size, head_num, head_dim], a copy: each code times its scale."""
        return self._k.read(self._index(layer_id), None, torch.float32)

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        """As `get_key_buffer`."""
        return self._v.read(self._index(layer_id), None, torch.float32)

    def read(
        self, layer_id: int, slots: torch.Tensor | None, dtype: torch.dtype, count: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        index = self._index(layer_id)
        return self._k.read(index, slots, dtype, count), self._v.read(index, slots, dtype, count)

    def named_buffers(self, layer_id: int) -> dict[str, torch.Tensor]:
        """Codes by slot, and scales as they lie; live."""
        at = self._index(layer_id)
        kinds = {"K": self._k, "V": self._v}
        codes = {name: rows.codes[at] for name, rows in kinds.items()}
        return {**codes, **{f"{name} scales": rows.scales[at] for name, rows in kinds.items()}}

    def set_kv_buffer(
        self,
        layer: RadixAttention,
        loc: torch.Tensor,
        cache_k: torch.Tensor,
        cache_v: torch.Tensor,
        k_scale: float | None = None,
        v_scale: float | None = None,
    ) -> None:
        """Quantise K and V rows into `loc`'s slots.

        Raises:
            BadArgumentError: a wrong shape, layer or slot, or another nvfp4 factor than before; nothing was written.
        """
        self._check_loc(loc)
        self._check_rows("cache_k", cache_k, loc, (self.head_num, self.head_dim))
        self._check_rows("cache_v", cache_v, loc, (self.head_num, self.v_head_dim))
        at = self._index(layer.layer_id)
        self._v.factor(at, v_scale)
        self._k.write(at, loc, cache_k, k_scale)
        self._v.write(at, loc, cache_v, v_scale)

    def move_kv_cache(self, tgt_loc: torch.Tensor, src_loc: torch.Tensor) -> None:
        for layer in range(self.layer_num):
            self._k.move(layer, tgt_loc, src_loc)
            self._v.move(layer, tgt_loc, src_loc)

    def get_kv_size_bytes(self) -> int:
        return self._k.nbytes() + self._v.nbytes()


class FP4MLATokenToKVPool(MLATokenToKVPool):
    """Joint latent rows in fp4_mx_block16: 288 bytes of codes and 36 scales for a token's 576 values."""

    name = "FP4MLATokenToKVPool"

    def __init__(
        self,
        size: int,
        page_size: int,
        kv_format: str,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device = "cpu",
        start_layer: int = 0,
    ) -> None:
        check_format(kv_format, ("fp4_mx_block16",))
        self.kv_format = kv_format
        super().__init__(size, page_size, torch.uint8, kv_lora_rank, qk_rope_head_dim, layer_num, device, start_layer)

    def _new_rows(self) -> list[torch.Tensor]:
        self._rows = BlockScaledRows(self, self.kv_format, 1, self.kv_cache_dim, "slots")
        return self._rows.codes

    def _index(self, layer_id: int) -> int:
        self._buffer(self.kv_buffer, layer_id)
        return layer_id - self.start_layer

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """float32 [size + page_size, 1, 576], a copy: each code times its scale."""
        return self._rows.read(self._index(layer_id), None, torch.float32)

    def read(
        self, layer_id: int, slots: torch.Tensor | None, dtype: torch.dtype, count: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self._rows.read(self._index(layer_id), slots, dtype, count)
        return rows, rows[..., : self.kv_lora_rank]

    def named_buffers(self, layer_id: int) -> dict[str, torch.Tensor]:
        """Codes and scales, live."""
        at = self._index(layer_id)
        return {"KV": self._rows.codes[at], "KV scales": self._rows.scales[at]}

    def set_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None:
        """Quantise whole rows [n, 1, 576]; `cache_v` is part of `cache_k` and not looked at."""
        self._check_loc(loc)
        self._check_rows("cache_k", cache_k, loc, (1, self.kv_cache_dim))
        self._rows.write(self._index(layer.layer_id), loc, cache_k, None)

    def set_mla_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, cache_k_nope: torch.Tensor, cache_k_rope: torch.Tensor
    ) -> None:
        """Quantise latent [n, 1, 512] and rotary [n, 1, 64] parts into the rows of `loc`."""
        self._check_loc(loc)
        self._check_rows("cache_k_nope", cache_k_nope, loc, (1, self.kv_lora_rank))
        self._check_rows("cache_k_rope", cache_k_rope, loc, (1, self.qk_rope_head_dim))
        self._rows.write(self._index(layer.layer_id), loc, torch.cat((cache_k_nope, cache_k_rope), -1), None)

    def get_mla_kv_buffer(
        self, layer: RadixAttention, loc: torch.Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The latent and rotary parts of the rows of `loc`: [n, 1, 512] and [n, 1, 64]."""
        rows = self._rows.read(self._index(layer.layer_id), loc, dst_dtype or torch.bfloat16)
        return rows[..., : self.kv_lora_rank], rows[..., self.kv_lora_rank :]
