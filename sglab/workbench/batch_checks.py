"""What must hold before an attention pass may read a batch, put together from the engine's checks."""

from __future__ import annotations

import torch

from sglab.engine import ForwardBatch, ModelRunner, RadixAttention, Req
from sglab.engine.batch import checks
from sglab.engine.batch.metadata import check_metadata
from sglab.workbench.forward_pass import new_slots


def check_attention_inputs(
    runner: ModelRunner,
    layer: RadixAttention,
    forward_batch: ForwardBatch,
    q: torch.Tensor,
    reqs: list[Req],
    new_tokens: list[int],
) -> None:
    """Queries, page table, write slots and KV rows of a pass.

    Raises:
        BadArgumentError, PageTableError, NonFiniteKVError: naming what is wrong, where, and what to do.
    """
    pool = runner.req_to_token_pool
    checks.check_q_finite(q, new_tokens, [req.rid for req in reqs])
    check_table(runner, forward_batch)
    checks.check_out_cache_loc(forward_batch.out_cache_loc, new_slots(pool, reqs, new_tokens))
    rows = {req.req_pool_idx: (req.rid, req.kv_committed_len) for req in reqs if req.req_pool_idx is not None}
    checks.check_kv_finite(runner.token_to_kv_pool, layer.layer_id, pool.req_to_token, rows)


def check_table(runner: ModelRunner, forward_batch: ForwardBatch) -> None:
    """Lengths, rows, slots and who owns them, unless `ModelRunner.check_metadata` is False.

    Raises:
        BadArgumentError, PageTableError: as `check_attention_inputs`.
    """
    if runner.check_metadata is not False:
        check_metadata(forward_batch, runner)
