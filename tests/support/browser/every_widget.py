"""One of each widget, on the same MLA decode or the same run of an engine: for what all of them have to keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sglab
from sglab.emulator.captures import Capture
from sglab.engine.recording import Recording
from sglab.serving import Engine, GraphLog
from sglab.widgets import (
    Barriers,
    Graph,
    KernelDebugger,
    OnlineSoftmax,
    PageTable,
    RadixTree,
    Scheduler,
    SharedMemory,
    SplitKV,
    TensorMemory,
    WarpRoles,
    Widget,
)
from sglab.workbench import Batch


@cache
def batch() -> Batch:
    return sglab.decode_batch([512], num_heads=128, page_size=128, dtype="float16", seed=0)


@cache
def capture() -> Capture:
    return sglab.trace(batch(), backend="cutlass_mla")


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


MAKERS: dict[str, Callable[[], Widget]] = {
    "Scheduler": lambda: Scheduler(recording()),
    "RadixTree": lambda: RadixTree(recording()),
    "Graph": lambda: Graph(recording() and graphs()),
    "PageTable": lambda: PageTable(sglab.decode_batch([300, 1000, 77], page_size=64, layout="fragmented", seed=0)),
    "SplitKV": lambda: SplitKV([300, 9000, 77, 2000], ("flash_mla", "flashinfer_mla")),
    "OnlineSoftmax": lambda: OnlineSoftmax(batch(), 0, num_splits=4, tile=64, implementation="reference"),
    "WarpRoles": lambda: WarpRoles(capture()),
    "Barriers": lambda: Barriers(capture()),
    "KernelDebugger": lambda: KernelDebugger(capture().session()),
    "TensorMemory": lambda: TensorMemory(capture().session()),
    "SharedMemory": lambda: SharedMemory(capture().session()),
}
"""name -> makes one of it."""

OF_SESSIONS = ("WarpRoles", "Barriers", "KernelDebugger", "TensorMemory", "SharedMemory")
"""Those that show a launch."""
