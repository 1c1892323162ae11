"""flex_attention: PyTorch's flex_attention with a mask and a score function, request by request.

After SGLang 0.5.9 `torch_flex_backend.py`. On a GPU it is compiled into one fused kernel, as there; on a CPU it runs
unfused, which materialises the score matrix.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from sglab.attention.capabilities import Capabilities
from sglab.attention.info import ran
from sglab.attention.rows import Span
from sglab.attention.torch_backend import MODES, PerRequestBackend
from sglab.engine import RadixAttention

Index = torch.Tensor
WIDE = 128
"""Head dims beyond which float32 takes smaller tiles."""
ScoreMod = Callable[[torch.Tensor, Index, Index, Index, Index], torch.Tensor]


class TorchFlexAttnBackend(PerRequestBackend):
    """Block masks are made per request; a logit cap or a temperature becomes the score function."""

    name = "flex_attention"
    capabilities = Capabilities(
        modes=MODES,
        kv_dtypes=("float8_e4m3fn", "float8_e5m2", "fp4_mx_block16"),
        sliding_window=True,
        logit_cap=True,
        xai_temperature=True,
        bidirectional=True,
        triton_helpers=False,
    )

    def attend_one(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        span: Span,
        layer: RadixAttention,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        first, window = span.first_position, layer.sliding_window_size
        ahead = first if layer.is_causal else k.shape[2]  # a query without causality sees every key

        def visible(b: Index, h: Index, q_idx: Index, kv_idx: Index) -> torch.Tensor:
            seen = kv_idx <= q_idx + ahead
            return seen & (kv_idx >= q_idx + first - window) if window >= 0 else seen

        compiled = q.is_cuda
        ran(
            "flex_attention",
            "torch.compile" if compiled else "torch, unfused",
            q.device,
            "PyTorch runs where the tensors are",
        )
        mask = create_block_mask(visible, None, None, q.shape[2], k.shape[2], device=str(q.device))
        run = _compiled() if compiled else flex_attention
        grouped = layer.tp_q_head_num != layer.tp_k_head_num
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
            options = tile_options(q.shape[-1]) if compiled and q.dtype == torch.float32 else None
            out = run(q, k, v, _score_mod(first, layer, q.device), mask, layer.scaling, grouped, kernel_options=options)
        assert isinstance(out, torch.Tensor)
        return out


@functools.cache
def _compiled() -> Any:
    return torch.compile(flex_attention, dynamic=True)


def tile_options(head_dim: int) -> dict[str, int] | None:
    """For torch's compiled kernel, in float32, where its own tiles need more shared memory than an SM has.

    They are 64 by 64 in three stages, too much at 192 dims. The kernel keeps a tile of Q and one of K, padded to a
    power of two: at MLA's 576 dims tiles of 32 by 32 need 256 KiB, and an SM of an H200 has 227.
    """
    if head_dim <= WIDE:
        return None
    rows = 32 if head_dim <= 512 else 16
    return {"BLOCK_M": rows, "BLOCK_N": rows, "num_stages": 1}


def _score_mod(first: int, layer: RadixAttention, device: torch.device) -> ScoreMod | None:
    """Its numbers are tensors: a compiled score function that meets a second Python float is refused by Inductor."""
    capped, length = layer.logit_cap > 0, layer.xai_temperature_len
    if not capped and length <= 0:
        return None
    cap = torch.tensor(layer.logit_cap, dtype=torch.float32, device=device)
    log_length = torch.tensor(math.log2(length) if length > 0 else 1.0, dtype=torch.float32, device=device)

    def score(s: torch.Tensor, b: Index, h: Index, q_idx: Index, kv_idx: Index) -> torch.Tensor:
        s = cap * torch.tanh(s / cap) if capped else s
        if length <= 0:
            return s
        position = q_idx + first
        return torch.where(position > length, s * torch.log2(position.to(s.dtype)) / log_length, s)

    return score
