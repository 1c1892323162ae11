"""What a recorded launch did, counted from its event log: FLOPs instruction by instruction, bytes access by access."""

from __future__ import annotations

import numpy as np

from sglab.events import EventLog
from sglab.events.tables import ELEMENT_TYPES, MMA_KINDS
from sglab.roofline.traffic import requested_bytes, touched_bytes
from sglab.roofline.work import Work

_TENSOR = {
    **dict.fromkeys(("f16", "bf16"), "bf16"),
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), "fp8"),
    **dict.fromkeys(("s8", "u8", "s4", "u4"), "int8"),
    "tf32": "tf32",
    "f64": "fp64 tensor",
}
_FP4_KINDS = ("mxf4", "mxf4nvf4")
_PLAIN = {
    "f32": ("fp32", 1),
    "f32x2": ("fp32", 2),
    "f16x2": ("fp16", 2),
    "bf16x2": ("fp16", 2),
    "f16": ("fp16", 1),
    "bf16": ("fp16", 1),
    "f64": ("fp64", 1),
}
_FLOPS = {"fma": 2, "mad": 2, "add": 1, "sub": 1, "mul": 1}
"""What counts, as profilers have it: not comparisons, conversions or special functions such as ex2."""


def count(log: EventLog) -> Work:
    """FLOPs and bytes of a recorded launch.

    FLOPs are 2·m·n·k of each matrix multiplication, padding included, and those of fma, mul, add and sub by lanes.
    Bytes of memory are the 32-byte sectors that were read and those that were written, each once: what an empty L2
    cache fetches, and writes back in the end.

    Raises:
        ValueError: the log has no details, or the launch touched no global memory.
    """
    if not log.details:
        raise ValueError(f"log: {log.kernel} was recorded without details; record it with details=True")
    touched = touched_bytes(log)
    if touched <= 0:
        raise ValueError(f"log: {log.kernel} touched no global memory, so it has no arithmetic intensity")
    return Work(flops_of(log), touched, requested_bytes(log))


def flops_of(log: EventLog) -> dict[str, float]:
    """FLOPs by kind of arithmetic; see `count`."""
    counted: dict[str, float] = {}
    mmas = log.mmas
    products = 2.0 * mmas.m.astype(np.float64) * mmas.n * mmas.k
    for kind, element in {*zip(mmas.kind.tolist(), mmas.a_type.tolist(), strict=True)}:
        fp4 = MMA_KINDS[kind] in _FP4_KINDS
        pipe = "fp4" if fp4 else _TENSOR.get(ELEMENT_TYPES[element])
        if pipe is not None:
            chosen = (mmas.kind == kind) & (mmas.a_type == element)
            counted[pipe] = counted.get(pipe, 0.0) + float(products[chosen].sum())
    lanes = np.bincount(log.pc, log.lanes, len(log.code.rows))
    for pc, (_, opcode, *_) in enumerate(log.code.rows):
        name, *modifiers = opcode.split(".")
        found = next((_PLAIN[each] for each in modifiers if each in _PLAIN), None)
        if name in _FLOPS and found is not None and lanes[pc]:
            pipe, width = found
            counted[pipe] = counted.get(pipe, 0.0) + float(_FLOPS[name] * width * lanes[pc])
    return counted
