"""GraphLog: what a CudaGraphRunner captured, and every replay with the inputs that it found at its fixed addresses."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from sglab.engine import ForwardBatch
from sglab.engine.errors import BadArgumentError
from sglab.engine.graphs import RecordedGraph, StalePointerError
from sglab.engine.recording.wrapping import Wrapped
from sglab.engine.scheduler import Scheduler
from sglab.serving.graph_runner import CapturedGraph, CudaGraphRunner
from sglab.words import plural

if TYPE_CHECKING:
    from sglab.serving.engine import Engine

INPUTS = ("input_ids", "req_pool_indices", "seq_lens", "out_cache_loc", "positions")
"""The buffers that every captured decode pass reads."""


@dataclass(frozen=True)
class RecordedReplay:
    """One replay."""

    raw_bs: int
    """Requests of the batch."""
    bs: int
    """The captured size: the slots beyond raw_bs are padding."""
    rids: list[str] = field(default_factory=list)
    """Of the first raw_bs slots; empty for a replay from before the log."""
    inputs: dict[str, list[int]] = field(default_factory=dict)
    """Of each of INPUTS the first bs values, as the graph read them."""
    step: int = -1
    """The engine's step."""


@dataclass(frozen=True)
class StaleProbe:
    """What became of values in a new tensor, which the graph does not know, and in the recorded one."""

    name: str
    recorded_address: int
    new_address: int
    message: str
    """Of the StalePointerError that RecordedGraph.check raises for the new tensor."""
    unseen: float
    """Largest change of a logit after other values were put into a new tensor under the old name: 0."""
    seen: float
    """The same after they were copied into the recorded tensor."""


class GraphLog:
    """Records an engine's replays from when it is made until `stop`.

    Attributes:
        runner: what captures and replays.
        replays: all of them; those from before the log without inputs.

    Raises:
        BadArgumentError: the engine captures no graphs.
    """

    def __init__(self, engine: Engine) -> None:
        if engine.worker.graph_runner is None:
            remedy = "Make it with Engine(…, cuda_graph=True); on a CPU the operations are recorded and replayed."
            raise BadArgumentError("engine", "one with captured graphs", "an engine without", remedy)
        self.engine = engine
        self.runner: CudaGraphRunner = engine.worker.graph_runner
        self.replays = [RecordedReplay(each.raw_bs, each.bs) for each in self.runner.replays]
        self._listeners: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
        self._wrapped = Wrapped(self.runner)
        self._wrapped.watch("replay_prepare", self._on_prepare)

    def stop(self) -> None:
        """Stop recording; what was recorded stays."""
        self._wrapped.undo()

    def described(self) -> tuple[str, str]:
        """What it is and how much, for a list."""
        sizes = ", ".join(map(str, self.runner.capture_bs))
        return "Replays of captured graphs", f"{plural(len(self.replays), 'replay')}, captured for {sizes} requests"

    def follow(self, follower: Any, changed: Callable[[Any], None]) -> None:
        """Call `changed(follower)` after every replay's inputs were filled, as long as the follower lives."""
        self._listeners[follower] = changed

    def unfollow(self, follower: Any) -> None:
        """Call it no more."""
        self._listeners.pop(follower, None)

    def without_graph(self) -> dict[str, int]:
        """How many passes of the engine ran without a graph, by why."""
        largest = self.runner.capture_bs[-1]
        many = f"more than {largest} requests"
        found = {"not a decode pass": 0, "verifies drafts": 0, many: 0}
        for step in self.engine.history.steps[: self._ended()]:
            if step.graph_bs is None and step.batch:
                found[{"DECODE": many, "TARGET_VERIFY": "verifies drafts"}.get(step.mode, "not a decode pass")] += 1
        return {why: count for why, count in found.items() if count}

    def _ended(self) -> int:
        """Steps whose passes are over: of the others it is not known yet whether a graph was replayed."""
        scheduler = self.engine.scheduler
        assert isinstance(scheduler, Scheduler)  # several ranks have no graphs
        return len(scheduler.history) - len(scheduler._in_flight)

    def _on_prepare(self, run: Callable[..., None], batch: ForwardBatch, captured: CapturedGraph) -> None:
        run(batch, captured)
        buffers = self.runner.buffers
        inputs = {name: getattr(buffers, name)[: captured.bs].tolist() for name in INPUTS}
        if captured.advances:  # the replay itself counts the pass's tokens
            inputs["seq_lens"][: batch.batch_size] = batch.seq_lens.tolist()
        holders = self.runner.runner.req_to_token_pool.holders
        rids = [getattr(holders.get(row), "rid", "") for row in inputs["req_pool_indices"][: batch.batch_size]]
        step = len(self.engine.history) - 1
        self.replays.append(RecordedReplay(batch.batch_size, captured.bs, rids, inputs, step))
        for follower, changed in list(self._listeners.items()):
            changed(follower)


