"""AttentionBackend: the interface between a model's attention layers and the kernels that serve them.

Life of a backend: made once from the model runner; `prepare` once per forward pass (index arrays and plans that all
layers share); `forward` once per layer. Under a CUDA graph the metadata lives in buffers allocated once (`init_graph`),
filled outside the graph before each capture (`prepare_capture`) and each replay (`prepare_replay`), or by the graph
itself (`fill_in_graph`).

A backend overrides `attend` and, of the others, what its kernels need; what it serves it declares in `capabilities`,
from which every refusal comes. SGLang's method names and signatures are in `sglab.attention.sglang`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch

from sglab.attention.arithmetic.chosen import IndexRows, choose_tokens
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.capabilities import Capabilities, Demand, UnsupportedError, refuse_unserved, unserved
from sglab.attention.image_masks import check_image_spans
from sglab.attention.inputs import AttentionInputs
from sglab.attention.prepared import GraphSizes, PreparedPass
from sglab.attention.registry import capabilities_by_name
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch, ModelRunner, RadixAttention, ScoreMod
from sglab.engine.batch.metadata import check_metadata, is_checked


class AttentionBackend(ABC):
    """Base class of attention backends. `name` is what the registry knows it by."""

    name: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities()
    graph_seq_len_fill_value: ClassVar[int] = 1
    """seq_len of a graph's padded rows: each attends to one token, that of slot 0."""
    plans_ahead: ClassVar[bool] = True
    """Whether `attend` reads what `prepare` made; another batch's then is refused."""
    _kind: str | None = None
    _page_size: int | None = None
    _kv_dtype: torch.dtype | str | None = None
    _kv_records: bool = False
    _deterministic: bool = False
    _chunk_size: int = 0
    _dcp_size: int = 1
    _attn_cp_size: int = 1
    _runner: ModelRunner | None = None
    _served: frozenset[tuple[object, ...]] = frozenset()
    """What `_refuse_call` was asked and found served."""
    _pass: PreparedPass | None = None
    """The eager pass last prepared; None: none, or a graph's."""
    _graph_sizes: GraphSizes | None = None

    def __init__(self, model_runner: ModelRunner) -> None:
        """Refuses a model or a page size that the backend does not serve."""
        self._runner = model_runner
        self._kind, self._page_size = model_runner.model_config.kind, model_runner.page_size
        self._kv_dtype = model_runner.stored_apart
        self._kv_records = model_runner.token_to_kv_pool.records
        self._deterministic = model_runner.enable_deterministic_inference
        self._chunk_size = model_runner.model_config.attention_chunk_size
        self._dcp_size = 1 if model_runner.dcp is None else model_runner.dcp.size
        self._attn_cp_size = 1 if model_runner.attn_cp is None else model_runner.attn_cp.size
        self.refuse_unserved(self._made_for(Demand()))

    def prepare(self, forward_batch: ForwardBatch) -> None:
        """Make what every layer of this pass shares: indices, split plans, scratch. Overrides call this first.

        Raises:
            UnsupportedError: the backend does not serve this mode.
            BadArgumentError, PageTableError: the metadata disagree with requests or pools (`check_metadata`).
        """
        self.refuse_unserved(Demand.of_batch(forward_batch))
        self._check_metadata(forward_batch)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        *,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
        topk_indices: torch.Tensor | None = None,
        slopes: torch.Tensor | None = None,
        score_mod: ScoreMod | None = None,
    ) -> torch.Tensor:
        """Attend, in any mode; nothing runs when the batch is idle.

        Args:
            q, k, v: [tokens, heads · dim] or [tokens, heads, dim], of the new tokens, request after request.
            layer: heads, dims and softmax options.
            forward_batch: the batch that `prepare` was called with.
            save_kv_cache: store k and v in the pool at out_cache_loc first.
            q_rope, k_rope: MLA's rotary parts where q and k are the latent parts alone.
            sinks: float [heads], a logit per head that only the denominator counts.
            topk_indices: int [tokens, topk], positions in its request that each query attends to, −1 for none: sparse
                attention's choice.
            slopes: float [heads], ALiBi: each head's logits have slope · (key's position − query's) added.
            score_mod: what the model adds to its logits besides (`sglab.engine.ScoreMod`).

        Returns:
            [tokens, heads · v_head_dim].

        Raises:
            UnsupportedError: the backend does not serve what the batch, the layer or an argument asks for.
            BadArgumentError: a tensor of a wrong shape, or a batch of another pass than the one that was prepared.
                Nothing was written in either case.
        """
        serving = self.serving
        serving._refuse_call(q.dtype, layer, forward_batch, sinks, topk_indices, slopes, score_mod)
        serving._refuse_in_graph(slopes, score_mod)
        if forward_batch.forward_mode.is_idle():
            return q.new_empty(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        if serving.plans_ahead and serving._pass is not None:
            serving._pass.refuse_another(forward_batch, len(q))
        rope_apart = serving.capabilities.rope_apart
        parts = q_rope, k_rope, sinks, topk_indices, slopes, score_mod
        inputs = AttentionInputs.of(q, k, v, layer, forward_batch, save_kv_cache, *parts, rope_apart=rope_apart)
        return serving.attend(inputs).view(len(q), -1)

    def _refuse_call(
        self,
        dtype: torch.dtype,
        layer: RadixAttention,
        batch: ForwardBatch,
        sinks: torch.Tensor | None,
        topk_indices: torch.Tensor | None,
        slopes: torch.Tensor | None,
        score_mod: ScoreMod | None,
    ) -> None:
        """Refuse a call that is not served. What was served once is not asked again: every layer of every step is."""
        asked = (
            batch.forward_mode,
            dtype,
            sinks is None,
            topk_indices is None,
            layer.head_dim,
            layer.v_head_dim,
            layer.logit_cap,
            layer.sliding_window_size,
            layer.is_cross_attention,
            layer.attn_type,
            layer.xai_temperature_len,
            layer.use_irope,
        )
        given = batch.spec_info, batch.encoder_lens, batch.image_spans, slopes, score_mod
        plain = all(each is None for each in given)
        if plain and asked in self._served:
            return
        self.refuse_unserved(
            Demand(
                mode=batch.forward_mode,
                spec_info=batch.spec_info,
                dtype=dtype,
                layer=layer,
                encoder_lens=batch.encoder_lens,
                image_spans=batch.image_spans,
                sinks=sinks,
                topk_indices=topk_indices,
                slopes=slopes,
                score_mod=score_mod,
            )
        )
        if plain:
            self._served |= {asked}

    def _refuse_in_graph(self, slopes: torch.Tensor | None, score_mod: ScoreMod | None) -> None:
        """What PyTorch adds to logits request by request, by lengths that the host reads, no replay would do again."""
        if self._pass is None and self._graph_sizes is not None and self.plans_ahead:
            for argument, given in (("slopes", slopes), ("score_mod", score_mod)):
                if given is not None:
                    expected = f"None in a captured pass for {self.name}"
                    raise UnsupportedError(argument, expected, f"{argument} given", "Run the pass without a graph.")

    @property
    def runner(self) -> ModelRunner | None:
        """What it was made for."""
        return self._runner

    @property
    def takes_chosen(self) -> bool:
        """Whether `forward` takes topk_indices in the pass last prepared."""
        return self.serving.capabilities.topk_indices

    def choose_tokens(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        weights: torch.Tensor,
        topk: int,
        forward_batch: ForwardBatch,
    ) -> torch.Tensor | None:
        """What each query token of the pass last prepared attends to, by an indexer's logits.

        Args:
            q: [tokens, index heads, index dim].
            keys: [slots, index dim], the pool's, the new tokens' included; or its pages of keys in FP8.
            weights: float32 [tokens, index heads].

        Returns:
            int32 [tokens, topk], positions in its request, −1 for none; None where none has more than topk.
        """
        if forward_batch.forward_mode.is_idle():
            return None
        serving = self.serving
        asked = "auto" if serving.runner is None else serving.runner.kernel_implementation
        return choose_tokens(q, keys, weights, serving.index_rows(forward_batch), topk, asked)

    def index_rows(self, forward_batch: ForwardBatch) -> IndexRows:
        """The keys that an indexer scores the pass's query tokens against."""
        return IndexRows.of(forward_batch)

    @abstractmethod
    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        """Save the new rows if asked, and attend; `forward` has checked them. Returns [tokens, heads, v_head_dim]."""

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        """Attend to the keys that the pool has for the pass last prepared, of an extend to those of its prefix, which
        every new token sees: one rank's share of a context (`capabilities.dcp`). Nothing is saved. Rows of requests
        without a key may have any result.

        Returns:
            o [tokens, heads, v_head_dim] and its natural LSE float32 [tokens, heads].
        """
        raise NotImplementedError(f"{type(self).__name__} has no attend_partial, though its capabilities have dcp")

    def refuse_layer(self, layer: RadixAttention) -> None:  # noqa: B027 - most have nothing to refuse
        """Raises UnsupportedError for options of a layer that `capabilities` cannot say; `attend` calls it first."""

    @property
    def serving(self) -> AttentionBackend:
        """The backend that serves the batch last prepared: this one, unless it left it to a fallback."""
        return self

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocate metadata buffers for graphs of up to `max_bs` requests; captures and replays reuse them.

        Raises:
            UnsupportedError: the backend has no CUDA graphs.
        """
        if not self.capabilities.graph_modes:
            self.refuse_unserved(Demand(mode=ForwardMode.DECODE, graph=True))
        self._graph_sizes = GraphSizes(max_bs, max_num_tokens)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        """Fill the buffers before a graph of this size is captured; the graph keeps their addresses.

        Raises:
            UnsupportedError: no graph of this mode. BadArgumentError: larger than `init_graph` was told; or, as
                PageTableError, as `prepare`.
        """
        self.refuse_unserved(Demand.of_batch(graph_batch))
        self._check_metadata(graph_batch, before_capture=True)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        """Fill the same buffers for a real batch before its graph is replayed. Raises as `prepare_capture`, and for a
        size that was not captured.

        The metadata afterwards are the captured ones, views of the buffers: a recording on a CPU runs `forward` again.
        """
        self.refuse_unserved(Demand.of_batch(graph_batch))
        self._check_metadata(graph_batch)

    def fill_in_graph(self, graph_batch: GraphBatch) -> bool:
        """While a graph is captured: launch what fills its buffers, so that each replay does it and no host has to.

        Returns:
            Whether the backend can; `prepare_replay` is then left out (the check of metadata is not, where it is on).
        """
        return False

    def _check_metadata(self, batch: ForwardBatch | GraphBatch, before_capture: bool = False) -> None:
        """Refuse lengths, rows, slots and pages that disagree with requests and pools, if the runner's switch is on;
        always graphs of other sizes than were captured. What was found right is the pass that `forward` then expects.

        Raises:
            BadArgumentError, PageTableError: naming the request, what was expected, what came and what to do.
        """
        self._pass = None
        if isinstance(batch, GraphBatch) and self._graph_sizes is not None:
            (self._graph_sizes.capture if before_capture else self._graph_sizes.replay)(batch)
        runner = self._runner
        if runner is not None and not batch.forward_mode.is_idle() and is_checked(batch, runner, before_capture):
            check_metadata(batch, runner, self.graph_seq_len_fill_value if isinstance(batch, GraphBatch) else None)
        if isinstance(batch, ForwardBatch):
            check_image_spans(batch)
            self._pass = PreparedPass.of(batch)

    @property
    def verify_mask(self) -> torch.Tensor | None:
        """The tree mask that drafting may fill in place after a graph was captured; None: there is none."""
        return None

    def redo_verify_metadata(self, spec_info: Any, graph_bs: int | None) -> None:
        """Make again what depends on the contents of `verify_mask`.

        Raises:
            UnsupportedError: the backend has no mask.
        """
        raise UnsupportedError("verify_mask", "a backend that verifies trees", self.name, "Use triton.")

    def refuse_unserved(self, demand: Demand, argument: str = "") -> None:
        """Raises UnsupportedError where this backend does not serve a demand; others are named that serve it, for this
        kind of attention and page size. argument: the caller's name for what is refused, if not the rule's."""
        made = self._made_for(demand)
        if unserved(self.capabilities, made) is not None:
            name = self.name or type(self).__name__
            others = partial(capabilities_by_name, self._kind)
            refuse_unserved(name, self.capabilities, made, others, argument)

    def _made_for(self, demand: Demand) -> Demand:
        """A demand, with what the backend was made for."""
        return replace(
            demand,
            kind=self._kind,
            page_size=self._page_size,
            kv_dtype=self._kv_dtype,
            kv_records=self._kv_records,
            deterministic=self._deterministic,
            attention_chunk_size=self._chunk_size,
            dcp_size=self._dcp_size,
            attn_cp_size=self._attn_cp_size,
        )
