"""The calibration kernels as PTX, compiled ahead of time by build_ptx.py."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from sglab.gpu import Device, Kernel, Launch, Module

FOLDER = Path(__file__).parent / "ptx"


@cache
def module(name: str) -> Module:
    return Module(lzma.decompress((FOLDER / f"{name}.ptx.xz").read_bytes()).decode(), f"{name}.ptx")


def kernel(name: str, entry: str) -> Kernel:
    return module(name)[entry]


def triton_launch(device: Device, name: str, grid: tuple[int, int, int], args: dict[str, Any]) -> Launch:
    """args: by parameter; those that Triton compiled in are left out."""
    facts = json.loads((FOLDER / f"{name}.json").read_text())
    values = [args[parameter] for parameter in facts["parameters"]]
    entry = kernel(name, facts["entry"])
    return entry.prepare(device, grid, facts["threads"], smem=facts["smem"], args=[*values, None, None])
