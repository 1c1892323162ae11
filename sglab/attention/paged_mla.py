"""What MLA decode backends over a page table have in common: the table, CUDA graphs, and a fallback for other modes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch

from sglab.attention.arithmetic.attend import IMPLEMENTATIONS
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import Demand, unserved
from sglab.attention.create import create_attention_backend
from sglab.attention.info import note
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import read_kv
from sglab.engine import ForwardBatch, GraphBatch, MLATokenToKVPool, ModelRunner
from sglab.kernels import create_flashmla_kv_indices
from sglab.kernels.registry import triton_is_installed

Metadata = TypeVar("Metadata")


class PagedMLABackend(AttentionBackend, Generic[Metadata]):
    """tile: tokens that the kernel reads page numbers for at a time; a row of the table holds whole tiles."""

    tile: int

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self.page_size = model_runner.page_size
        self.fallback = create_attention_backend(self.capabilities.fallback, self._fallback_runner(model_runner))
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.kv_cache_dim = model_runner.model_config.head_dim
        self.q_data_type = model_runner.dtype
        self.num_q_heads = model_runner.model_config.num_attention_heads // model_runner.tp_size
        self.device = model_runner.device
        self.implementation = model_runner.kernel_implementation
        self.index_implementation = self._index_implementation()
        self.forward_metadata: Metadata | None = None
        self._serving: AttentionBackend = self
        self._graph: Metadata | None = None

    # What differs.

    @abstractmethod
    def padding_page(self) -> int:
        """What follows a request's last page in the table."""

    @abstractmethod
    def new_metadata(self, table: torch.Tensor, seq_lens: torch.Tensor, query_tokens: int = 1) -> Metadata:
        """Metadata for requests of these lengths, int32 [B], each with as many query tokens."""

    @abstractmethod
    def graph_metadata(self, graph: Metadata, bs: int, seq_lens: torch.Tensor, query_tokens: int) -> Metadata:
        """The part of the graph's buffers that a batch of this size uses, filled for it."""

    @abstractmethod
    def table_of(self, metadata: Metadata) -> torch.Tensor:
        """The page table, int32 [requests, pages]."""

    @abstractmethod
    def run(self, inputs: AttentionInputs, metadata: Metadata, cache: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Attend over the saved rows: cache [pages, page_size, 576] -> [tokens, heads, 512] and, where the kernel says
        it, the natural LSE."""

    # What is the same.

    @property
    def serving(self) -> AttentionBackend:
        return self._serving

    def prepare(self, forward_batch: ForwardBatch) -> None:
        self._choose(forward_batch)
        if self._serving is not self:
            self._note_fallback(forward_batch)
            self._serving.prepare(forward_batch)
        elif not forward_batch.forward_mode.is_idle():
            self._check_metadata(forward_batch)
            mode = forward_batch.forward_mode
            drafts = forward_batch.spec_info.draft_token_num if mode.is_target_verify() else 0
            table = self.new_table(forward_batch.batch_size, self._longest(forward_batch) + drafts, self.padding_page())
            lens = forward_batch.seq_lens + drafts
            self._fill(table, forward_batch.req_pool_indices, lens)
            caught_up = forward_batch.extend_seq_lens_cpu if mode.is_draft_extend_v2() else None
            tokens = max(caught_up, default=1) if caught_up is not None else drafts or 1
            self.forward_metadata = self.new_metadata(table, lens.to(torch.int32), tokens)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        """One table, wide enough for any request, serves all captured sizes."""
        super().init_graph(max_bs, max_num_tokens)
        table = self.new_graph_table(max_bs)
        self._graph = self.new_metadata(table, torch.ones(max_bs, dtype=torch.int32, device=self.device))
        self.fallback.init_graph(max_bs, max_num_tokens)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        self._choose(graph_batch)
        if self._serving is not self:
            self._serving.prepare_capture(graph_batch)
        else:
            self._check_metadata(graph_batch, before_capture=True)
            self.forward_metadata = self._fill_graph(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        self._choose(graph_batch)
        if self._serving is not self:
            self._serving.prepare_replay(graph_batch)
        else:
            self._check_metadata(graph_batch)
            self.forward_metadata = self._fill_graph(graph_batch)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        if self.forward_metadata is None:
            raise RuntimeError("prepare comes before forward")
        pool, layer, loc = inputs.forward_batch.token_to_kv_pool, inputs.layer, inputs.forward_batch.out_cache_loc
        assert isinstance(pool, MLATokenToKVPool)
        if inputs.save_kv_cache:
            assert inputs.k is not None
            assert inputs.v is not None
            if inputs.k_rope is not None:
                pool.set_mla_kv_buffer(layer, loc, inputs.k, inputs.k_rope)
            else:
                pool.set_kv_buffer(layer, loc, inputs.k, inputs.v)
        return self.run(inputs, self.forward_metadata, self._cache(inputs))[0]

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        assert self.forward_metadata is not None
        return self.run(inputs, self.forward_metadata, self._cache(inputs))

    def _cache(self, inputs: AttentionInputs) -> torch.Tensor:
        return read_kv(inputs)[0].view(-1, self.page_size, self.kv_cache_dim)

    def new_table(self, rows: int, longest: int, fill: int) -> torch.Tensor:
        tiles = max(1, -(-longest // self.tile))
        shape = (rows, tiles * self.tile // self.page_size)
        return torch.full(shape, fill, dtype=torch.int32, device=self.device)

    def new_graph_table(self, rows: int) -> torch.Tensor:
        """Page 1 until filled."""
        pages = (self.max_context_len + self.page_size) // self.page_size
        return self.new_table(rows, pages * self.page_size, 1)

    def _choose(self, batch: ForwardBatch | GraphBatch) -> None:
        """This backend where its kernel serves the batch, else the fallback, which refuses what it does not serve."""
        self._serving = self if unserved(self.capabilities, Demand.of_batch(batch)) is None else self.fallback

    def _longest(self, forward_batch: ForwardBatch) -> int:
        """The longest request; where only the device knows, the longest there can be: nothing waits for the device."""
        if forward_batch.seq_lens_cpu is None:
            return self.max_context_len
        return int(forward_batch.seq_lens_cpu.max())

    def _fill_graph(self, batch: GraphBatch) -> Metadata:
        if self._graph is None:
            raise RuntimeError("init_graph comes before a capture")
        bs, lens, tokens = batch.bs, batch.seq_lens[: batch.bs], 1
        if batch.forward_mode.is_target_verify():
            tokens = batch.spec_info.draft_token_num
            lens = lens + tokens
        elif batch.extends:
            tokens = batch.tokens_per_request
        self._fill(self.table_of(self._graph)[:bs], batch.req_pool_indices[:bs], lens)
        return self.graph_metadata(self._graph, bs, lens, tokens)

    def _fill(self, table: torch.Tensor, rows: torch.Tensor, seq_lens: torch.Tensor) -> None:
        create_flashmla_kv_indices(
            self.req_to_token,
            rows,
            seq_lens,
            None,
            table,
            page_size=self.page_size,
            implementation=self.index_implementation,
        )

    @staticmethod
    def _fallback_runner(runner: ModelRunner) -> ModelRunner:
        """The fallback takes the names of `attend_rows` alone: a kernel's own, such as "sglab", is this backend's.

        So is "flashinfer" where the library's kernel of this backend runs on the emulator.
        """
        asked = runner.kernel_implementation
        known = asked in IMPLEMENTATIONS and (asked != "flashinfer" or runner.device.type == "cuda")
        return runner if known else replace(runner, kernel_implementation="auto")

    def _arithmetic(self) -> str:
        """What `attend_rows` is asked for where a backend has no kernel of its own here."""
        return self.implementation if self.implementation in ("triton", "reference", "torch") else "auto"

    def _index_implementation(self) -> str:
        """The index kernel is Triton's, on the CPU too, where "auto" would take the reference."""
        if self.implementation in {"triton", "reference"}:
            return self.implementation
        return "triton" if self.device.type == "cpu" and triton_is_installed() else "auto"

    def _note_fallback(self, forward_batch: ForwardBatch) -> None:
        note(
            f"{forward_batch.forward_mode.name} is served by {self.fallback.name}: {self.name} has no kernel for it "
            "(SGLang's leaves it to FlashInfer's MLA backend, too)"
        )
