"""Multi-head latent attention, naive and absorbed: the same function of the same weights.

The cache holds a latent c (kv_lora_rank) and one rotary key r per token. Naive MLA expands c into a key and a value per
head (k = [W_UK c, r], v = W_UV c) and attends over 128 + 64 dims. Absorption moves W_UK to the query and W_UV after
the softmax: q . (W_UK c) = (W_UK^T q) . c, and sum p (W_UV c) = W_UV (sum p c). What remains for the kernel is
multi-query attention with one KV head: scores over [c, r] (512 + 64), values c (512). No kernel argument holds W_UK.

Both divide by the dims that the score represents, 128 + 64, never by 576; YaRN multiplies by mscale squared.
Source: DeepSeek-V2 (arXiv 2405.04434); SGLang 0.5.9 `models/deepseek_v2.py` for the scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch


@dataclass(frozen=True)
class MLADims:
    """Dims of one MLA layer; DeepSeek-V3's by default."""

    num_heads: int = 128
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    kv_lora_rank: int = 512

    @property
    def elements_per_token(self) -> int:
        """Cached per token and layer: 576 elements (1,152 bytes in 16 bit)."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @property
    def expanded_elements_per_token(self) -> int:
        """What caching naive keys and values would take, with a rotary part per head."""
        return self.num_heads * (self.qk_nope_head_dim + self.qk_rope_head_dim + self.v_head_dim)


class MLAWeights(NamedTuple):
    """`w_uk`: [heads, qk_nope_head_dim, kv_lora_rank]. `w_uv`: [heads, v_head_dim, kv_lora_rank]."""

    w_uk: torch.Tensor
    w_uv: torch.Tensor


def yarn_get_mscale(scale: float = 1.0, mscale: float = 1.0) -> float:
    """YaRN's attention factor for a context stretched `scale` times: 0.1 mscale ln(scale) + 1."""
    return 1.0 if scale <= 1 else 0.1 * mscale * math.log(scale) + 1.0


def mla_softmax_scale(dims: MLADims, yarn_factor: float = 1.0, mscale_all_dim: float = 0.0) -> float:
    """(qk_nope + qk_rope)^-1/2 times mscale squared. DeepSeek-V3 has factor 40 and mscale_all_dim 1.

    The square is there because q and k would each carry one mscale; the scale takes both at once.
    """
    mscale = yarn_get_mscale(yarn_factor, mscale_all_dim)
    return (dims.qk_nope_head_dim + dims.qk_rope_head_dim) ** -0.5 * mscale * mscale


def naive_mla(
    q_nope: torch.Tensor, q_rope: torch.Tensor, cache: torch.Tensor, weights: MLAWeights, scale: float
) -> torch.Tensor:
    """Expand the cache into keys and values per head, then attend.

    Args:
        q_nope: [queries, heads, qk_nope_head_dim]; q_rope: [queries, heads, qk_rope_head_dim], rotated already.
        cache: [keys, kv_lora_rank + qk_rope_head_dim]; every query sees every key.

    Returns:
        [queries, heads, v_head_dim].
    """
    latent, k_rope = _split(cache, weights)
    k_nope = torch.einsum("hdc,kc->khd", weights.w_uk, latent)
    v = torch.einsum("hdc,kc->khd", weights.w_uv, latent)
    logits = torch.einsum("qhd,khd->qhk", q_nope, k_nope) + torch.einsum("qhd,kd->qhk", q_rope, k_rope)
    return torch.einsum("qhk,khd->qhd", (logits * scale).softmax(-1), v)


def absorb_query(q_nope: torch.Tensor, q_rope: torch.Tensor, weights: MLAWeights) -> torch.Tensor:
    """W_UK folded into the query: [queries, heads, kv_lora_rank + qk_rope_head_dim], what the kernel is given."""
    return torch.cat((torch.einsum("qhd,hdc->qhc", q_nope, weights.w_uk), q_rope), -1)


def absorbed_mla(
    q_nope: torch.Tensor, q_rope: torch.Tensor, cache: torch.Tensor, weights: MLAWeights, scale: float
) -> torch.Tensor:
    """Multi-query attention over the cache as it is, between two small products. Arguments as `naive_mla`."""
    latent, _ = _split(cache, weights)
    logits = torch.einsum("qhc,kc->qhk", absorb_query(q_nope, q_rope, weights), cache)
    o_latent = torch.einsum("qhk,kc->qhc", (logits * scale).softmax(-1), latent)
    return torch.einsum("qhc,hdc->qhd", o_latent, weights.w_uv)


def _split(cache: torch.Tensor, weights: MLAWeights) -> tuple[torch.Tensor, torch.Tensor]:
    rank = weights.w_uk.shape[-1]
    return cache[:, :rank], cache[:, rank:]
