"""What each instruction costs: its cost class to units, issue slots, cycles.

ptxas turns PTX into machine instructions of its own choice; a class says what it usually makes of one. Slots are issue
slots; busy: the cycles that the instruction keeps its unit (of a sub-partition; LSU: of the SM); latency: the cycles
until its result can be used. Figures are those measured on an H100 (h100.json, `instruction`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sglab.events.tables import Array
from sglab.events.timing.figures import Figures
from sglab.gpu import core
from sglab.gpu.code import Code

UNITS = ("none", "FMA", "ALU", "XU", "FP64", "tensor", "LSU", "async")
STALLS = (
    *("none", "issue slot", "unit", "arithmetic", "shared memory", "global memory"),
    *("tensor core", "barrier", "mbarrier", "copy", "fence", "instruction fetch"),
)
_NONE, _FMA, _ALU, _XU, _FP64, _TENSOR, _LSU, _ASYNC = range(len(UNITS))
_ACTIONS = (
    *("plain", "move", "global", "shared", "named wait", "arrive", "phase wait", "block", "copy", "cp.async", "commit"),
    *("wait", "cp.async arrive", "wgmma", "tcgen05", "tcgen05 commit", "tmem load", "tmem store", "tmem wait"),
)
_ACTION = {name: number for number, name in enumerate(_ACTIONS)}
_GROUP = {"cp.async": 0, "bulk": 1, "wgmma": 2}


@dataclass(frozen=True)
class Cost:
    """action: what happens besides; argument: of a wait, the groups that may stay open (-1: nothing may); turn: of an
    atomic, cycles from one change of a word to the next, if it is slower than its slice of the L2 cache"""

    unit: int = _ALU
    slots: float = 1
    busy: float = 2
    latency: float = 5
    action: str = "plain"
    group: str = "cp.async"
    argument: int = 0
    cached: bool = False
    streaming: bool = False
    read_only: bool = False
    order: int = 0
    turn: float = 0


def _block(latency: float) -> Cost:
    return Cost(_NONE, 1, 0, latency, "block")


def _shared(latency: float, busy: float = 0) -> Cost:
    """busy 0: by the bytes moved."""
    return Cost(_LSU, 1, busy, latency, "shared")


# By the cost class that the rows of the instruction table state (csrc/isa/effects.hpp).
COSTS: dict[str, Cost] = {
    # What register allocation removes, and control.
    "free": Cost(_NONE, 0, 0, 0, "move"),
    "issue": Cost(_NONE, 1, 0, 2),
    # Arithmetic.
    "alu": Cost(_ALU, 1, 2, 5),
    "logic wide": Cost(_ALU, 2, 4, 5),
    "integer add": Cost(_FMA, 1, 1, 5),
    "integer add wide": Cost(_ALU, 2, 2, 6),
    "multiply": Cost(_FMA, 1, 2, 5),
    "multiply wide": Cost(_FMA, 4, 6, 12),
    "float": Cost(_FMA, 1, 1, 4),
    "float pair": Cost(_FMA, 1, 1, 5),
    "half": Cost(_FMA, 1.2, 1.2, 8),
    "double": Cost(_FP64, 1, 2, 8),
    # Special functions and what is computed with their help.
    "special": Cost(_XU, 1, 8, 18),
    "special full": Cost(_XU, 4, 8, 36),
    "sine": Cost(_XU, 2, 8, 23),
    "square root": Cost(_XU, 9, 8, 56),
    "reciprocal": Cost(_XU, 10, 8, 77),
    "divide approx": Cost(_XU, 2, 8, 23),
    "divide full": Cost(_XU, 7, 8, 45),
    "divide": Cost(_XU, 12, 8, 58),
    "divide long": Cost(_XU, 18, 16, 139),
    "divide wide": Cost(_XU, 70, 16, 300),
    "count bits": Cost(_XU, 1, 8, 17),
    "convert wide": Cost(_XU, 1, 16, 24),
    "integer to float": Cost(_ALU, 1, 2, 5),
    "special register": Cost(_ALU, 1, 2, 20),
    # Warps.
    "vote": Cost(_ALU, 1, 2, 13),
    "shuffle": Cost(_LSU, 1, 1, 24),
    "reduce": Cost(_XU, 1, 8, 44),
    "match any": Cost(_XU, 1, 256, 369),
    "match all": Cost(_XU, 1, 16, 40),
    # Memory.
    "global": Cost(_LSU, 1, 0, 30, "global"),
    "shared load": _shared(22),
    "shared store": _shared(4),
    "shared atomic": _shared(32),
    "matrix load": _shared(22),
    "matrix store": _shared(4),
    # Barriers and fences.
    "barrier arrive": Cost(_NONE, 1, 0, 4, "arrive"),
    "barrier wait": Cost(_NONE, 1, 0, 2, "named wait"),
    "cluster arrive": Cost(_LSU, 1, 1, 0, "arrive"),
    "cluster arrive relaxed": Cost(_LSU, 1, 1, 20, "arrive"),
    "cluster wait": Cost(_NONE, 1, 0, 10, "phase wait"),
    "mbarrier": Cost(_LSU, 1, 1, 20),
    "mbarrier arrive": Cost(_LSU, 1, 2, 20, "arrive"),
    "mbarrier wait": Cost(_LSU, 2, 1, 22, "phase wait"),
    "copies arrive": Cost(_LSU, 1, 1, 20, "cp.async arrive"),
    "fence": _block(0),
    "fence light": _block(9),
    "fence proxy": _block(30),
    "wgmma fence": Cost(_NONE, 1, 0, 4),
    # Asynchronous operations.
    "cp.async": Cost(_LSU, 1, 4, 8, "cp.async"),
    "copy": Cost(_ASYNC, 1, 4, 8, "copy"),
    "commit": Cost(_NONE, 1, 0, 2, "commit"),
    "wait": Cost(_NONE, 1, 0, 8, "wait"),
    "wgmma wait": Cost(_NONE, 1, 0, 14, "wait"),
    # Tensor cores.
    "mma": Cost(_TENSOR, 1, 8, 33),
    "wgmma": Cost(_TENSOR, action="wgmma"),
    "tcgen05": Cost(_ASYNC, 1, 2, 4, "tcgen05"),
    "tcgen05 commit": Cost(_ASYNC, 1, 2, 8, "tcgen05 commit"),
    "tmem alloc": _block(60),
    "tmem load": Cost(_NONE, 1, 0, 4, "tmem load"),
    "tmem store": Cost(_NONE, 1, 0, 4, "tmem store"),
    "tmem wait load": Cost(_NONE, 1, 0, 4, "tmem wait", argument=0),
    "tmem wait store": Cost(_NONE, 1, 0, 4, "tmem wait", argument=1),
}
# Relative to f16, the time that a multiplication of these elements takes.
_NARROW = {"tf32": 2.0, "e4m3": 0.5, "e5m2": 0.5, "s8": 0.5, "u8": 0.5, "s4": 0.25, "u4": 0.25, "f64": 8.0}

_LATENCIES = {"fence": "fence", "cluster arrive": "cluster_arrive"}  # cost classes whose latency is a GPU's figure
_FLOATS = ("f16", "bf16", "f32", "f64")

# What keeps ptxas from moving an instruction is in Effects.motion; this comes from the text around it.
NO_UNROLL = 64


def cost_of(effects: core.Effects) -> Cost:
    """The cost of an instruction, apart from what depends on the GPU's tensor cores.

    Args:
        effects: What the instruction does, with its cost class.

    Returns:
        Its row of figures; a wait's argument is how many groups may stay open.
    """
    cost = replace(COSTS[effects.cost], order=effects.motion)
    if cost.action == "global":
        return replace(cost, cached=effects.cached, streaming=effects.streaming)
    if effects.act == "matrix rows":
        return replace(cost, busy=effects.count if effects.reads else max(2, effects.count))
    if effects.group:
        argument = effects.count if cost.action == "wait" else 0
        return replace(cost, group=effects.group, read_only=effects.read_only, argument=argument)
    return cost


def instruction_costs(code: Code, figures: Figures) -> list[Cost]:
    """The cost of every instruction of a kernel, by pc.

    Args:
        code: The kernel's instructions.
        figures: Of the GPU.
    """
    costs = [cost_of(effects) for effects in code.effects]
    for pc, effects in enumerate(code.effects):
        if effects.atomic and effects.type.startswith(_FLOATS):
            costs[pc] = replace(costs[pc], turn=figures["atomic_float_turn"])
        if effects.cost in _LATENCIES:
            costs[pc] = replace(costs[pc], latency=figures[_LATENCIES[effects.cost]])
    for pc, halves in enumerate(code.kernel.converts_halves()):
        if halves:  # ptxas converts what holds 16 bits by I2F.U16, on XU
            costs[pc] = replace(COSTS["special"], order=costs[pc].order)
    for pc, (kind, m, n, k, a_type, _, _, in_registers) in code.kernel.multiplications().items():
        if kind == "wgmma":
            operands = 32 * (n if in_registers else n + 64)  # bytes along K
            busy = max(64 * n * 16 / (4 * figures["tensor_macs"]), operands / figures["shared_rate"])
            costs[pc] = replace(costs[pc], slots=1, busy=busy, latency=figures["wgmma_latency"])
        elif a_type != "b1":
            busy = 2 * m * n * k / figures["tensor_macs"] * _NARROW.get(a_type, 1.0)
            costs[pc] = replace(costs[pc], busy=busy, latency=25 + busy)
    return costs


def cost_columns(rows: list[Cost]) -> dict[str, Array]:
    """By pc, as the core takes them."""
    return {
        "action": np.array([_ACTION[row.action] for row in rows], np.uint8),
        "unit": np.array([row.unit for row in rows], np.uint8),
        "group": np.array([_GROUP[row.group] for row in rows], np.uint8),
        "cached": np.array([row.cached for row in rows], np.uint8),
        "streaming": np.array([row.streaming for row in rows], np.uint8),
        "read_only": np.array([row.read_only for row in rows], np.uint8),
        "order": np.array([row.order for row in rows], np.uint8),
        "argument": np.array([row.argument for row in rows], np.int32),
        "slots": np.array([row.slots for row in rows], np.float32),
        "busy": np.array([row.busy for row in rows], np.float32),
        "latency": np.array([row.latency for row in rows], np.float32),
        "turn": np.array([row.turn for row in rows], np.float32),
    }
