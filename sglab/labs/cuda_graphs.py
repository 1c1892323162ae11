"""Questions of notebook 17: launches, captured sizes, padded rows, fixed addresses, plans and pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sglab.attention.flashinfer.wrapper import Shape, Wrapper
from sglab.engine.graphs import GraphInputBuffers, RecordedGraph, StalePointerError
from sglab.planning import decode_plan, piecewise_capture_tokens, replay_batch_size
from sglab.serving.graph_log import address_names

from .graph_inputs import PrepareQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.engine import ForwardBatch
    from sglab.serving import Engine, RecordedReplay
    from sglab.serving.graph_runner import CudaGraphRunner

ENDINGS = ("Once upon a time", "The cat sat", "2 + 3 =", "A small robot", "In the garden", "It was night", "Mia", "Ben")


def runner_of(engine: Engine) -> CudaGraphRunner:
    """What captures and replays an engine's decode passes."""
    runner = engine.worker.graph_runner
    assert runner is not None, "the engine was made without cuda_graph=True"
    return runner


def rows(replay: RecordedReplay) -> str:
    """A replay's inputs as a table, a row of the batch per line; padded rows are marked."""
    names = list(replay.inputs)
    lines = [f"{'row':6}" + "".join(f"{name:>18}" for name in names)]
    for row in range(replay.bs):
        values = "".join(f"{replay.inputs[name][row]:18}" for name in names)
        who = replay.rids[row] if row < replay.raw_bs else "padding"
        lines.append(f"{row:<6}{values}  {who}")
    return "\n".join(lines)


def idle_share(launches: int, host: float, device: float) -> float:
    """The share of a pass in which the GPU waits for the host, launches of `host` µs and kernels of `device` µs each.

    The host runs ahead: a kernel begins when it was launched and the one before has ended.
    """
    end = 0.0
    for i in range(1, launches + 1):
        end = max(end, i * host) + device
    return 1 - launches * device / end


def gpu_waits(launches: int, host: float, device: float) -> Question:
    """The share of a pass without a graph in which the GPU has nothing to do."""
    return Question(
        truth=lambda: idle_share(launches, host, device),
        because="{truth:.3f}: kernels come as quickly as the host launches them, whatever the GPU could do.",
        hint=f"After the first few, a kernel ends every {host:g} µs. For how many of these was it running?",
        tolerance=0.02,
        ideas=(
            (device / host, "In that share of the time it works. The question is when it waits."),
            (
                host / (host + device),
                "That would be so if the host waited for each kernel. It launches the next one meanwhile.",
            ),
        ),
    )


def after_replay() -> Question:
    """What a replay computes after a name was bound to another tensor."""

    def truth() -> float:
        x, scale = torch.tensor([1.0, 2.0]), torch.tensor(3.0)
        graph = RecordedGraph()
        with graph.capture():
            y = x * scale + 1
        scale = torch.tensor(100.0)
        x.copy_(torch.tensor([5.0, -1.0]))
        graph.replay()
        return float(y[0])

    return Question(
        truth=truth,
        because="{truth:g}: x was written where the graph reads. The new scale lies elsewhere; the old one is read.",
        hint="Which assignment writes into memory that the graph reads, and which gives a name to new memory?",
        ideas=(
            (501, "The graph has the address of the first scale. A new tensor under the same name has another."),
            (4, "A replay computes again, from what lies at the addresses now: x has other values."),
            (101, "x.copy_ writes into the tensor that was recorded: the graph reads 5."),
        ),
    )


def refusal(graph: RecordedGraph, **inputs: torch.Tensor) -> str:
    """What the graph says of tensors that a replay would not read; empty if it reads all of them."""
    try:
        graph.check(**inputs)
    except StalePointerError as error:
        return str(error)
    return ""


