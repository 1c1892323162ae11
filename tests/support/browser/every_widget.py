"""One of each widget, most of them on the same MLA decode: for what all of them have to keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sglab
from sglab.emulator.captures import Capture
from sglab.widgets import (
    Barriers,
    KernelDebugger,
    Layout,
    NanSpread,
    OnlineSoftmax,
    PageTable,
    SharedMemory,
    SplitKV,
    TensorMemory,
    WarpRoles,
    Widget,
)
from sglab.workbench import Batch
from tests.support.launches.nan_sessions import empty_row


@cache
def batch() -> Batch:
    return sglab.decode_batch([512], num_heads=128, page_size=128, dtype="float16", seed=0)


@cache
def capture() -> Capture:
    return sglab.trace(batch(), backend="cutlass_mla")


MAKERS: dict[str, Callable[[], Widget]] = {
    "PageTable": lambda: PageTable(sglab.decode_batch([300, 1000, 77], page_size=64, layout="fragmented", seed=0)),
    "SplitKV": lambda: SplitKV([300, 9000, 77, 2000], ("flash_mla", "flashinfer_mla")),
    "OnlineSoftmax": lambda: OnlineSoftmax(batch(), 0, num_splits=4, tile=64, implementation="reference"),
    "WarpRoles": lambda: WarpRoles(capture()),
    "Barriers": lambda: Barriers(capture()),
    "KernelDebugger": lambda: KernelDebugger(capture().session()),
    "TensorMemory": lambda: TensorMemory(capture().session()),
    "SharedMemory": lambda: SharedMemory(capture().session()),
    "Layout": lambda: Layout("(32,64):(64,1)"),
    "NanSpread": lambda: NanSpread(empty_row()),
}
"""name -> makes one of it."""

OF_SESSIONS = ("WarpRoles", "Barriers", "KernelDebugger", "TensorMemory", "SharedMemory")
"""Those that show a launch."""
