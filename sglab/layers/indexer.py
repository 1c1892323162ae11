"""The lightning indexer of DeepSeek-V3.2: a small attention that chooses the tokens for the large one.

score(t, s) = Σ over heads of w_h(t) · relu(q_h(t) · k(s)); the best `topk` tokens are attended to. Where the pool keeps
its keys in FP8, as SGLang's does, queries and keys are turned by a Hadamard matrix first, which leaves dot products as
they are and spreads outliers over all dims, and both are quantised with a power of two each; a query's is put into its
weights. Else keys have the pool's dtype. Scores are float32.
Source: the DeepSeek-V3.2-Exp report; SGLang 0.5.23 `layers/attention/dsa/dsa_indexer.py`.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import nn

from sglab.engine import BadArgumentError, ChoosingBackend, ForwardBatch, NSATokenToKVPool
from sglab.engine import RadixAttention as AttentionShape
from sglab.kernels import act_quant
from sglab.layers.dp_attention import rows_of_all
from sglab.layers.linear import ReplicatedLinear
from sglab.layers.rotary import RotaryEmbedding

SCALE_FORMAT = "ue8m0"
"""Of DeepSeek-V3.2's indexer: scales are powers of two."""


@cache
def hadamard(dim: int, device: torch.device) -> torch.Tensor:
    """Sylvester's matrix of a power of two, orthonormal: [dim, dim]."""
    rows = torch.ones(1, 1)
    while len(rows) < dim:
        rows = torch.cat((torch.cat((rows, rows), 1), torch.cat((rows, -rows), 1)))
    return (rows * dim**-0.5).to(device)


def rotate_activation(x: torch.Tensor) -> torch.Tensor:
    """The last dim turned by Hadamard's matrix, summed in float32 and rounded to x's dtype."""
    return (x.float() @ hadamard(x.shape[-1], x.device)).to(x.dtype)


class Indexer(nn.Module):
    """One layer's. The first qk_rope_head_dim dims of its heads are turned, in halves (not in pairs, as MLA's are).

    Args:
        rotary: neox-style, of the rotary dims.
        topk: tokens that a query attends to, at most.
    """

    def __init__(
        self, hidden_size: int, q_lora_rank: int, heads: int, head_dim: int, topk: int, rotary: RotaryEmbedding
    ) -> None:
        super().__init__()
        self.heads, self.head_dim, self.topk, self.rotary = heads, head_dim, topk, rotary
        self.wq_b = ReplicatedLinear(q_lora_rank, heads * head_dim)
        self.wk = ReplicatedLinear(hidden_size, head_dim)
        self.k_norm = nn.LayerNorm(head_dim, eps=1e-6)
        self.weights_proj = ReplicatedLinear(hidden_size, heads)

    def forward(
        self,
        positions: torch.Tensor,
        x: torch.Tensor,
        low_rank: torch.Tensor,
        layer: AttentionShape,
        forward_batch: ForwardBatch,
    ) -> torch.Tensor | None:
        """Store the new tokens' index keys, and choose through the batch's attention backend.

        Args:
            x: [tokens, hidden], the layer's input.
            low_rank: [tokens, q_lora_rank], the query before its second projection.
            layer: whose rows of the pool.

        Returns:
            int32 [tokens, topk], positions in its request that each token attends to, −1 for none; None: all, where no
            request has more than topk tokens. Of equal scores the earlier tokens are taken.

        Raises:
            BadArgumentError: the pool holds no index keys, or the batch has no backend.
        """
        pool = forward_batch.token_to_kv_pool
        if not isinstance(pool, NSATokenToKVPool):
            remedy = "Make one where the model's attention_config has an index_head_dim."
            raise BadArgumentError("forward_batch.token_to_kv_pool", "an NSA pool", type(pool).__name__, remedy)
        q = self.wq_b(low_rank).unflatten(-1, (self.heads, -1))
        q, k = self.rotary(positions, q, self.k_norm(self.wk(x))[:, None])
        if forward_batch.attn_cp_metadata is not None:  # every rank has all index keys
            k = rows_of_all(forward_batch.attn_cp_metadata, k)
        weights = self.weights_proj(x).float() * (self.heads**-0.5 * self.head_dim**-0.5)
        if pool.packs_index_keys:
            q, scales = act_quant(rotate_activation(q), self.head_dim, SCALE_FORMAT)
            pool.set_index_k_scale_buffer(
                layer, forward_batch.out_cache_loc, *act_quant(rotate_activation(k[:, 0]), self.head_dim, SCALE_FORMAT)
            )
            weights, keys = weights * scales[..., 0], pool.get_index_k_with_scale_buffer(layer.layer_id)
        else:
            pool.set_index_k_buffer(layer, forward_batch.out_cache_loc, k[:, 0])
            keys = pool.get_index_k_buffer(layer.layer_id)
            q = q.to(keys.dtype)
        backend = forward_batch.attn_backend
        if not isinstance(backend, ChoosingBackend):
            remedy, got = "Set it to a backend that was prepared with this batch.", type(backend).__name__
            raise BadArgumentError("forward_batch.attn_backend", "a backend that chooses tokens", got, remedy)
        return backend.choose_tokens(q, keys, weights, self.topk, forward_batch)
