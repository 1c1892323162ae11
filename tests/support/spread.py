"""A batch of one process as the ranks have it that its requests' context is spread over (`dcp_size`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.dcp.backend import ContextParallelBackend
from sglab.attention.dcp.layout import Share
from sglab.attention.dcp.merging import merge_over_ranks
from sglab.engine import ForwardBatch, GraphBatch, KVCache, MHATokenToKVPool, MLATokenToKVPool, ModelRunner
from sglab.engine.rank_group import RankGroup
from sglab.layers import TensorParallel
from sglab.workbench import Batch
from tests.support.attention import verify_batch


@dataclass(frozen=True)
class Alone:
    """A rank without the others, for what needs none of them."""

    rank: int
    size: int

    def all_gather(self, x: torch.Tensor, dim: int = -1) -> NoReturn:
        raise AssertionError("no other rank is here")

    reduce_scatter = all_to_all = all_gather


@dataclass(frozen=True)
class ThreadRank:
    """A rank whose group are threads of this process, which meet at a barrier."""

    rank: int
    size: int
    barrier: threading.Barrier
    given: list[Any]

    def _of_all(self, x: torch.Tensor) -> list[torch.Tensor]:
        self.given[self.rank] = x
        self.barrier.wait()
        found = list(self.given)
        self.barrier.wait()
        return found

    def all_gather(self, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
        return torch.cat(self._of_all(x), dim)

    def reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(self._of_all(x)).sum(0).chunk(self.size)[self.rank]

    def all_to_all(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([each[self.rank] for each in self._of_all(x)])


def on_threads(size: int, run: Callable[[RankGroup], torch.Tensor]) -> list[torch.Tensor]:
    """run(group) of every rank at once. Raises what the first of them raises that does not only miss the others."""
    barrier, given = threading.Barrier(size, timeout=60), [None] * size

    def one(rank: int) -> torch.Tensor | Exception:
        try:
            return run(ThreadRank(rank, size, barrier, given))
        except Exception as error:
            barrier.abort()
            return error

    with ThreadPoolExecutor(size) as pool:
        answers = list(pool.map(one, range(size)))
    errors = [each for each in answers if isinstance(each, Exception)]
    for error in sorted(errors, key=lambda each: isinstance(each, threading.BrokenBarrierError)):
        raise error
    return [each for each in answers if isinstance(each, torch.Tensor)]


@dataclass(frozen=True)
class Case:
    """A batch that every rank builds anew, from the same seed, with the pages of all of them.

    Attributes:
        prefixes: of an extend; None: it decodes.
        options: of `decode_batch`; page_size is a rank's.
    """

    backend: str
    lens: list[int]
    prefixes: list[int] | None = None
    comm: str = "ag_rs"
    implementation: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    def batch(self, size: int) -> Batch:
        options = {**self.options, "page_size": self.options.get("page_size", 1) * size}
        if self.prefixes is None:
            return sglab.decode_batch(self.lens, **options)
        return sglab.extend_batch(self.lens, self.prefixes, **options)


def share_of(name: str, batch: Batch, group: RankGroup) -> Share:
    """What a rank has: with ascend every size-th page, else every size-th token."""
    return Share(group.rank, group.size, batch.page_size // group.size if name == "ascend" else 1)


def own_pool(whole: KVCache, share: Share) -> KVCache:
    """What one rank holds of a pool; the rows of new tokens, which a pass stores, are left out by `rank_runner`."""
    size = share.size
    slots, page, dtype, layers, device = whole.size // size, whole.page_size // size, whole.dtype, 1, whole.device
    mine: KVCache
    if isinstance(whole, MLATokenToKVPool):
        mine = MLATokenToKVPool(slots, page, dtype, whole.kv_lora_rank, whole.qk_rope_head_dim, layers, device)
    else:
        assert isinstance(whole, MHATokenToKVPool)
        heads, dim, v_dim = whole.head_num, whole.head_dim, whole.v_head_dim
        mine = MHATokenToKVPool(slots, page, dtype, heads, dim, layers, device, v_dim)
    theirs = whole.named_buffers(0)
    for name, own_buffer in mine.named_buffers(0).items():
        here = share.has(torch.arange(len(theirs[name]), device=device))
        own_buffer.copy_(theirs[name][here])
    return mine


def rank_runner(
    name: str, batch: Batch, group: RankGroup, comm: str = "ag_rs", implementation: str = "auto"
) -> ModelRunner:
    """A batch's runner as one rank has it: with its share of the rows, but for those that the pass is to store."""
    whole, size, share = batch.runner.token_to_kv_pool, group.size, share_of(name, batch, group)
    pool = own_pool(whole, share)
    new = batch.forward_batch.out_cache_loc
    for buffer in pool.named_buffers(batch.layer.layer_id).values():
        buffer[share.own(new[share.has(new)])] = 7.0
    return replace(
        batch.runner,
        token_to_kv_pool=pool,
        page_size=whole.page_size // size,
        tp_size=size,
        dcp=group,
        dcp_comm_backend=comm,
        kernel_implementation=implementation,
    )


