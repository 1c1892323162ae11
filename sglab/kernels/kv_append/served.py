"""Appends like one that was checked: their tensors put into its arguments, looked at for overlaps, and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglab.kernels.contract import Apart
from sglab.kernels.known_calls import Served, Template
from sglab.kernels.kv_append.contract import AppendArguments, Places, Queries, Rotary


class AppendServer(Served[AppendArguments]):
    """Runs appends like one, whose slots follow from `places` and which rotates nothing.

    Args:
        operator: that errors are to name.
        arguments: of the append that was checked; of its tensors none is kept.
        run: its implementation.
    """

    def __init__(self, operator: str, arguments: AppendArguments, run: Callable[[Any], object]) -> None:
        super().__init__(arguments, run, "k", "v", "k_cache", "v_cache", "k_scale", "v_scale", "places")
        caches = {"k_cache": arguments.k_cache, "v_cache": arguments.v_cache}
        self._apart = Apart(operator, caches, {"k": arguments.k, "v": arguments.v})

    def __call__(
        self,
        k: torch.Tensor,
        v: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        places: Places,
        k_scale: float | torch.Tensor,
        v_scale: float | torch.Tensor,
    ) -> None:
        """Append.

        Raises:
            ContractError: a cache shares memory with what goes into it; nothing was written.
        """
        self._apart((k_cache, v_cache), (k, v))
        moving = {"k": k, "v": v, "k_cache": k_cache, "v_cache": v_cache, "places": places}
        self._serve({**moving, "k_scale": k_scale, "v_scale": v_scale})


class PagedAppends:
    """How calls of append_paged_kv_cache like one are served from then on."""

    def __init__(
        self, arguments: AppendArguments, places: Places, run: Callable[[Any], object], kv_layout: str
    ) -> None:
        self._append, self._kv_layout = AppendServer("append_paged_kv_cache", arguments, run), kv_layout
        self._places = Template(places, "requests", "positions", "table", "start")

    def __call__(
        self,
        append_key: torch.Tensor,
        append_value: torch.Tensor,
        batch_indices: torch.Tensor,
        positions: torch.Tensor,
        paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
        kv_indices: torch.Tensor,
        kv_indptr: torch.Tensor,
        kv_last_page_len: torch.Tensor,
        kv_layout: str = "NHD",
        *,
        k_scale: float | torch.Tensor = 1.0,
        v_scale: float | torch.Tensor = 1.0,
        **_: Any,
    ) -> None:
        """As append_paged_kv_cache."""
        k_cache, v_cache = split_cache(paged_kv_cache, self._kv_layout)
        where = {"requests": batch_indices, "positions": positions, "table": kv_indices, "start": kv_indptr}
        places = self._places.of(**where)
        scales = (token_scale(append_key, k_scale), token_scale(append_key, v_scale))
        self._append(append_key, append_value, k_cache, v_cache, places, *scales)


class RotatedAppends(Served[AppendArguments]):
    """How calls of apply_rope_inplace_with_kvcache like one are served from then on.

    Args:
        arguments: of the call that was checked; of its tensors none is kept.
        run: its implementation.
        rotary, queries: its rotation and what it rotates beside the keys.
    """

    def __init__(
        self, arguments: AppendArguments, run: Callable[[Any], object], rotary: Rotary, queries: Queries
    ) -> None:
        where = ("given_slots", "positions", "rotary", "queries", "k_out")
        super().__init__(arguments, run, "k", "v", "k_cache", "v_cache", "k_scale", "v_scale", *where)
        caches = {"k_cache": arguments.k_cache, "v_cache": arguments.v_cache}
        self._apart = Apart("apply_rope_inplace_with_kvcache", caches, {"k": arguments.k, "v": arguments.v})
        self._v_shape = arguments.v.shape
        self._cache_shapes = arguments.k_cache.shape, arguments.v_cache.shape
        self._rotary, self._queries = Template(rotary, "cos", "sin"), Template(queries, "q", "positions", "out")

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        cos_sin_cache: torch.Tensor,
        positions: torch.Tensor,
        out_loc: torch.Tensor,
        *,
        k_scale: float | torch.Tensor = 1.0,
        v_scale: float | torch.Tensor = 1.0,
        **_: Any,
    ) -> None:
        """As apply_rope_inplace_with_kvcache."""
        k_cache, v_cache = k_cache.view(self._cache_shapes[0]), v_cache.view(self._cache_shapes[1])
        if v.shape != self._v_shape:
            v = v.view(self._v_shape)
        self._apart((k_cache, v_cache), (k, v))
        cos, sin = cos_sin_cache.chunk(2, -1)
        self._serve(
            {
                "k": k,
                "v": v,
                "k_cache": k_cache,
                "v_cache": v_cache,
                "given_slots": out_loc,
                "positions": positions,
                "rotary": self._rotary.of(cos=cos, sin=sin),
                "queries": self._queries.of(q=q, positions=positions, out=q),
                "k_scale": token_scale(k, k_scale),
                "v_scale": token_scale(k, v_scale),
                "k_out": k,
            }
        )


def token_scale(k: torch.Tensor, scale: float | torch.Tensor) -> float | torch.Tensor:
    """A scale per head as one per token and head."""
    return scale.expand(k.shape[:2]) if isinstance(scale, torch.Tensor) else scale


def split_cache(
    paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor], kv_layout: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V as (pages, page_size, kv_heads, dim) views."""
    k, v = paged_kv_cache.unbind(1) if isinstance(paged_kv_cache, torch.Tensor) else paged_kv_cache
    return (k.transpose(1, 2), v.transpose(1, 2)) if kv_layout == "HND" else (k, v)