def worst_padding(sizes: Sequence[int], most: int) -> Question:
    """The batch of which the largest share of the replayed rows is padding."""
    shares = {raw: 1 - raw / replay_batch_size(sizes, raw) for raw in range(1, most + 1)}
    lost = {raw: replay_batch_size(sizes, raw) - raw for raw in shares}
    return Question(
        truth=lambda: max(shares, key=lambda raw: shares[raw]),
        because=f"{{truth}}: {max(shares.values()):.0%} of its rows are padding.",
        hint=f"Compute 1 - raw / P.replay_batch_size(sizes, raw) for raw from 1 to {most}.",
        ideas=((max(lost, key=lambda raw: lost[raw]), "It has the most padded rows; but of how many?"),),
    )


def written_slots(engine: Engine, requests: int, layer: int = 0) -> set[int]:
    """The slots whose rows of the KV pool one decode pass of `requests` requests changes."""
    engine.flush_cache()
    for ending in ENDINGS[:requests]:
        engine.submit(ending, {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True})
    replays = runner_of(engine).replays
    count = len(replays)
    pool = engine.runner.token_to_kv_pool.get_key_buffer(layer)
    before = pool.clone()
    pool[0] = torch.nan  # so that writing what was there before counts, too
    while len(replays) == count:
        before = pool.clone()
        engine.step()
    changed = _changed(before, pool)
    engine.run()
    pool[0] = 0
    return changed


def _changed(before: torch.Tensor, after: torch.Tensor) -> set[int]:
    """Rows that differ; NaN equals NaN."""
    same = (before == after) | (before.isnan() & after.isnan())
    return set((~same).flatten(1).any(1).nonzero().flatten().tolist())


def rows_changed(engine: Engine, requests: int) -> Question:
    """How many rows of a layer's KV pool a padded pass changes."""
    size = replay_batch_size(runner_of(engine).capture_bs, requests)
    return Question(
        truth=lambda: len(written_slots(engine, requests)),
        because=f"{{truth}}: {requests} requests write to their own slots, {size - requests} padded rows to slot 0.",
        hint="Look at out_cache_loc in the table above: where do padded rows write?",
        ideas=(
            (size, "So many rows are computed. Padded ones share a slot."),
            (requests, "Padded rows write, too: the graph cannot leave them out."),
        ),
    )


class StaleSlots(GraphInputBuffers):
    """Input buffers that do not point padded rows at the dummy slot: what the real ones are careful about."""

    def copy_from(self, batch: ForwardBatch, bs: int) -> None:
        kept = self.out_cache_loc.clone()
        super().copy_from(batch, bs)
        raw = batch.batch_size
        self.out_cache_loc[raw:bs].copy_(kept[raw:bs])


def overwritten(engine: Engine, careless: bool, passes: int = 2) -> list[int]:
    """Slots of others that decode passes overwrite, after one of three requests has ended.

    Looks at the last layer: in the first one a stale token at its old position gives the same key again.

    Args:
        careless: padded rows keep the slot that their row had before.
        passes: how many to watch.
    """
    runner, kv = runner_of(engine), engine.runner.token_to_kv_pool
    pool = kv.get_key_buffer(kv.start_layer + kv.layer_num - 1)
    engine.flush_cache()
    real = runner.buffers
    real.out_cache_loc.zero_()
    for ending, tokens in zip(ENDINGS[:3], (12, 12, 4), strict=True):
        engine.submit(ending, {"temperature": 0, "ignore_eos": True, "max_new_tokens": tokens})
    begun, found = len(engine.history.steps), set()
    while not any(step.finished for step in engine.history.steps[begun:]):
        engine.step()
    try:
        if careless:
            runner.buffers = StaleSlots(**vars(real))
        for _ in range(passes):
            before = pool.clone()
            engine.step()
            found |= _changed(before, pool) - set(real.out_cache_loc[: runner.replays[-1].raw_bs].tolist())
    finally:
        runner.buffers = real
    engine.run()
    return sorted(found - {0})


