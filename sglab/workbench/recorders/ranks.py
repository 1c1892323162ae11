"""What several ranks hold and exchange: every collective of a pass on every rank, put side by side."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import environ, pathsep
from pathlib import Path
from typing import Any, Literal

from sglab.engine import arguments
from sglab.engine.errors import BadArgumentError
from sglab.layers.collectives import Collective, CollectiveLog, PassStart
from sglab.layers.shards import Shard
from sglab.serving import Engine
from sglab.serving.ranks import RankDiedError
from sglab.words import plural
from sglab.workbench.batch import Batch
from sglab.workbench.prompt_batch import prompt_batch

EXCHANGE_SECONDS = 300.0


@dataclass(frozen=True)
class Joint:
    """One collective on all ranks that take part.

    Attributes:
        step: its pass; -1: outside any.
        on: rank -> how it ran there. The ranks of a send and its recv are one joint.
    """

    step: int
    on: dict[int, Collective]

    @property
    def any(self) -> Collective:
        """One of them, for what all have in common."""
        return next(iter(self.on.values()))

    @property
    def start(self) -> int:
        """ns: the first rank is there."""
        return min(one.start for one in self.on.values())

    @property
    def met(self) -> int:
        """ns: the last rank is there; the others have waited until now."""
        return max(one.start for one in self.on.values())

    @property
    def end(self) -> int:
        return max(one.end for one in self.on.values())

    @property
    def moved(self) -> int:
        """Bytes that leave a rank: of an exchange the most, of a send those of the rank that sends."""
        return max(self.left(rank) for rank in self.on)

    def left(self, rank: int) -> int:
        """Bytes that leave this rank, of the ring algorithm where it is a sum or a gathering; 0: it takes no part."""
        one, n = self.on.get(rank), len(self.on)
        if one is None or one.kind == "recv":
            return 0
        if one.kind == "all_reduce":
            return 2 * (n - 1) * one.nbytes // n
        if one.kind == "reduce_scatter":
            return (n - 1) * one.nbytes // n
        if one.kind == "all_gather":
            return (n - 1) * one.nbytes
        if one.kind == "all_to_all":
            return sum(size for peer, size in zip(one.ranks, one.parts, strict=True) if peer != rank)
        return one.nbytes


@dataclass(repr=False)
class RanksRun:
    """What `record_ranks` or `record_exchange` saw.

    Attributes:
        title: what ran. backend: "gloo" or "nccl".
        size, dp_size, ep_size: ranks, groups that attend apart, ranks that share experts out.
        shards: of each rank what it holds. joints: every collective, in order of its first start.
        passes: of each pass what each rank says of it.
        lost: why nothing is there, where ranks noted something and one has ended since; empty otherwise.
    """

    title: str
    size: int
    dp_size: int
    ep_size: int
    backend: str
    model: str = ""
    shards: list[list[Shard]] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    passes: list[list[PassStart]] = field(default_factory=list)
    lost: str = ""

    def __repr__(self) -> str:
        return f"<{', '.join(self.described())}>"

    def described(self) -> tuple[str, str]:
        """A title and its sizes, for lists."""
        passes, joints = plural(len(self.passes), "pass", "passes"), plural(len(self.joints), "collective")
        return plural(self.size, "rank"), f"{self.title}, {passes}, {joints}"

    def of_pass(self, step: int) -> list[Joint]:
        return [joint for joint in self.joints if joint.step == step]

    def layer_batch(self, layer: int) -> Batch:
        """What a layer attends to in the first recorded prefill, of all groups: for PageTable, OnlineSoftmax, SplitKV.

        Args:
            layer: its number in the model.

        Raises:
            BadArgumentError: no prefill without cached prefixes was recorded, or no model was named.
        """
        of_a_group = max(1, self.size // self.dp_size)  # ranks, with the same prompts
        prompts = ([ids for one in starts[::of_a_group] for ids in one.tokens] for starts in self.passes)
        first = next((each for each in prompts if each), None)
        if first is None or not self.model:
            remedy = "Record an engine from its first request on."
            raise BadArgumentError("run", "a recorded prefill of whole prompts", "none", remedy)
        return prompt_batch([list(ids) for ids in first], self.model, layer)


@contextmanager
def record_ranks(engine: Engine) -> Iterator[RanksRun]:
    """Keep every collective of every rank of `engine` inside the block. Ranks do nothing for it outside.

    The recording is there when the block ends.

    Raises:
        BadArgumentError: an engine of one process, one that replays graphs (a replay calls no layer that a collective
            could be named after), or one that is recorded already.
        RankDiedError: a rank has ended; what it noted went with it, and what the others did says nothing alone.
    """
    if not isinstance(engine, Engine):
        raise BadArgumentError("engine", "an engine", type(engine).__name__, "Make it with Engine(…, tp_size=2).")
    if engine.ranks is None:
        remedy = "Make it with Engine(…, tp_size=2)."
        raise BadArgumentError("engine", "an engine on several ranks", "one process", remedy)
    if engine.worker.graph_runner is not None or engine.worker.piecewise_runner is not None:
        remedy = "Make it with cuda_graph=False and without enable_piecewise_cuda_graph."
        raise BadArgumentError("engine", "an engine on several ranks without graphs", "one with graphs", remedy)
    config, ranks, execution = engine.config, engine.ranks, engine._execution
    ways = [f"tp {config.tp_size}"]
    more = {"dp": config.dp_size, "ep": config.ep_size, "dcp": config.dcp_size, "cp": config.attn_cp_size}
    ways += [f"{name} {size}" for name, size in more.items() if size > 1]
    backend = "nccl" if ranks.world.device_type == "cuda" else "gloo"
    title = f"{engine.model_name}, {', '.join(ways)}"
    run = RanksRun(title, config.tp_size, config.dp_size, config.ep_size, backend, engine.model_name)
    execution.submit(lambda: ranks.start_recording(engine.model)).result()  # between two passes
    try:
        yield run
    finally:
        try:
            found = execution.submit(lambda: ranks.stop_recording(engine.model)).result()
        except RankDiedError as error:
            run.lost = f"{error} Each rank keeps what it notes, so that what this one noted is gone with it."
            raise
        join_logs(run, [log for log, _ in found])
        run.shards = [shards for _, shards in found]


def record_exchange(
    way: Literal["normal", "low_latency"] = "normal",
    *,
    ranks: int = 4,
    experts: int = 8,
    tokens: int = 16,
    top_k: int = 2,
    hidden: int = 256,
    seed: int = 0,
) -> RanksRun:
    """Run experts on processes that each bring their own tokens, and keep the exchange: DeepEP's dispatch and combine.

    Args:
        way: "normal" (prefills) or "low_latency" (decodes: e4m3, fixed room).
        ranks: processes, over gloo. experts: of all of them, with random weights.
        tokens: of rank 0; rank r brings r fewer, 1 at least.
        hidden: a multiple of 128 for "low_latency".

    Raises:
        BadArgumentError: sizes that do not fit. RuntimeError: a process failed; its last words are in the message.
    """
    arguments.choice("way", way, ("normal", "low_latency"))
    arguments.integer("ranks", ranks, 2, 16, "Each is a process.")
    arguments.integer("experts", experts, ranks, remedy="Every rank holds one at least.")
    if experts % ranks:
        raise BadArgumentError("experts", f"a multiple of the {ranks} ranks", experts, "Add some.")
    arguments.integer("tokens", tokens, 1, 128, "A rank's room in the low-latency way.")
    arguments.integer("top_k", top_k, 1, experts, f"There are {experts} experts.")
    arguments.integer("hidden", hidden, 1)
    if way == "low_latency" and hidden % 128:
        raise BadArgumentError("hidden", "a multiple of 128, which share a scale", hidden, "256 would do.")
    sizes = {"ranks": ranks, "experts": experts, "tokens": tokens, "top_k": top_k, "hidden": hidden, "seed": seed}
    found = _processes({"way": way, **sizes})
    run = RanksRun(f"{way.replace('_', '-')} dispatch and combine, {experts} experts", ranks, ranks, ranks, "gloo")
    join_logs(run, [log for log, _ in found])
    run.shards = [shards for _, shards in found]
    return run


def _processes(given: dict[str, Any]) -> list[tuple[CollectiveLog, list[Shard]]]:
    """Each rank in a process of its own; what each returns."""
    environment = environ | {"PYTHONPATH": pathsep.join(path for path in sys.path if path), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "sglab.workbench.recorders.exchange"]
    with tempfile.TemporaryDirectory(prefix="sglab-exchange-") as folder:
        started = []
        for rank in range(given["ranks"]):
            out = Path(folder) / f"rank{rank}"
            task = pickle.dumps({**given, "rank": rank, "store": str(Path(folder) / "store"), "out": str(out)})
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True
            )
            assert process.stdin is not None
            process.stdin.write(task)
            process.stdin.close()
            started.append((process, out))
        try:
            for rank, (process, _) in enumerate(started):
                code = process.wait(EXCHANGE_SECONDS)
                if code:
                    assert process.stderr is not None
                    last = process.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
                    raise RuntimeError(f"rank {rank} ended with exit code {code}: {' '.join(last)}")
            return [pickle.loads(out.read_bytes()) for _, out in started]
        finally:
            for process, _ in started:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                if process.stderr is not None:
                    process.stderr.close()


def join_logs(run: RanksRun, logs: list[CollectiveLog]) -> None:
    """Put the ranks' collectives side by side: the n-th of the same members is the same on all of them."""
    run.passes = [list(starts) for starts in zip(*(log.passes for log in logs), strict=True)]
    known: dict[tuple[Any, ...], dict[int, Collective]] = {}
    for log in logs:
        counts: dict[tuple[Any, ...], int] = {}
        for one in sorted(log.collectives, key=lambda each: each.start):
            kind = "pair" if one.kind in ("send", "recv") else "group"
            key = (kind, one.ranks)
            counts[key] = counts.get(key, 0) + 1
            known.setdefault((*key, counts[key]), {})[log.rank] = one
    joints = [Joint(next(iter(on.values())).step, on) for on in known.values()]
    run.joints = sorted(joints, key=lambda joint: joint.start)
