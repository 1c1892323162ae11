"""PiecewiseGraphRunner: extend passes captured by their number of tokens, in pieces between the attention layers.

Attention depends on every request's lengths and runs as it is, on the real tokens; what lies between two attention
layers depends on the number of tokens alone, is captured once per size and replayed on tokens padded to the next one.
Source: SGLang 0.5.9 `model_executor/piecewise_cuda_graph_runner.py` and `compilation/`, which cut the compiled model
at its attention operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from sglab.attention import AttentionBackend
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, ModelRunner, RadixAttention
from sglab.engine.graphs import RecordedGraph
from sglab.layers.indexer import Indexer
from sglab.layers.mla import MLAttention
from sglab.models import CausalLM
from sglab.planning import capture_order, replay_batch_size
from sglab.serving.graph_runner import WARM_UPS
from sglab.serving.recorded_launches import expert_launches


@dataclass(frozen=True)
class AttentionCall:
    """Where a pass was cut: what the piece before computed, and where the piece after reads the result."""

    layer: RadixAttention
    q: torch.Tensor
    k: torch.Tensor | None
    v: torch.Tensor | None
    options: dict[str, Any]
    per_token: tuple[str, ...]
    """The options that hold a row per token."""
    out: torch.Tensor
    """[tokens, heads · v_head_dim]; rows beyond the real tokens keep what the replay before left there."""


@dataclass(frozen=True)
class PiecewiseGraph:
    """One captured size: a piece, an attention call, a piece, …, a piece."""

    tokens: int
    pieces: list[Any]
    """torch.cuda.CUDAGraph or RecordedGraph; one more than there are calls."""
    calls: list[AttentionCall]
    hidden: torch.Tensor
    """[tokens, hidden], which the last piece writes."""


@dataclass(frozen=True)
class PiecewiseReplay:
    """One replay, as plain data."""

    raw_tokens: int
    tokens: int


@dataclass
class PiecewiseGraphRunner:
    """Captures at once, largest size first.

    Args:
        capture_tokens: numbers of tokens to capture.

    Attributes:
        captured: by number of tokens, in the order of capture.
        input_ids, positions: int64 [largest size], what all graphs read.
        replays: every replay so far.

    Raises:
        BadArgumentError: the model's layers depend on requests outside attention (linear attention, an indexer, MLA
            computed plainly): their passes cannot be cut here.
    """

    model: CausalLM
    runner: ModelRunner
    backend: AttentionBackend
    capture_tokens: Sequence[int]
    captured: dict[int, PiecewiseGraph] = field(default_factory=dict)
    replays: list[PiecewiseReplay] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_divisible(self.model, self.runner)
        self.capture_tokens = sorted(set(self.capture_tokens))
        self.device = self.runner.device
        self.input_ids = torch.zeros(self.capture_tokens[-1], dtype=torch.int64, device=self.device)
        self.positions = torch.zeros_like(self.input_ids)
        self._pool: Any = None
        self._graphs: list[torch.cuda.CUDAGraph] = []
        try:
            for tokens in capture_order(self.capture_tokens):
                self.captured[tokens] = self._capture(tokens)
        except BaseException:
            self.close()
            raise

    def can_run(self, batch: ForwardBatch) -> bool:
        """Whether a batch extends requests, with decodes mixed in or not, by no more tokens than the largest size."""
        mode = batch.forward_mode
        fits = len(batch.input_ids) <= self.capture_tokens[-1]
        return fits and mode in (ForwardMode.EXTEND, ForwardMode.MIXED)

    def replay(self, batch: ForwardBatch) -> torch.Tensor:
        """Run a batch whose backend is prepared.

        Returns:
            [tokens, hidden] after the last norm: a view that the next replay overwrites.
        """
        raw = len(batch.input_ids)
        graph = self.captured[replay_batch_size(self.capture_tokens, raw)]
        assert batch.positions is not None
        for buffer, values in ((self.input_ids, batch.input_ids), (self.positions, batch.positions)):
            buffer[: graph.tokens].zero_()
            buffer[:raw].copy_(values)
        graph.pieces[0].replay()
        for call, piece in zip(graph.calls, graph.pieces[1:], strict=True):
            call.out[:raw].copy_(self._attend(call, batch, raw))
            piece.replay()
        self.replays.append(PiecewiseReplay(raw, graph.tokens))
        return graph.hidden[:raw]

    def describe(self) -> dict[str, Any]:
        """What was captured and replayed, as plain data."""
        graphs = []
        for tokens, graph in self.captured.items():
            launches = [piece.launches if isinstance(piece, RecordedGraph) else [] for piece in graph.pieces]
            graphs.append({"tokens": tokens, "pieces": [[launch.name for launch in piece] for piece in launches]})
        return {
            "capture_tokens": list(self.capture_tokens),
            "captured": graphs,
            "replays": [{"raw_tokens": one.raw_tokens, "tokens": one.tokens} for one in self.replays],
        }

    def close(self) -> None:
        """Destroy the CUDA graphs: nothing can be replayed any more."""
        for graph in self._graphs:
            graph.reset()

    def _attend(self, call: AttentionCall, batch: ForwardBatch, raw: int) -> torch.Tensor:
        def real(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else tensor[:raw]

        options = {name: real(value) if name in call.per_token else value for name, value in call.options.items()}
        return self.backend.forward(call.q[:raw], real(call.k), real(call.v), call.layer, batch, **options)

    @torch.inference_mode()
    def _capture(self, tokens: int) -> PiecewiseGraph:
        cut = Cut(tokens, self._new_piece)
        batch = self._static_batch(tokens, cut)
        for _ in range(WARM_UPS):
            self._synchronize()
            self.model(batch.input_ids, self.positions[:tokens], batch)
        self._synchronize()
        with expert_launches(cut, self.model), cut:
            hidden = self.model(batch.input_ids, self.positions[:tokens], batch)
        return PiecewiseGraph(tokens, cut.pieces, cut.calls, hidden)

    def _new_piece(self, stack: ExitStack) -> Any:
        """A graph that records until `stack` closes."""
        if self.device.type != "cuda":
            recorded = RecordedGraph()
            stack.enter_context(recorded.capture())
            return recorded
        graph = torch.cuda.CUDAGraph()
        self._graphs.append(graph)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        stack.enter_context(torch.cuda.graph(graph, pool=self._pool))
        return graph

    def _static_batch(self, tokens: int, cut: Cut) -> ForwardBatch:
        """One request of so many new tokens: nothing but the number of tokens counts outside attention."""
        one = torch.zeros(1, dtype=torch.int64, device=self.device)
        return ForwardBatch(
            forward_mode=ForwardMode.EXTEND,
            batch_size=1,
            input_ids=self.input_ids[:tokens],
            req_pool_indices=one,
            seq_lens=one + tokens,
            out_cache_loc=torch.zeros(tokens, dtype=torch.int64, device=self.device),
            seq_lens_sum=tokens,
            positions=self.positions[:tokens],
            req_to_token_pool=self.runner.req_to_token_pool,
            token_to_kv_pool=self.runner.token_to_kv_pool,
            attn_backend=cut,
        )

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class Cut:
    """Stands in for the backend: attention gives zeros, and while capturing it ends a piece and begins the next."""

    def __init__(self, tokens: int, new_piece: Callable[[ExitStack], Any]) -> None:
        self.tokens, self._new_piece = tokens, new_piece
        self.pieces: list[Any] = []
        self.calls: list[AttentionCall] = []
        self._stack: ExitStack | None = None

    def __enter__(self) -> Cut:
        self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def launch(self, name: str, run: Callable[[], torch.Tensor], reads: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """One launch of the piece under way; see RecordedGraph."""
        piece = self.pieces[-1]
        return piece.launch(name, run, reads) if isinstance(piece, RecordedGraph) else run()

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        **options: Any,
    ) -> torch.Tensor:
        """Cut here."""
        shape = (self.tokens, layer.tp_q_head_num * layer.v_head_dim)
        if self._stack is None:
            return q.new_zeros(shape)
        self._end()
        out = q.new_zeros(shape)
        per_token = tuple(name for name in ("q_rope", "k_rope") if options.get(name) is not None)
        self.calls.append(AttentionCall(layer, q, k, v, options, per_token, out))
        self._begin()
        return out

    def _begin(self) -> None:
        self._stack = ExitStack()
        self.pieces.append(self._new_piece(self._stack))

    def _end(self) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()


def check_divisible(model: CausalLM, runner: ModelRunner) -> None:
    """Refuse models that ask about requests outside attention.

    Raises:
        BadArgumentError: naming what does.
    """
    found = None
    if runner.state_pool is not None:
        found = "linear attention, whose states belong to requests"
    for module in model.modules():
        if isinstance(module, Indexer):
            found = "an indexer that chooses tokens"
        elif isinstance(module, MLAttention) and module.method == "plain":
            found = "MLA that expands its cache request by request"
    if found is not None:
        expected = "a model that knows of requests in its attention alone"
        raise BadArgumentError("enable_piecewise_cuda_graph", expected, found, "Leave it out.")
