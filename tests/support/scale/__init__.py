"""Work for tests of sglab.scale: module functions, as workers import them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def emulated(n: int, factor: float) -> dict[str, Any]:
    """Runs a kernel on the emulator: out[i] = factor * i; returns its sum and the warp-instructions."""
    import torch

    from sglab import gpu

    out = torch.zeros(n)
    kernel = gpu.load(PTX)["times"]
    report = kernel.launch(gpu.EmulatedDevice("sm_80"), grid=(n // 32, 1, 1), block=32, args=[out, factor])
    return {"total": float(out.double().sum()), "warp_instructions": report.warp_instructions}


def noted(number: int, folder: str, wait_for: str) -> tuple[int, int]:
    """Leaves a file with its process in `folder`, then waits for a file to appear."""
    (Path(folder) / f"{number}.{os.getpid()}").touch()
    while not Path(wait_for).exists():
        time.sleep(0.01)
    return number, os.getpid()


def dies(number: int) -> int:
    os._exit(3)


PTX = """.version 8.7
.target sm_80
.address_size 64
.visible .entry times(.param .u64 out, .param .f32 factor)
{ .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .f32 %f<3>;
  ld.param.u64 %d1, [out]; ld.param.f32 %f1, [factor];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 32, %r1;
  cvt.rn.f32.u32 %f2, %r1; mul.f32 %f2, %f2, %f1;
  mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; st.global.f32 [%d1], %f2; ret; }
"""
