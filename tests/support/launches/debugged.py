"""KernelDebugger on launches of tests/support/launches/session_lines, without a page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.launches.session_lines import SESSION_PTX

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.widgets import KernelDebugger

FOLLOW: dict[str, Any] = {}


def make(name: str = "reduce", **options: Any) -> KernelDebugger:
    kernel = gpu.load(SESSION_PTX)[name]
    out = torch.zeros(1)
    arguments: dict[str, list[Any]] = {
        "reduce": [torch.arange(2000, dtype=torch.float32), out, 2000],
        "collatz": [torch.arange(1, 129, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)],
        "clock_and_out_of_bounds": [torch.zeros(128, dtype=torch.int64), 1000],
    }
    session = kernel.session(
        gpu.EmulatedDevice("sm_90a"), grid=2, block=64 if name == "collatz" else 128, args=arguments[name]
    )
    return KernelDebugger(session, tensors={"out": out}, **options)


def go(widget: KernelDebugger, action: str, look: dict[str, Any] = FOLLOW, **options: Any) -> dict[str, Any]:
    """A move to its end."""
    state = widget.go(action, look, **options)
    while state["job"]:
        state = widget.go_on(look)
    return state


def tensor(widget: KernelDebugger, name: str) -> np.ndarray:
    return widget.slices([{"name": name, "start": 0, "stop": 1 << 30}])[0].array


def line(widget: KernelDebugger, text: str, number: int) -> str:
    start = tensor(widget, f"{text}.start")
    return bytes(tensor(widget, f"{text}.text")[start[number - 1] : start[number]]).decode().strip()
