"""A prompt's prefix gathered from the ranks that hold it, so that a rank's own heads attend to all of its keys.

The buffer holds the prefixes of all requests, request after request, then their new tokens.
Source: SGLang 0.5.23 `layers/dcp/planner.py`, prepare_decode_context_parallel_metadata; `comm.py`,
all_gather_kv_cache_for_mla_extend.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.attention.arithmetic import PagedRows
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.dcp.layout import Share
from sglab.engine import BadArgumentError, ForwardBatch, KVCache
from sglab.engine.rank_group import RankGroup


@dataclass(frozen=True)
class GatheredPrefix:
    """The arrays of a pass, which all of its layers share.

    Attributes:
        dcp_kv_indptr, dcp_kv_indices: int32 [B + 1] and int32, each request's rows of the buffer, in their order.
        dcp_local_prefix_kv_indices: int64, the rows of this rank's pool that have its share of the prefixes; a request
            of which it has one fewer than another rank has gets the dummy row.
        order: int64 [prefix tokens], where each lies among what came from all ranks.
        rows: what a rank's queries attend over.
    """

    dcp_kv_indptr: torch.Tensor
    dcp_kv_indices: torch.Tensor
    dcp_local_prefix_kv_indices: torch.Tensor
    order: torch.Tensor
    rows: PagedRows

    @classmethod
    def of(cls, batch: ForwardBatch, req_to_token: torch.Tensor, share: Share) -> GatheredPrefix:
        """
        Args:
            req_to_token: int32 [rows of the request pool, tokens], all ranks' slots.
        """
        prefixes, new = batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu
        if prefixes is None or new is None or batch.extend_seq_lens is None or batch.extend_prefix_lens is None:
            remedy = "ForwardBatch.init_new fills them from the worker batch."
            raise BadArgumentError("forward_batch.extend_prefix_lens_cpu", "prefixes of an extend", None, remedy)
        size, table = share.size, share.table(req_to_token[batch.req_pool_indices])
        before = batch.extend_prefix_lens.to(torch.int64)
        held = -(-before // size)  # by the rank that has most
        request, at = _positions(held, sum(-(-prefix // size) for prefix in prefixes))
        mine = at < share.lens(before)[request]
        local = table[request, at.clamp(max=table.shape[1] - 1)].to(torch.int64)
        of, token = _positions(before, sum(prefixes))
        starts = torch.cumsum(held, 0) - held
        order = token % size * len(at) + starts[of] + token // size
        indptr, ends = indptr_of(before + batch.extend_seq_lens), torch.cumsum(before, 0)
        request, at = _positions(before + batch.extend_seq_lens, sum(prefixes) + sum(new))
        first_new = sum(prefixes) + torch.cumsum(batch.extend_seq_lens, 0) - batch.extend_seq_lens
        cached = (ends - before)[request] + at
        indices = torch.where(at < before[request], cached, first_new[request] + at - before[request]).to(torch.int32)
        rows = PagedRows(indptr_of(batch.extend_seq_lens), indptr, indices, max(new, default=0))
        return cls(indptr, indices, torch.where(mine, local, 0), order, rows)

    def buffer(self, pool: KVCache, layer_id: int, new: torch.Tensor, group: RankGroup) -> torch.Tensor:
        """All keys of the pass in the pool's dtype, [prefix and new tokens, 1, dim]; every rank must call it at once.

        Args:
            new: [new tokens, 1, dim].
        """
        keys = pool.get_key_buffer(layer_id)
        mine = keys.view(torch.uint8)[self.dcp_local_prefix_kv_indices]  # bytes: no collective knows FP8
        came = group.all_gather(mine, dim=0)[self.order]
        return torch.cat((came, new.to(keys.dtype).contiguous().view(torch.uint8))).view(keys.dtype)


def _positions(lens: torch.Tensor, total: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of so many entries, request after request: whose each is, and its place there."""
    at = torch.arange(total, device=lens.device)
    ends = torch.cumsum(lens.to(torch.int64), 0)
    request = torch.searchsorted(ends, at, right=True)
    return request, at - (ends - lens)[request]
