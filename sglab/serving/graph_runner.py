"""CudaGraphRunner: decode passes captured once per batch size and replayed, padded to the next captured size.

On a GPU these are CUDA graphs. On a CPU the same runner records PyTorch's operations (`RecordedGraph`): a layer's
attention and its experts are one launch each, which read lengths, slots and routing when they run, as kernels do.
Source: SGLang 0.5.9 `model_executor/cuda_graph_runner.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from sglab.attention import AttentionBackend
from sglab.attention.capabilities import Demand, unserved
from sglab.engine import (
    ForwardBatch,
    ForwardMode,
    GraphBatch,
    ModelRunner,
)
from sglab.engine.batch import ModelWorkerBatch
from sglab.engine.batch.metadata import is_checked
from sglab.engine.errors import BadArgumentError
from sglab.engine.graphs import GraphCaptureError, GraphInputBuffers, LaunchList, RecordedGraph
from sglab.models import CausalLM
from sglab.planning import capture_order, limit_to_pool, replay_batch_size
from sglab.serving.config import EngineConfig
from sglab.serving.encoders import has_encoder
from sglab.serving.indexed import chooses_outside, refuse_outside
from sglab.serving.model_output import ModelOutput
from sglab.serving.recorded_launches import AttentionLaunches, expert_launches

WARM_UPS = 2
"""Runs before each capture: what compiles or tunes itself at the first call must have done so."""


def captures_decodes(config: EngineConfig, backend: AttentionBackend, device_type: str, encoder: bool = False) -> bool:
    """Whether an engine captures its decode passes: by default on a GPU, with a backend that has graphs of them.

    On a CPU the operations are recorded, which asks nothing of a backend that was not named.

    Raises:
        UnsupportedError: graphs were asked for with a backend that has none; it names those that do.
    """
    asked = "replay_launches" if config.replay_launches else "cuda_graph" if config.cuda_graph else None
    if not config.graphs(device_type) or (asked is None and chooses_outside(backend)):
        return False
    encoder_lens = torch.ones(1, dtype=torch.int64) if encoder else None
    demand = Demand(mode=ForwardMode.DECODE, graph=True, encoder_lens=encoder_lens)
    unnamed = config.attention_backend == "auto" and device_type == "cpu"
    if unnamed or unserved(backend.capabilities, demand) is None:
        return True
    if asked is not None:
        backend.refuse_unserved(demand, asked)
    return False


@dataclass(frozen=True)
class CapturedGraph:
    """One captured size."""

    bs: int
    graph: Any
    """torch.cuda.CUDAGraph, RecordedGraph or LaunchList."""
    batch: ForwardBatch
    """Views of the input buffers."""
    output: ModelOutput
    """Tensors that every replay writes."""
    fills_metadata: bool = False
    """Whether a replay fills the backend's metadata itself."""
    advances: bool = False
    """Whether a replay makes its inputs of those of the replay before it, but for the slots, and writes these to the
    requests' rows (`GraphInputBuffers.advance`)."""
    greedy: GreedyTokens | None = None
    """With `last_tokens`: what chooses greedily from the output, replayed after it."""


@dataclass(frozen=True)
class GreedyTokens:
    """A graph of its own, so that passes that draw by chance do without it."""

    graph: Any
    """As CapturedGraph's."""
    tokens: torch.Tensor
    """int64 [bs], which every replay writes; it also writes them to `last_tokens`."""


@dataclass(frozen=True)
class Replay:
    """One replay, as plain data."""

    raw_bs: int
    bs: int


@dataclass
class Held:
    """What the input buffers hold after `CudaGraphRunner.advance`, and what a replay from there takes."""

    captured: CapturedGraph
    rows: torch.Tensor
    """The batch's req_pool_indices: the same tensor as long as the batch stays the same."""
    slots: torch.Tensor
    output: ModelOutput
    tokens: torch.Tensor | None
    replay: Replay
    next_lengths: list[int] = field(default_factory=list)


