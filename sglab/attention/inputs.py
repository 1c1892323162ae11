"""AttentionInputs: what one layer hands to a backend, in one shape regardless of what the caller passed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.engine import BadArgumentError, ForwardBatch, RadixAttention, ScoreMod


@dataclass(frozen=True)
class AttentionInputs:
    """The new tokens' rows, [tokens, heads, dim] each; `of` brings them to that shape and checks it.

    With separate rotary parts, q and k are the latent parts alone ([.., v_head_dim]).
    """

    q: torch.Tensor
    k: torch.Tensor | None
    """None: nothing is saved, and every key comes from the pool."""
    v: torch.Tensor | None
    layer: RadixAttention
    forward_batch: ForwardBatch
    save_kv_cache: bool = True
    """Store k and v in the pool at out_cache_loc before attending."""
    q_rope: torch.Tensor | None = None
    k_rope: torch.Tensor | None = None
    sinks: torch.Tensor | None = None
    """float [heads]."""
    topk_indices: torch.Tensor | None = None
    """int [tokens, topk], positions in the request; −1: none."""
    slopes: torch.Tensor | None = None
    """float [heads], ALiBi's."""
    score_mod: ScoreMod | None = None

    @classmethod
    def of(
        cls,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool,
        q_rope: torch.Tensor | None,
        k_rope: torch.Tensor | None,
        sinks: torch.Tensor | None,
        topk_indices: torch.Tensor | None = None,
        slopes: torch.Tensor | None = None,
        score_mod: ScoreMod | None = None,
        *,
        rope_apart: bool,
    ) -> AttentionInputs:
        """Check the rows and bring them to the form that the backend takes.

        Args:
            rope_apart: take q and k in latent and rotary parts; else both are joined.

        Raises:
            BadArgumentError: a tensor of another shape, or only one of q_rope and k_rope.
        """
        tokens, dim, v_dim, rope = len(q), layer.head_dim, layer.v_head_dim, layer.head_dim - layer.v_head_dim
        kv_tokens = tokens if k is None or not layer.is_cross_attention else len(k)  # those of the encoder
        q_heads, kv_heads = layer.tp_q_head_num, layer.tp_k_head_num
        q = _rows("q", q, tokens, q_heads, dim if q_rope is None else v_dim)
        if k is not None:
            k = _rows("k", k, kv_tokens, kv_heads, dim if k_rope is None else v_dim)
        if v is not None:
            v = _rows("v", v, kv_tokens, layer.tp_v_head_num, v_dim)
        if q_rope is not None:
            q_rope = _rows("q_rope", q_rope, tokens, q_heads, rope)
        if k_rope is not None:
            k_rope = _rows("k_rope", k_rope, tokens, kv_heads, rope)
        if save_kv_cache and (k is None or v is None):
            raise BadArgumentError("save_kv_cache", "False without k and v", True, "Pass the new tokens' rows.")
        if rope_apart and q_rope is None:
            q, q_rope = q.split([v_dim, rope], dim=-1)
        elif not rope_apart:
            q, q_rope = q if q_rope is None else torch.cat((q, q_rope), -1), None
            k, k_rope = k if k is None or k_rope is None else torch.cat((k, k_rope), -1), None
        if slopes is not None and slopes.shape != (q_heads,):
            raise BadArgumentError("slopes", f"shape ({q_heads},)", tuple(slopes.shape), "Pass one per query head.")
        parts = q_rope, k_rope, sinks, topk_indices, slopes, score_mod
        return cls(q, k, v, layer, forward_batch, save_kv_cache, *parts)


def _rows(name: str, rows: torch.Tensor, tokens: int, heads: int, dim: int) -> torch.Tensor:
    if rows.dim() == 2 and rows.shape[1] == heads * dim:
        rows = rows.unflatten(1, (heads, dim))
    if rows.shape != (tokens, heads, dim):
        expected = f"shape {(tokens, heads, dim)} or {(tokens, heads * dim)}"
        raise BadArgumentError(name, expected, tuple(rows.shape), "Pass one row per new token, with the layer's heads.")
    return rows
