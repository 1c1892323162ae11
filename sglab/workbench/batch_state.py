"""BatchState: what a batch holds and shows; `batch` adds the edits."""

from __future__ import annotations

import torch

from sglab.engine import arguments
from sglab.engine.batch import checks
from sglab.engine.batch.forward_batch import ForwardBatch
from sglab.engine.batch.forward_mode import ForwardMode
from sglab.engine.batch.req import Req
from sglab.engine.batch.schedule_batch import ModelWorkerBatch
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.errors import BadArgumentError
from sglab.engine.layer import RadixAttention
from sglab.engine.model_runner import Kind, ModelRunner


class BatchState:
    """The requests, tensors and pools of one attention pass, and what can be read off them. `Batch` documents it."""

    def __init__(self, runner: ModelRunner, tree_cache: RadixCache, layer: RadixAttention, mode: ForwardMode) -> None:
        self.runner = runner
        self.tree_cache = tree_cache
        self.layer = layer
        self.forward_mode = mode
        self.reqs: list[Req] = []
        self.new_tokens: list[int] = []
        self.q = torch.empty((0, layer.tp_q_head_num, layer.head_dim), dtype=runner.dtype, device=runner.device)
        self._refresh()

    @property
    def kind(self) -> Kind:
        return self.runner.model_config.kind

    @property
    def page_size(self) -> int:
        return self.runner.page_size

    @property
    def dtype(self) -> torch.dtype:
        return self.runner.dtype

    @property
    def device(self) -> torch.device:
        return self.runner.device

    @property
    def batch_size(self) -> int:
        return len(self.reqs)

    @property
    def num_heads(self) -> int:
        return self.layer.tp_q_head_num

    @property
    def num_kv_heads(self) -> int:
        return self.layer.tp_k_head_num

    @property
    def sm_scale(self) -> float:
        return self.layer.scaling

    @property
    def req_to_token(self) -> torch.Tensor:
        """int32 [rows, max_context_len], live."""
        return self.runner.req_to_token_pool.req_to_token

    @property
    def req_pool_indices(self) -> torch.Tensor:
        """int64 [B], live."""
        return self.forward_batch.req_pool_indices

    @property
    def seq_lens(self) -> torch.Tensor:
        """int64 [B], live."""
        return self.forward_batch.seq_lens

    @property
    def k(self) -> torch.Tensor:
        """[tokens, num_kv_heads, head_dim]: a copy of the new tokens' key rows."""
        return self.runner.token_to_kv_pool.get_key_buffer(self.layer.layer_id)[self.forward_batch.out_cache_loc]

    @property
    def v(self) -> torch.Tensor:
        """[tokens, num_kv_heads, v_head_dim]: a copy of the new tokens' value rows."""
        return self.runner.token_to_kv_pool.get_value_buffer(self.layer.layer_id)[self.forward_batch.out_cache_loc]

    def slots(self, i: int) -> torch.Tensor:
        """int64 [seq_len], the KV slots of request i's tokens."""
        req = self._req(i)
        assert req.req_pool_idx is not None
        return self.req_to_token[req.req_pool_idx, : req.kv_committed_len].to(torch.int64)

    def pages(self, i: int) -> list[int]:
        """The pages of request i, in token order."""
        return (self.slots(i)[:: self.page_size] // self.page_size).tolist()

    def free_pages(self) -> list[int]:
        """Pages nobody owns, in the order in which the allocator will hand them out."""
        allocator = self.runner.token_to_kv_pool_allocator
        return torch.cat((allocator.free_pages, allocator.release_pages)).tolist()

    def cached_pages(self) -> list[int]:
        """Pages that the radix tree owns, locked or evictable."""
        slots = [node.value[:: self.page_size] // self.page_size for node in self.tree_cache.nodes()]
        return sorted(torch.cat(slots).tolist()) if slots else []

    def __repr__(self) -> str:
        lengths = [req.kv_committed_len for req in self.reqs]
        return (
            f"Batch({self.forward_mode.name.lower()}, {self.kind}, seq_lens={lengths}, num_heads={self.num_heads}, "
            f"num_kv_heads={self.num_kv_heads}, page_size={self.page_size}, {self.dtype}, {self.device}, "
            f"{len(self.free_pages())} of {self.runner.token_to_kv_pool.num_pages} pages free)"
        )

    def check(self) -> None:
        """Refuse what no kernel could serve: see `checks`. Attention calls this first.

        Raises:
            BadArgumentError, PageTableError, NonFiniteKVError: naming what is wrong, where, and what to do.
        """
        pool, kv_pool, pass_ = self.runner.req_to_token_pool, self.runner.token_to_kv_pool, self.forward_batch
        self._check_q()
        checks.check_q_finite(self.q, self.new_tokens, [req.rid for req in self.reqs])
        self.check_page_table()
        checks.check_out_cache_loc(pass_.out_cache_loc, self._new_slots())
        rows = {req.req_pool_idx: (req.rid, req.kv_committed_len) for req in self.reqs if req.req_pool_idx is not None}
        checks.check_kv_finite(kv_pool, self.layer.layer_id, pool.req_to_token, rows)

    def check_page_table(self) -> None:
        """The part of `check` that an index kernel depends on: lengths, rows and slots.

        Raises:
            BadArgumentError, PageTableError.
        """
        pool, pass_ = self.runner.req_to_token_pool, self.forward_batch
        checks.check_lengths(pass_.seq_lens, self.batch_size, pool.max_context_len, self.device)
        if self.batch_size:
            checks.check_page_table(pool, pass_.req_pool_indices, pass_.seq_lens, self.runner.token_to_kv_pool)

    def _refresh(self, query_rows: list[torch.Tensor] | None = None) -> None:
        """Make `q` and `forward_batch` anew from the requests."""
        if query_rows is not None:
            self.q = torch.cat([self.q[:0], *query_rows])
        self.forward_batch = ForwardBatch.init_new(self._worker_batch(), self.runner)

    def _worker_batch(self) -> ModelWorkerBatch:
        seq_lens = [req.kv_committed_len for req in self.reqs]
        new_ids = [token for req, n in zip(self.reqs, self.new_tokens, strict=True) for token in req.token_ids()[-n:]]
        seq_lens_cpu = torch.tensor(seq_lens, dtype=torch.int64)
        extend = self.forward_mode.is_extend() and bool(self.reqs)
        return ModelWorkerBatch(
            forward_mode=self.forward_mode if self.reqs else ForwardMode.IDLE,
            input_ids=torch.tensor(new_ids, dtype=torch.int64),
            req_pool_indices=torch.tensor([req.req_pool_idx for req in self.reqs], dtype=torch.int64),
            seq_lens=seq_lens_cpu,
            out_cache_loc=self._new_slots(),
            seq_lens_cpu=seq_lens_cpu,
            seq_lens_sum=sum(seq_lens),
            extend_num_tokens=sum(self.new_tokens) if extend else None,
            extend_seq_lens=list(self.new_tokens) if extend else None,
            extend_prefix_lens=[s - n for s, n in zip(seq_lens, self.new_tokens, strict=True)] if extend else None,
            orig_seq_lens=seq_lens_cpu.to(torch.int32),
        )

    def _new_slots(self) -> torch.Tensor:
        """int64 [tokens], the slots that the page table gives this pass's tokens."""
        slots = [self.slots(i)[-count:] for i, count in enumerate(self.new_tokens)]
        return torch.cat([torch.empty(0, dtype=torch.int64, device=self.device), *slots])

    def _req(self, i: int) -> Req:
        if not self.reqs:
            raise BadArgumentError("i", "a request", f"{i!r} for an empty batch", "Allocate a request first.")
        return self.reqs[arguments.integer("i", i, 0, self.batch_size - 1, "Requests are numbered in batch order.")]

    def _check_q(self) -> None:
        shape = (sum(self.new_tokens), self.num_heads, self.layer.head_dim)
        checks.check_tensor("q", self.q, shape, (self.dtype,), self.device)

    def _query_rows(self) -> list[torch.Tensor]:
        self._check_q()
        return list(self.q.split(self.new_tokens)) if self.new_tokens else []