class CudaGraphRunner:
    """Captures at once, largest size first, so that smaller graphs reuse the memory of larger ones.

    Args:
        capture_bs: sizes wished for; those that the request pool cannot hold are left out.
        last_tokens: int64 [rows of the request pool + 1], what each row's last pass sampled. A graph then finds its
            tokens and positions itself, and there are graphs of the greedy choice; None: all of that is the caller's.
        lists: on a GPU, replay lists of launches (`LaunchList`) instead of graphs.

    Raises:
        BadArgumentError: lists, of a pass that launches what no list can hold.

    Attributes:
        capture_bs: the captured sizes, ascending.
        captured: in the order of capture.
        buffers: what all of them read.
        replays: every replay so far.
    """

    def __init__(
        self,
        model: CausalLM,
        runner: ModelRunner,
        backend: AttentionBackend,
        capture_bs: Sequence[int],
        last_tokens: torch.Tensor | None = None,
        lists: bool = False,
    ) -> None:
        refuse_outside(backend)
        self.last_tokens = last_tokens
        self._lists = lists
        self.model, self.runner, self.backend = model, runner, backend
        self.capture_bs = limit_to_pool(sorted(set(capture_bs)), runner.req_to_token_pool.size)
        self.device = runner.device
        fill, rows = backend.graph_seq_len_fill_value, runner.req_to_token_pool.size
        self.buffers = GraphInputBuffers.make(self.capture_bs[-1], fill, self.device, rows, has_encoder(model))
        self.captured: dict[int, CapturedGraph] = {}
        self.replays: list[Replay] = []
        self._with_metadata = self.device.type == "cuda" or ForwardMode.DECODE in backend.capabilities.graph_modes
        self._pool: Any = None
        self._held: Held | None = None
        self._advancing = False
        self._graphs: list[torch.cuda.CUDAGraph] = []
        if self._with_metadata:
            backend.init_graph(self.capture_bs[-1], self.capture_bs[-1])
        try:
            for bs in capture_order(self.capture_bs):
                self.captured[bs] = self._capture(bs)
        except BaseException:
            self.close()
            raise

    def advances(self, batch_size: int) -> bool:
        """Whether a decode of so many requests is replayed by `advance`."""
        return self._advancing and batch_size <= self.capture_bs[-1] and not self.runner.check_metadata

    def can_run(self, batch: ForwardBatch) -> bool:
        """Whether a batch is a decode of no more requests than the largest captured size."""
        return self._serves(batch.forward_mode, batch.batch_size)

    def derives(self, mode: ForwardMode, batch_size: int) -> bool:
        """Whether there is a graph for such a pass that needs neither its tokens nor its positions."""
        return self.last_tokens is not None and self._serves(mode, batch_size)

    def _serves(self, mode: ForwardMode, batch_size: int) -> bool:
        return mode.is_decode() and batch_size <= self.capture_bs[-1]

    def advance(self, batch: ModelWorkerBatch, lengths: list[int]) -> ModelOutput:
        """Run a decode for which `advances`. After a pass of the same requests only its slots are copied.

        Args:
            lengths: the batch's `seq_lens_cpu`.

        Returns:
            As `replay`.
        """
        held, self._held = self._held, None  # until it has gone well
        if held is not None and held.rows is batch.req_pool_indices and held.next_lengths == lengths:
            held.slots.copy_(batch.out_cache_loc)
        else:
            raw = len(lengths)
            captured = self.captured[replay_batch_size(self.capture_bs, raw)]
            self.buffers.begin(batch)
            held = self._hold(captured, batch.req_pool_indices)
        held.captured.graph.replay()
        self.replays.append(held.replay)
        held.next_lengths = [length + 1 for length in lengths]
        self._held = held
        return held.output

    def _hold(self, captured: CapturedGraph, rows: torch.Tensor) -> Held:
        raw, output = len(rows), captured.output
        views = ModelOutput(output.hidden[:raw], output.logits[:raw], captured.bs)
        tokens = None if captured.greedy is None else captured.greedy.tokens[:raw]
        return Held(captured, rows, self.buffers.out_cache_loc[:raw], views, tokens, Replay(raw, captured.bs))

    def replay(self, batch: ForwardBatch) -> ModelOutput:
        """Run a decode batch through the graph of the next captured size.

        Returns:
            Views of the graph's output, overwritten by the next replay.
        """
        raw = batch.batch_size
        captured = self.captured[replay_batch_size(self.capture_bs, raw)]
        self.replay_prepare(batch, captured)
        captured.graph.replay()
        self.replays.append(Replay(raw, captured.bs))
        return ModelOutput(captured.output.hidden[:raw], captured.output.logits[:raw], captured.bs)

    def sample_greedily(self, output: ModelOutput) -> torch.Tensor:
        """The likeliest token of each row of the last replay, int64 [requests], which `last_tokens` then has too.

        Returns:
            On a GPU a view that the next replay overwrites, after what the stream has until then.
        """
        assert output.graph_bs is not None
        greedy = self.captured[output.graph_bs].greedy
        assert greedy is not None
        greedy.graph.replay()
        tokens = greedy.tokens[: len(output.logits)]
        return tokens if tokens.is_cuda else tokens.clone()

    def choose_greedily(self) -> torch.Tensor:
        """As `sample_greedily`, after `advance`."""
        held = self._held
        assert held is not None and held.captured.greedy is not None and held.tokens is not None
        held.captured.greedy.graph.replay()
        return held.tokens if held.tokens.is_cuda else held.tokens.clone()

    def replay_prepare(self, batch: ForwardBatch, captured: CapturedGraph) -> None:
        """Fill the inputs and the backend's metadata in place, at the addresses that the graph has."""
        bs = captured.bs
        self._held = None
        if captured.advances:
            self.buffers.begin(batch)
            if is_checked(captured.batch, self.runner):
                with self.buffers.advanced(bs):
                    self._prepare_metadata(batch, captured)
            return
        self.buffers.copy_from(batch, bs)
        if not captured.fills_metadata or is_checked(captured.batch, self.runner):
            self._prepare_metadata(batch, captured)

    def _prepare_metadata(self, batch: ForwardBatch, captured: CapturedGraph) -> None:
        if not self._with_metadata:
            self.backend.prepare(captured.batch)
            return
        padding = captured.bs - batch.batch_size
        lengths = batch.seq_lens_cpu
        if lengths is not None and padding:
            lengths = torch.cat((lengths, lengths.new_full((padding,), self.buffers.fill)))
        total = batch.seq_lens_sum + padding * self.buffers.fill
        encoders = None if batch.encoder_lens_cpu is None else [*batch.encoder_lens_cpu, *[1] * padding]
        self.backend.prepare_replay(self._graph_batch(captured.batch, total, lengths, encoders))

    def close(self) -> None:
        """Destroy the CUDA graphs: nothing can be replayed any more."""
        self._held = None
        for graph in self._graphs:
            graph.reset()

    def describe(self) -> dict[str, Any]:
        """What was captured and replayed, as plain data."""
        graphs = []
        for bs, captured in self.captured.items():
            recorded = isinstance(captured.graph, (RecordedGraph, LaunchList))
            graphs.append({"bs": bs, "launches": list(captured.graph.names) if recorded else []})
        return {
            "capture_bs": list(self.capture_bs),
            "captured": graphs,
            "replays": [{"raw_bs": replay.raw_bs, "bs": replay.bs} for replay in self.replays],
        }

    @torch.inference_mode()
    def _capture(self, bs: int) -> CapturedGraph:
        batch = self._static_batch(bs)
        if self._with_metadata:
            self.backend.prepare_capture(self._graph_batch(batch, None, None))
        else:
            self.backend.prepare(batch)
        alone = self.last_tokens is not None and batch.encoder_lens is None
        self._advancing = alone and self._fill(batch) and not is_checked(batch, self.runner)
        for _ in range(WARM_UPS):
            self._synchronize()
            self._begin(batch)
            self._run(batch)
        self._synchronize()
        if self.device.type != "cuda":
            graph = RecordedGraph()
            batch.attn_backend = AttentionLaunches(graph, self.backend)
            with expert_launches(graph, self.model), graph.capture():
                fills = self._begin(batch)
                output = self._run(batch)
            return self._captured(graph, batch, output, fills)
        cuda_graph = self._new_graph()
        with torch.cuda.graph(cuda_graph, pool=self._pool):
            fills = self._begin(batch)
            output = self._run(batch)
        self._pool = self._pool or cuda_graph.pool()
        return self._captured(self._launched(cuda_graph), batch, output, fills)

    def _new_graph(self) -> torch.cuda.CUDAGraph:
        self._graphs.append(torch.cuda.CUDAGraph(keep_graph=self._lists))
        return self._graphs[-1]

    def _launched(self, cuda_graph: torch.cuda.CUDAGraph) -> torch.cuda.CUDAGraph | LaunchList:
        """What replays it."""
        if not self._lists:
            return cuda_graph
        try:
            return LaunchList(cuda_graph)
        except GraphCaptureError as error:
            remedy = f"Leave it out: {error}"
            raise BadArgumentError("replay_launches", "False for this backend and model", True, remedy) from None

    def _captured(self, graph: Any, batch: ForwardBatch, output: ModelOutput, fills: bool) -> CapturedGraph:
        greedy = self._capture_greedy(batch.batch_size, output)
        return CapturedGraph(batch.batch_size, graph, batch, output, fills, self._advancing, greedy)

    def _capture_greedy(self, bs: int, output: ModelOutput) -> GreedyTokens | None:
        if self.last_tokens is None:
            return None
        if self.device.type != "cuda":
            recorded = RecordedGraph()
            with recorded.capture():
                return GreedyTokens(recorded, self._choose(bs, output, self.last_tokens))
        self._choose(bs, output, self.last_tokens)
        self._synchronize()
        cuda_graph = self._new_graph()
        with torch.cuda.graph(cuda_graph, pool=self._pool):
            tokens = self._choose(bs, output, self.last_tokens)
        return GreedyTokens(self._launched(cuda_graph), tokens)

    def _choose(self, bs: int, output: ModelOutput, last_tokens: torch.Tensor) -> torch.Tensor:
        tokens = output.logits.argmax(-1)
        last_tokens.index_copy_(0, self.buffers.state_indices[:bs], tokens)
        return tokens

    def _begin(self, batch: ForwardBatch) -> bool:
        """What a graph computes of its inputs before the model's layers. Returns whether metadata are part of it."""
        if self._advancing and self.last_tokens is not None:
            self.buffers.advance(batch.batch_size, self.last_tokens, self.runner.req_to_token_pool.with_dummy)
        elif self.last_tokens is not None:
            self.buffers.derive(batch.batch_size, self.last_tokens)
        return self._fill(batch)

    def _fill(self, batch: ForwardBatch) -> bool:
        return self._with_metadata and self.backend.fill_in_graph(self._graph_batch(batch, None, None))

    def _run(self, batch: ForwardBatch) -> ModelOutput:
        assert batch.positions is not None
        hidden = self.model(batch.input_ids, batch.positions, batch)
        return ModelOutput(hidden, self.model.compute_logits(hidden))

    def _static_batch(self, bs: int) -> ForwardBatch:
        buffers = self.buffers
        return ForwardBatch(
            forward_mode=ForwardMode.DECODE,
            batch_size=bs,
            input_ids=buffers.input_ids[:bs],
            req_pool_indices=buffers.req_pool_indices[:bs],
            seq_lens=buffers.seq_lens[:bs],
            out_cache_loc=buffers.out_cache_loc[:bs],
            seq_lens_sum=bs * buffers.fill,
            positions=buffers.positions[:bs],
            req_to_token_pool=self.runner.req_to_token_pool,
            token_to_kv_pool=self.runner.token_to_kv_pool,
            attn_backend=self.backend,
            state_pool=self.runner.state_pool,
            state_indices=buffers.state_indices[:bs],
            encoder_lens=None if buffers.encoder_lens is None else buffers.encoder_lens[:bs],
            spread=self.runner.dcp is not None,
        )

    def _graph_batch(
        self,
        batch: ForwardBatch,
        total: int | None,
        lengths: torch.Tensor | None,
        encoder_lengths: list[int] | None = None,
    ) -> GraphBatch:
        return GraphBatch(
            bs=batch.batch_size,
            num_tokens=batch.batch_size,
            forward_mode=ForwardMode.DECODE,
            req_pool_indices=batch.req_pool_indices,
            seq_lens=batch.seq_lens,
            seq_lens_sum=total,
            seq_lens_cpu=lengths,
            encoder_lens=batch.encoder_lens,
            encoder_lens_cpu=encoder_lengths,
        )

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
