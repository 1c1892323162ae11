"""What ranks found for all heads over their shares of the keys -> each rank's heads over all keys."""

from __future__ import annotations

import torch

from sglab.attention.arithmetic.merging import Partial
from sglab.engine.rank_group import RankGroup


def merge_over_ranks(partial: Partial, group: RankGroup, comm_backend: str) -> Partial:
    """Join the ranks' partial results by their LSE.

    Args:
        partial: o [tokens, heads, v_head_dim] and natural LSE float32 [tokens, heads] of all ranks' heads, rank after
            rank; 0 and −inf where a rank has no key.
        comm_backend: "ag_rs" or "a2a".

    Returns:
        The same of this rank's heads; o is float32.
    """
    return (_exchanged if comm_backend == "a2a" else _reduced)(*partial, group)


def _reduced(o: torch.Tensor, lse: torch.Tensor, group: RankGroup) -> Partial:
    """All-gather the LSEs, weigh one's own result, and sum over ranks, each of which gets its heads."""
    lses = group.all_gather(lse[None].contiguous(), dim=0)
    whole = torch.logsumexp(lses, 0)
    share = (lse - whole).exp().nan_to_num(0.0)  # −inf less −inf: no rank has a key
    weighed = (o.float() * share[..., None]).transpose(0, 1)
    mine = group.reduce_scatter(weighed.contiguous()).transpose(0, 1)
    return mine.contiguous(), whole.unflatten(1, (group.size, -1))[:, group.rank].contiguous()


def _exchanged(o: torch.Tensor, lse: torch.Tensor, group: RankGroup) -> Partial:
    """Send every rank its heads of one's own result, with their LSEs, in one message of bytes; then join what came."""
    parts = o.unflatten(1, (group.size, -1)).transpose(0, 1).contiguous()
    lses = lse.unflatten(1, (group.size, -1)).transpose(0, 1).contiguous()
    bytes_of = [each.view(torch.uint8).flatten(1) for each in (parts, lses)]
    came = group.all_to_all(torch.cat(bytes_of, 1))
    came_o, came_lse = (each.contiguous() for each in came.split([each.shape[1] for each in bytes_of], 1))
    each_o, each_lse = came_o.view(o.dtype).view(parts.shape), came_lse.view(torch.float32).view(lses.shape)
    whole = torch.logsumexp(each_lse, 0)
    share = (each_lse - whole).exp().nan_to_num(0.0)
    return (each_o.float() * share[..., None]).sum(0), whole
