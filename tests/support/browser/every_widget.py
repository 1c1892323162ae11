"""One of each widget, most on the same MLA decode or the same run of an engine: for what all of them have to keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from unittest.mock import patch

import sglab
from sglab.emulator.captures import Capture
from sglab.engine.recording import Recording
from sglab.roofline import Point, mla_decode
from sglab.serving import Engine, GraphLog
from sglab.serving import ranks as serving_ranks
from sglab.widgets import (
    BackendExplorer,
    Barriers,
    DraftTree,
    Experts,
    Graph,
    KernelDebugger,
    Layout,
    NanSpread,
    OnlineSoftmax,
    PageTable,
    RadixTree,
    Ranks,
    Roofline,
    Scheduler,
    SharedMemory,
    SparseAttention,
    SplitKV,
    TensorMemory,
    WarpRoles,
    Widget,
)
from sglab.workbench import (
    Batch,
    RanksRun,
    RoutingRun,
    SpeculationRun,
    record_experts,
    record_ranks,
    record_speculation,
)
from tests.support.launches.nan_sessions import empty_row
from tests.support.ranks import fork_follower


@cache
def batch() -> Batch:
    return sglab.decode_batch([512], num_heads=128, page_size=128, dtype="float16", seed=0)


@cache
def capture() -> Capture:
    return sglab.trace(batch(), backend="cutlass_mla")


@cache
def speculation() -> SpeculationRun:
    """Two requests, each drafted for by the shipped model itself: trees of eight nodes."""
    drafts = {"speculative_num_steps": 3, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 8}
    pool = {"page_size": 16, "max_total_tokens": 1024}
    engine = sglab.Engine("tiny", speculative_algorithm="STANDALONE", draft_model="tiny", **drafts, **pool)
    sampling = {"temperature": 0.9, "sampling_seed": 5, "max_new_tokens": 24}
    with engine, record_speculation(engine) as run:
        engine.generate(["Once upon a time", "2 + 3 ="], sampling)
    return run


@cache
def routing() -> RoutingRun:
    """Two requests through the shipped model: three mixtures of eight experts in four groups."""
    engine = sglab.Engine("tiny", page_size=16, max_total_tokens=1024)
    with engine, record_experts(engine) as run:
        engine.generate(["Once upon a time", "2 + 3 ="], {"temperature": 0, "max_new_tokens": 6})
    return run


@cache
def ranks() -> RanksRun:
    """Two requests on two ranks that attend apart and share the shipped model's experts."""
    with patch.object(serving_ranks.Ranks, "_start", fork_follower):
        engine = sglab.Engine(
            "tiny", tp_size=2, dp_size=2, ep_size=2, page_size=16, max_total_tokens=1024, device="cpu"
        )
        with engine, record_ranks(engine) as run:
            engine.generate(["Once upon a time", "2 + 3 ="], {"temperature": 0, "max_new_tokens": 3})
    return run


@cache
def engine() -> Engine:
    """The shipped model over a pool so small that requests are cut, retracted and prefixes evicted."""
    return Engine(
        "tiny",
        page_size=16,
        max_total_tokens=192,
        max_running_requests=8,
        chunked_prefill_size=64,
        schedule_policy="lpm",
        schedule_conservativeness=0.02,
        cuda_graph=True,
        cuda_graph_bs=(1, 2, 4, 8),
    )


@cache
def graphs() -> GraphLog:
    """The engine's replays of the run below."""
    return GraphLog(engine())


@cache
def recording() -> Recording:
    """Ten requests, of which some share a beginning and one is longer than a chunk."""
    recorded, replays = engine().record(), graphs()
    for i, who in enumerate(["cat", "dog", "fox", "hen", "owl"] * 2):
        prompt = (
            f"Once upon a time there was a little {who} who liked to "
            if i % 3 == 2
            else f"A {who}. " * (14 if i == 6 else 2)
        )
        count = 36 - 8 * (i % 4)
        engine().submit(prompt, {"temperature": 0, "max_new_tokens": count, "min_new_tokens": count}, rid=f"r{i}")
        engine().step()
    engine().run()
    recorded.stop()
    replays.stop()
    return recorded


PROMPT = "Once upon a time there was a little cat who liked to sleep. The cat had a friend, a dog."
"""What SparseAttention's model reads."""


def heads() -> list[Point]:
    """MLA decode by the heads of a rank."""
    lengths = [4096] * 32
    return [
        Point(f"{count} heads", mla_decode(lengths, num_heads=count), "arithmetic", series="MLA decode")
        for count in (16, 64, 128)
    ]


MAKERS: dict[str, Callable[[], Widget]] = {
    "Scheduler": lambda: Scheduler(recording()),
    "RadixTree": lambda: RadixTree(recording()),
    "Graph": lambda: Graph(recording() and graphs()),
    "PageTable": lambda: PageTable(sglab.decode_batch([300, 1000, 77], page_size=64, layout="fragmented", seed=0)),
    "SplitKV": lambda: SplitKV([300, 9000, 77, 2000], ("flash_mla", "flashinfer_mla")),
    "OnlineSoftmax": lambda: OnlineSoftmax(batch(), 0, num_splits=4, tile=64, implementation="reference"),
    "BackendExplorer": lambda: BackendExplorer([300, 1000, 77], model="DeepSeek-V3", machine="H200"),
    "WarpRoles": lambda: WarpRoles(capture()),
    "Barriers": lambda: Barriers(capture()),
    "KernelDebugger": lambda: KernelDebugger(capture().session()),
    "TensorMemory": lambda: TensorMemory(capture().session()),
    "SharedMemory": lambda: SharedMemory(capture().session()),
    "DraftTree": lambda: DraftTree(speculation()),
    "Experts": lambda: Experts(routing()),
    "Ranks": lambda: Ranks(ranks()),
    "SparseAttention": lambda: SparseAttention(PROMPT),
    "Layout": lambda: Layout("(32,64):(64,1)"),
    "NanSpread": lambda: NanSpread(empty_row()),
    "Roofline": lambda: Roofline(capture(), heads()),
}
"""name -> makes one of it."""

OF_SESSIONS = ("WarpRoles", "Barriers", "KernelDebugger", "TensorMemory", "SharedMemory")
"""Those that show a launch."""
