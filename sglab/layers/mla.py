"""Multi-head latent attention over the paged pool, absorbed or plain: the same function of the same weights.

The pool holds a latent row c and one rotary key r per token. Absorbed: W_UK moves to the query and W_UV to the output,
and attention reads c itself as one KV head. Plain: c is expanded into a key and a value per head, which takes fewer
operations where the new tokens are as many as the cached ones.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from sglab.engine import BadArgumentError, ChoosingBackend, ForwardBatch, MLATokenToKVPool
from sglab.layers.linear import ColumnParallelLinear
from sglab.layers.mla_prefix import attend_expanded
from sglab.layers.radix_attention import RadixAttention

Method = Literal["absorbed", "plain"]


def takes_chosen(forward_batch: ForwardBatch) -> bool:
    """Whether the batch's backend attends to what an indexer chose."""
    backend = forward_batch.attn_backend
    return isinstance(backend, ChoosingBackend) and backend.takes_chosen


class MLAttention(nn.Module):
    """Attention of one layer, after the projections and the rotation. `kv_b_proj` is the model's own layer.

    Attributes:
        method: which of the two ways; "plain" needs no attention backend, and runs request by request.
    """

    def __init__(
        self,
        kv_b_proj: ColumnParallelLinear,
        num_heads: int,
        qk_nope_head_dim: int,
        qk_rope_head_dim: int,
        v_head_dim: int,
        scaling: float,
        layer_id: int,
    ) -> None:
        super().__init__()
        self.method: Method = "absorbed"
        self.num_heads, self.nope, self.v_head_dim = num_heads, qk_nope_head_dim, v_head_dim
        self.rank, self.scaling = kv_b_proj.input_size, scaling
        self._kv_b_proj = [kv_b_proj]  # in a list: it is the model's own, and no part of this module
        self.attn = RadixAttention(num_heads, self.rank + qk_rope_head_dim, scaling, 1, layer_id, v_head_dim=self.rank)

    def forward(
        self,
        q_nope: torch.Tensor,
        q_rope: torch.Tensor,
        latent: torch.Tensor,
        k_rope: torch.Tensor,
        forward_batch: ForwardBatch,
        topk_indices: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attend.

        Args:
            q_nope: [tokens, heads, qk_nope_head_dim].
            q_rope: [tokens, heads, qk_rope_head_dim], turned.
            latent: [tokens, 1, kv_lora_rank], after its norm.
            k_rope: [tokens, 1, qk_rope_head_dim], turned.
            topk_indices: int32 [tokens, topk], positions in its request that each query attends to, −1 for none (sparse
                attention); None: all. With a backend that does not take them the plain way runs, whatever `method` is.

        Returns:
            [tokens, heads · v_head_dim].
        """
        if self.method == "plain" or (topk_indices is not None and not takes_chosen(forward_batch)):
            return self._plain(torch.cat((q_nope, q_rope), -1), latent, k_rope, forward_batch, topk_indices)
        if topk_indices is None and forward_batch.expands_prefix:
            return self._expanded(torch.cat((q_nope, q_rope), -1), latent, k_rope, forward_batch)
        w_uk, w_uv = self._matrices()
        q_latent = torch.matmul(q_nope.transpose(0, 1), w_uk).transpose(0, 1)
        parts = {"q_rope": q_rope, "k_rope": k_rope, "topk_indices": topk_indices}
        out = self.attn(q_latent, latent, latent, forward_batch, **parts)
        per_head = out.unflatten(-1, (-1, self.rank)).transpose(0, 1)
        return torch.matmul(per_head, w_uv.transpose(1, 2)).transpose(0, 1).flatten(1)

    def process_weights_after_loading(self) -> None:
        """Halves of the expansion are used apart: one that is quantised is widened."""
        self._kv_b_proj[0].widen()

    def _matrices(self) -> tuple[torch.Tensor, torch.Tensor]:
        """W_UK [heads, nope, rank] and W_UV [heads, v, rank]: views of kv_b_proj's weight."""
        w_uk, w_uv = self._kv_b_proj[0].weight.unflatten(0, (self.num_heads, -1)).split([self.nope, self.v_head_dim], 1)
        return w_uk, w_uv

    def _expanded(
        self, q: torch.Tensor, latent: torch.Tensor, k_rope: torch.Tensor, forward_batch: ForwardBatch
    ) -> torch.Tensor:
        """A prompt's pass with keys and values of every head, the prefix part by part."""
        pool, shape = forward_batch.token_to_kv_pool, self.attn.shape
        assert isinstance(pool, MLATokenToKVPool)
        pool.set_mla_kv_buffer(shape, forward_batch.out_cache_loc, latent, k_rope)
        return attend_expanded(q, latent, k_rope, shape, self.scaling, self._expand, forward_batch).flatten(1)

    def _expand(self, latent: torch.Tensor, k_rope: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        w_uk, w_uv = self._matrices()
        k_nope, v = (torch.einsum("sr,hnr->shn", latent[:, 0], each) for each in (w_uk, w_uv))
        return torch.cat((k_nope, k_rope.expand(-1, self.num_heads, -1)), -1), v.contiguous()

    def _plain(
        self,
        q: torch.Tensor,
        latent: torch.Tensor,
        k_rope: torch.Tensor,
        forward_batch: ForwardBatch,
        topk_indices: torch.Tensor | None,
    ) -> torch.Tensor:
        pool, table = forward_batch.token_to_kv_pool, forward_batch.req_to_token_pool
        if forward_batch.spread or forward_batch.attn_cp_metadata is not None:
            remedy = 'Use method="absorbed".'
            raise BadArgumentError("method", "'absorbed' over a context that ranks share", self.method, remedy)
        if not isinstance(pool, MLATokenToKVPool) or table is None:
            remedy = "Run the model over an MLATokenToKVPool."
            raise BadArgumentError("forward_batch.token_to_kv_pool", "an MLA pool", type(pool).__name__, remedy)
        pool.set_mla_kv_buffer(self.attn.shape, forward_batch.out_cache_loc, latent, k_rope)
        decoding = forward_batch.forward_mode.is_decode()
        counts = [1] * forward_batch.batch_size if decoding else forward_batch.extend_seq_lens_cpu or []
        out, start = [], 0
        rows = forward_batch.req_pool_indices.tolist()
        for count, row, length in zip(counts, rows, forward_batch.seq_lens.tolist(), strict=True):
            slots, new = table.req_to_token[row, :length].long(), slice(start, start + count)
            keys = torch.arange(length, device=q.device)
            visible = keys <= keys[length - count :, None]
            if topk_indices is not None:
                # One more column for the −1s.
                chosen = visible.new_zeros(count, length + 1)
                visible = visible & chosen.scatter_(1, topk_indices[new].long() % (length + 1), True)[:, :length]
            out.append(self._request(q[new], *pool.get_mla_kv_buffer(self.attn.shape, slots, q.dtype), visible))
            start += count
        return torch.cat(out).flatten(1)

    def _request(
        self, q: torch.Tensor, latent: torch.Tensor, k_rope: torch.Tensor, visible: torch.Tensor
    ) -> torch.Tensor:
        """One request's new queries [new, heads, nope + rope] over all its tokens -> [new, heads, v]."""
        w_uk, w_uv = self._matrices()
        k_nope = torch.einsum("sr,hnr->hsn", latent[:, 0], w_uk)
        v = torch.einsum("sr,hvr->hsv", latent[:, 0], w_uv)
        k = torch.cat((k_nope, k_rope[:, 0].expand(self.num_heads, -1, -1)), -1)
        attended = functional.scaled_dot_product_attention(
            q.transpose(0, 1)[None], k[None], v[None], attn_mask=visible, scale=self.scaling
        )
        return attended[0].transpose(0, 1)