def launches_reading(engine: Engine, name: str, bs: int) -> Question:
    """How many launches of a captured pass read one of the inputs."""

    def count(wanted: str) -> int:
        runner = runner_of(engine)
        names = address_names(runner)
        launches = runner.captured[bs].graph.launches
        return sum(any(names.get(each) == f"input {wanted}" for each in launch.reads) for launch in launches)

    return Question(
        truth=lambda: count(name),
        because="{truth}: each layer's attention, and nothing else. Other launches only know the number of rows.",
        hint="Which operations of a layer depend on how long a request is? How many layers has the model?",
        ideas=((1, "Every layer has one of these; the model has several layers."),),
    )


class OnDevice(torch.Tensor):
    """A tensor that may not be read by the host, as on a GPU while the host should not wait."""

    def cpu(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        raise RuntimeError("the host waits for the device to copy kv_indptr")


def wrapper(lens: Sequence[int], host: bool, sm_count: int = 132) -> Wrapper:
    """FlashInfer's decode wrapper for a batch whose indptr lies on the device.

    Args:
        host: the lengths are known on the host, too, as fast_decode_plan wants them.
    """
    indptr = torch.tensor([0, *np.cumsum(lens)], dtype=torch.int32)
    return Wrapper(
        Shape(num_qo_heads=32, num_kv_heads=8, head_dim_qk=128, head_dim_vo=128, sm_count=sm_count),
        qo_indptr=torch.arange(len(lens) + 1, dtype=torch.int32).as_subclass(OnDevice),
        kv_indptr=indptr.as_subclass(OnDevice),
        kv_indices=torch.arange(sum(lens), dtype=torch.int32),
        kv_last_page_len=torch.ones(len(lens), dtype=torch.int32),
        q_lens=[1] * len(lens) if host else None,
        kv_lens=list(lens) if host else None,
        is_decode=True,
        is_cuda_graph_enabled=True,
    )


def units_without_work(lens: Sequence[int], sm_count: int = 132) -> Question:
    """Work units of a graph's grid that have nothing to do."""

    def plan(graph: bool) -> Any:
        heads = {"num_qo_heads": 32, "num_kv_heads": 8}
        options: dict[str, Any] = {**heads, "page_size": 1, "sm_count": sm_count, "head_dim": 128}
        return decode_plan(np.concatenate(([0], np.cumsum(lens))), enable_cuda_graph=graph, **options)

    made = plan(True)
    used = int(np.sum(made.block_valid_mask))
    return Question(
        truth=lambda: made.padded_batch_size - used,
        because=f"{{truth}} of {made.padded_batch_size}: they look at block_valid_mask and leave.",
        hint="padded_batch_size is the grid that was captured; block_valid_mask says who has work.",
        ideas=((used, "So many have work. How many are left?"),),
    )


def pieces_of(layers: int) -> Question:
    """Pieces of a pass that is cut at each layer's attention."""
    return Question(
        truth=lambda: layers + 1,
        because="{truth}: one before the first attention, one after each.",
        hint="The engine's model has 4 layers, and the list above five pieces a size.",
        ideas=((layers, "What follows the last attention is a piece, too."),),
    )


def padded_tokens(tokens: int) -> Question:
    """Tokens that a piecewise replay computes for nothing."""
    sizes = piecewise_capture_tokens(4096)
    return Question(
        truth=lambda: replay_batch_size(sizes, tokens) - tokens,
        because=f"{{truth}}: {replay_batch_size(sizes, tokens)} is the next captured size.",
        hint=f"P.piecewise_capture_tokens(4096) is the list; which entry is the first of {tokens} or more?",
        ideas=(
            (
                max(tokens - max(s for s in sizes if s <= tokens), 0),
                "The next size up, not the one below: no token may be left out.",
            ),
        ),
    )


def prepare() -> PrepareQuestion:
    """The inputs of a replay, in place."""
    return PrepareQuestion()
