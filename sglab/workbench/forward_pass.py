"""From requests to one forward pass: the slots of their tokens and the ModelWorkerBatch."""

from __future__ import annotations

import torch

from sglab.engine import ForwardMode, ModelWorkerBatch, Req, ReqToTokenPool


def token_slots(pool: ReqToTokenPool, req: Req) -> torch.Tensor:
    """int64 [seq_len], the KV slots of a request's tokens."""
    assert req.req_pool_idx is not None
    return pool.req_to_token[req.req_pool_idx, : req.kv_committed_len].to(torch.int64)


def new_slots(pool: ReqToTokenPool, reqs: list[Req], new_tokens: list[int]) -> torch.Tensor:
    """int64 [tokens], the slots that the page table gives a pass's tokens, the last `new_tokens` of each request."""
    slots = [token_slots(pool, req)[-count:] for req, count in zip(reqs, new_tokens, strict=True)]
    return torch.cat([torch.empty(0, dtype=torch.int64, device=pool.device), *slots])


def worker_batch(pool: ReqToTokenPool, reqs: list[Req], new_tokens: list[int], mode: ForwardMode) -> ModelWorkerBatch:
    """The pass that computes the last `new_tokens` of each request; no request: an idle one."""
    seq_lens = [req.kv_committed_len for req in reqs]
    new_ids = [token for req, n in zip(reqs, new_tokens, strict=True) for token in req.token_ids()[-n:]]
    seq_lens_cpu = torch.tensor(seq_lens, dtype=torch.int64)
    extend = mode.is_extend() and bool(reqs)
    return ModelWorkerBatch(
        forward_mode=mode if reqs else ForwardMode.IDLE,
        input_ids=torch.tensor(new_ids, dtype=torch.int64),
        req_pool_indices=torch.tensor([req.req_pool_idx for req in reqs], dtype=torch.int64),
        seq_lens=seq_lens_cpu,
        out_cache_loc=new_slots(pool, reqs, new_tokens),
        seq_lens_cpu=seq_lens_cpu,
        seq_lens_sum=sum(seq_lens),
        extend_num_tokens=sum(new_tokens) if extend else None,
        extend_seq_lens=list(new_tokens) if extend else None,
        extend_prefix_lens=[s - n for s, n in zip(seq_lens, new_tokens, strict=True)] if extend else None,
        orig_seq_lens=seq_lens_cpu.to(torch.int32),
        rids=[req.rid for req in reqs],
    )