def rows_of(batch: Batch, group: RankGroup) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]:
    """This rank's heads of the queries, all keys and values, and the layer for them."""
    heads = batch.num_heads // group.size
    q = batch.q[:, group.rank * heads : (group.rank + 1) * heads].contiguous()
    return q, batch.k, batch.v, replace(batch.layer, tp_q_head_num=heads)


def attend_spread(tp: TensorParallel, cases: list[Case]) -> list[torch.Tensor]:
    """[tokens, own heads, v_head_dim] of each case on one rank."""
    group = tp.context
    return [attend_one(group, one.backend, one.batch(group.size), one.comm, one.implementation) for one in cases]


def attend_one(
    group: RankGroup,
    name: str,
    batch: Batch,
    comm: str = "ag_rs",
    implementation: str = "auto",
    asked: ForwardBatch | None = None,
    **options: Any,
) -> torch.Tensor:
    """One rank's heads; every row that the pass stored is where it belongs."""
    runner = rank_runner(name, batch, group, comm, implementation)
    backend = create_attention_backend(name, runner)
    assert isinstance(backend, ContextParallelBackend)
    forward_batch = replace(asked or batch.forward_batch, token_to_kv_pool=runner.token_to_kv_pool)
    backend.prepare(forward_batch)
    q, k, v, layer = rows_of(batch, group)
    o = backend.forward(q, k, v, layer, forward_batch, **options)
    kept = own_pool(batch.runner.token_to_kv_pool, share_of(name, batch, group)).named_buffers(layer.layer_id)
    page = runner.page_size  # after the dummy page, where the others' rows went
    for name, buffer in runner.token_to_kv_pool.named_buffers(layer.layer_id).items():
        assert torch.equal(buffer[page:].float(), kept[name][page:].float()), f"{name} rows of rank {group.rank}"
    return o.view(len(q), layer.tp_q_head_num, layer.v_head_dim)


def merge_spread(
    tp: TensorParallel, o: torch.Tensor, lse: torch.Tensor, comm: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Partial results of all ranks, [ranks, tokens, heads, dim] and [ranks, tokens, heads], as one of them joins its
    own with the others'."""
    return merge_over_ranks((o[tp.rank], lse[tp.rank]), tp.context, comm)


def replay_spread(tp: TensorParallel, case: Case, drafts: int = 0) -> torch.Tensor:
    """A decode, or the verification of a chain, over buffers that were captured for a batch of one more request, each
    of one token before it."""
    group, batch = tp.context, case.batch(tp.context.size)
    runner = rank_runner(case.backend, batch, group, case.comm, case.implementation)
    backend, count = create_attention_backend(case.backend, runner), len(case.lens)
    per_request, asked = max(drafts, 1), batch.forward_batch
    if case.prefixes is not None:
        asked = verify_batch(batch, case.prefixes, list(range(-1, drafts - 1)))
    tokens, real = (count + 1) * per_request, count * per_request
    static = replace(
        asked,
        batch_size=count + 1,
        input_ids=torch.zeros(tokens, dtype=torch.int64),
        req_pool_indices=torch.zeros(count + 1, dtype=torch.int64),
        seq_lens=torch.ones(count + 1, dtype=torch.int64),
        seq_lens_cpu=None,
        out_cache_loc=torch.zeros(tokens, dtype=torch.int64),
        token_to_kv_pool=runner.token_to_kv_pool,
    )
    backend.init_graph(count + 1, tokens)
    backend.prepare_capture(GraphBatch.of(static))
    q, k, v, layer = rows_of(batch, group)
    q, k, v = (torch.cat((each, torch.zeros_like(each[:per_request]))) for each in (q, k, v))
    backend.forward(q, k, v, layer, static)
    static.seq_lens[:count], static.req_pool_indices[:count] = asked.seq_lens, asked.req_pool_indices
    static.out_cache_loc[:real] = asked.out_cache_loc
    backend.prepare_replay(replace(GraphBatch.of(static), seq_lens_cpu=static.seq_lens.clone()))
    return backend.forward(q, k, v, layer, static)[:real].view(real, layer.tp_q_head_num, layer.v_head_dim)