def probe_stale_pointer(runner: CudaGraphRunner, bs: int | None = None) -> StaleProbe:
    """Replay a captured size three times on the dummy page: as it is, after `input_ids` were put into a new tensor, and
    after they were copied into the recorded one. No request's rows are read or written, and all inputs are put back.

    Args:
        bs: a captured size; None: the smallest.

    Raises:
        BadArgumentError: no such size, or graphs of a GPU, whose addresses are not recorded.
    """
    size = runner.capture_bs[0] if bs is None else bs
    if size not in runner.captured:
        raise BadArgumentError("bs", f"a captured size, of {runner.capture_bs}", size, "Choose one of these.")
    captured, buffers = runner.captured[size], runner.buffers
    if not isinstance(captured.graph, RecordedGraph):
        raise BadArgumentError("runner", "recorded graphs, of a CPU", "graphs of a GPU", "Make the engine on a CPU.")
    names = (*INPUTS, "state_indices")
    before = {name: getattr(buffers, name).clone() for name in names}
    replays = captured.graph.replays
    try:
        buffers.seq_lens.fill_(buffers.fill)
        buffers.out_cache_loc.zero_()
        buffers.positions.zero_()
        buffers.state_indices.fill_(buffers.dummy_state)
        buffers.input_ids.zero_()
        first = _logits(runner, captured)
        fresh = torch.ones_like(buffers.input_ids)  # the batch's next tokens, in a tensor of their own
        unseen = float((_logits(runner, captured) - first).abs().max())
        try:
            captured.graph.check(input_ids=fresh)
            message = ""
        except StalePointerError as error:
            message = str(error)
        buffers.input_ids.copy_(fresh)
        seen = float((_logits(runner, captured) - first).abs().max())
    finally:
        for name in names:
            getattr(buffers, name).copy_(before[name])
        captured.graph.replays = replays
    return StaleProbe("input_ids", buffers.input_ids.data_ptr(), fresh.data_ptr(), message, unseen, seen)


def _logits(runner: CudaGraphRunner, captured: CapturedGraph) -> torch.Tensor:
    with torch.inference_mode():
        if not runner._with_metadata:
            runner.backend.prepare(captured.batch)
        else:
            total = captured.bs * runner.buffers.fill
            lengths = runner.buffers.seq_lens[: captured.bs].cpu()
            runner.backend.prepare_replay(runner._graph_batch(captured.batch, total, lengths))
        captured.graph.replay()
        return captured.output.logits.clone()


def address_names(runner: CudaGraphRunner) -> dict[int, str]:
    """Address -> what lies there: inputs, weights and KV rows, as far as they have names."""
    names: dict[int, str] = {}
    pool = runner.runner.token_to_kv_pool
    for layer in range(pool.start_layer, pool.start_layer + pool.layer_num):
        for name, buffer in pool.named_buffers(layer).items():
            names[buffer.data_ptr()] = f"{name} rows of layer {layer}"
    for name, tensor in (*runner.model.named_parameters(), *runner.model.named_buffers()):
        names[tensor.data_ptr()] = name
    names[runner.runner.req_to_token_pool.req_to_token.data_ptr()] = "req_to_token"
    for name in (*INPUTS, "state_indices"):
        names[getattr(runner.buffers, name).data_ptr()] = f"input {name}"
    return names
