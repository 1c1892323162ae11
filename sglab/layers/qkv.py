"""From a decode's q, k and v to rows in the KV pool: norms, rotation and storing as one launch on a GPU."""

from __future__ import annotations

import torch

from sglab.engine import ForwardBatch, MHATokenToKVPool
from sglab.kernels import qk_norm_rope_store
from sglab.layers.layernorm import RMSNorm
from sglab.layers.rotary import RotaryEmbedding


def joins(q: torch.Tensor, forward_batch: ForwardBatch) -> bool:
    """Whether `norm_turn_and_store` serves a pass: a decode on a GPU, into a pool of the same dtype.

    Extends are left to their backends, which a piecewise graph calls between its pieces, and so is a rank's share.
    """
    pool = forward_batch.token_to_kv_pool
    plain = isinstance(pool, MHATokenToKVPool) and pool.dtype == q.dtype and forward_batch.encoder_lens is None
    return q.is_cuda and forward_batch.forward_mode.is_decode() and plain and not forward_batch.spread


def norm_turn_and_store(
    positions: torch.Tensor,
    heads: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    rotary: RotaryEmbedding,
    norms: tuple[RMSNorm, RMSNorm] | None,
    layer_id: int,
    forward_batch: ForwardBatch,
) -> None:
    """Norm and turn q and k in place, and store k and v at the batch's slots: attend with save_kv_cache=False then.

    Args:
        heads: q, k, v [tokens, heads, head_dim].
        norms: over each head of q and of k, their weights stored as they are; None: there are none.
    """
    assert forward_batch.token_to_kv_pool is not None
    caches = forward_batch.token_to_kv_pool.get_kv_buffer(layer_id)
    q_norm, k_norm = norms or (None, None)
    qk_norm_rope_store(
        *(positions, *heads, rotary.cos_sin_cache, *caches, forward_batch.out_cache_loc),
        None if q_norm is None else q_norm.weight,
        None if k_norm is None else k_norm.weight,
        1e-6 if q_norm is None else q_norm.variance_epsilon,
        rotary.is_neox_style,
    )
