"""What each instruction costs: PTX opcodes to units, issue slots, cycles.

ptxas turns PTX into machine instructions of its own choice; a row says what it usually makes of one. Slots are issue
slots; busy: the cycles that the instruction keeps its unit (of a sub-partition; LSU: of the SM); latency: the cycles
until its result can be used. Figures are those measured on an H100 (h100.json, `instruction`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sglab.events.tables import Array
from sglab.events.timing.figures import Figures

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
    """action: what happens besides; argument: of a wait, the groups that may stay open (-1: nothing may)"""

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


def _float(slots: float = 1, latency: float = 4) -> Cost:
    return Cost(_FMA, slots, slots, latency)


def _alu(slots: float = 1, latency: float = 5) -> Cost:
    return Cost(_ALU, slots, 2 * slots, latency)


_FREE = Cost(_NONE, 0, 0, 0, "move")
_ISSUE = Cost(_NONE, 1, 0, 2)
_SPECIAL = Cost(_XU, 1, 8, 18)


def _block(latency: float) -> Cost:
    return Cost(_NONE, 1, 0, latency, "block")


def _shared(latency: float, busy: float = 0) -> Cost:
    """busy 0: by the bytes moved."""
    return Cost(_LSU, 1, busy, latency, "shared")


def _global(opcode: str) -> Cost:
    cached = opcode.startswith("ld") and not re.search(r"\.(cg|cv|volatile|relaxed|acquire|L1::no_allocate)\b", opcode)
    streaming = bool(re.search(r"\.(cs|L2::evict_first)\b", opcode))
    return Cost(_LSU, 1, 0, 30, "global", cached=cached, streaming=streaming)


Rule = tuple[str, Cost | Callable[[str], Cost]]
_RULES: tuple[Rule, ...] = (
    # Control and what register allocation removes.
    (r"mov\.(b|u|s|f)(16|32|64|128)|mov\.pred|cvta|ld\.param|st\.param|bar\.warp|not\.pred|and\.pred|or\.pred", _FREE),
    (r"cvt\.(u64\.u32|u32\.u64|s64\.s32|u32\.u16|u16\.u32|s32\.u32)$|cvt\.u64|cvt\.s64|cvt\.u32\.u", _FREE),
    (r"bra|ret|exit|call|brx", Cost(_NONE, 1, 0, 2)),
    (r"elect", _alu(latency=13)),
    (r"activemask|vote", _alu(latency=13)),
    (r"shfl|movmatrix", Cost(_LSU, 1, 1, 24)),
    (r"redux", Cost(_XU, 1, 8, 44)),
    (r"match\.any", Cost(_XU, 1, 256, 369)),
    (r"match", Cost(_XU, 1, 16, 40)),
    # Barriers.
    (r"barrier\.cluster\.arrive\.relaxed", Cost(_LSU, 1, 1, 20, "arrive")),
    (r"barrier\.cluster\.arrive", Cost(_LSU, 1, 1, 560, "arrive")),
    (r"barrier\.cluster\.wait", Cost(_NONE, 1, 0, 10, "phase wait")),
    (r"(bar|barrier)(\.cta)?\.arrive", Cost(_NONE, 1, 0, 4, "arrive")),
    (r"(bar|barrier)(\.cta)?\.(sync|red)", Cost(_NONE, 1, 0, 2, "named wait")),
    (r"mbarrier\.(try_wait|test_wait)", Cost(_LSU, 2, 1, 22, "phase wait")),
    (r"mbarrier\.(arrive|expect_tx|complete_tx)", Cost(_LSU, 1, 2, 20, "arrive")),
    (r"mbarrier", Cost(_LSU, 1, 1, 20)),
    (r"cp\.async\.mbarrier\.arrive", Cost(_LSU, 1, 1, 20, "cp.async arrive")),
    # Fences.
    (r"(fence|membar)\.(proxy\.async|mbarrier_init)", _block(9)),
    (r"(fence|membar).*\.cta", _block(9)),
    (r"fence\.proxy", _block(30)),
    (r"fence|membar", _block(671)),
    # Asynchronous copies.
    (r"cp\.async\.(ca|cg)", Cost(_LSU, 1, 4, 8, "cp.async")),
    (r"cp\.async\.commit_group", Cost(_NONE, 1, 0, 2, "commit")),
    (r"cp\.async\.bulk\.commit_group", Cost(_NONE, 1, 0, 2, "commit", "bulk")),
    (r"cp\.async\.wait_all", Cost(_NONE, 1, 0, 8, "wait", argument=-1)),
    (r"cp\.async\.wait_group", Cost(_NONE, 1, 0, 8, "wait")),
    (r"cp\.async\.bulk\.wait_group\.read", Cost(_NONE, 1, 0, 8, "wait", "bulk", read_only=True)),
    (r"cp\.async\.bulk\.wait_group", Cost(_NONE, 1, 0, 8, "wait", "bulk")),
    (r"cp\.(async|reduce)|st\.async|red\.async", Cost(_ASYNC, 1, 4, 8, "copy")),
    # Tensor cores.
    (r"wgmma\.fence", Cost(_NONE, 1, 0, 4)),
    (r"wgmma\.commit", Cost(_NONE, 1, 0, 2, "commit", "wgmma")),
    (r"wgmma\.wait", Cost(_NONE, 1, 0, 14, "wait", "wgmma")),
    (r"tcgen05\.(mma|cp|shift)", Cost(_ASYNC, 1, 2, 4, "tcgen05")),
    (r"tcgen05\.commit", Cost(_ASYNC, 1, 2, 8, "tcgen05 commit")),
    (r"tcgen05\.ld", Cost(_NONE, 1, 0, 4, "tmem load")),
    (r"tcgen05\.st", Cost(_NONE, 1, 0, 4, "tmem store")),
    (r"tcgen05\.wait::ld", Cost(_NONE, 1, 0, 4, "tmem wait", argument=0)),
    (r"tcgen05\.wait::st", Cost(_NONE, 1, 0, 4, "tmem wait", argument=1)),
    (r"tcgen05\.(alloc|dealloc)", _block(60)),
    (r"tcgen05|setmaxnreg|griddepcontrol|prefetch|createpolicy|applypriority|discard|nanosleep", _ISSUE),
    # Memory.
    (r"ldmatrix.*\.x4", _shared(22, 4)),
    (r"ldmatrix.*\.x2", _shared(22, 2)),
    (r"ldmatrix", _shared(22, 1)),
    (r"stmatrix.*\.x4", _shared(4, 4)),
    (r"stmatrix", _shared(4, 2)),
    (r"ld\S*\.shared", _shared(22)),
    (r"st\S*\.shared", _shared(4)),
    (r"(atom|red)\S*\.shared", _shared(32)),
    (r"(ld|ldu|st|atom|red)\b.*", _global),
    # Special functions and what is computed with their help.
    (r"ex2\.approx\.(ftz\.)?(f16|bf16)", _SPECIAL),
    (r"(ex2|lg2|rcp|rsqrt|sqrt)\.approx\.ftz|tanh", _SPECIAL),
    (r"(ex2|lg2|rcp|rsqrt|sqrt)\.approx", Cost(_XU, 4, 8, 36)),
    (r"sin|cos", Cost(_XU, 2, 8, 23)),
    (r"sqrt\.r", Cost(_XU, 9, 8, 56)),
    (r"rcp\.r", Cost(_XU, 10, 8, 77)),
    (r"div\.full", Cost(_XU, 7, 8, 45)),
    (r"div\.approx", Cost(_XU, 2, 8, 23)),
    (r"div\S*\.f32", Cost(_XU, 12, 8, 58)),
    (r"(div|rem)\S*\.(s|u)64", Cost(_XU, 70, 16, 300)),
    (r"(div|rem)", Cost(_XU, 18, 16, 139)),
    (r"popc|clz|bfind|brev", Cost(_XU, 1, 8, 17)),
    # Conversions.
    (r"cvt\.(rn|rz)\S*\.(bf16x2|f16x2|bf16|f16)\.f32", _alu()),
    (r"cvt\.f32\.(bf16|f16)", _alu()),
    (r"cvt\.r[nzmp]\S*\.f32\.(s|u)(8|16|32)", _alu()),
    (r"cvt\.r\S*\.(s|u)\d+\.f", Cost(_XU, 1, 8, 18)),
    (r"cvt\S*(f64|64)", Cost(_XU, 1, 16, 24)),
    (r"cvt", _alu()),
    # Arithmetic.
    (r"mma\.sync", Cost(_TENSOR, 1, 8, 33)),
    (r"(fma|add|sub|mul|mad)\S*\.f32x2", _float(1, 5)),
    (r"(fma|add|sub|mul|mad)\S*\.f32", _float()),
    (r"(fma|add|sub|mul|min|max|neg|abs)\S*\.(f16x2|bf16x2|f16|bf16)", _float(1.2, 8)),
    (r"(fma|add|sub|mul|mad|min|max)\S*\.f64", Cost(_FP64, 1, 2, 8)),
    (r"(neg|abs)\S*\.f", _FREE),
    (r"mul\.lo\.s64|mul\.lo\.u64|mad\.lo\.[su]64", Cost(_FMA, 4, 6, 12)),
    (r"(mad|mul)\.wide|(mad|mul)\.lo|mad|mul|dp4a|dp2a", Cost(_FMA, 1, 2, 5)),
    (r"(add|sub)\.(s|u)64", Cost(_ALU, 2, 2, 6)),
    (r"(add|sub|addc|subc)\S*\.(s|u|b)(16|32)", Cost(_FMA, 1, 1, 5)),
    (r"(shl|shr)\S*64", _alu(2)),
    (r"(and|or|xor|not|selp|min|max|lop3)\S*64", _alu(2)),
)
_COMPILED = tuple((re.compile(pattern), cost) for pattern, cost in _RULES)


@lru_cache(maxsize=4096)
def cost_of(opcode: str) -> Cost:
    """The cost of a PTX opcode, apart from what depends on its operands."""
    if opcode.startswith("cvta"):
        return _FREE
    for pattern, cost in _COMPILED:
        if pattern.match(opcode):
            return cost if isinstance(cost, Cost) else cost(opcode)
    return _alu()


_SPECIAL_REGISTER = re.compile(
    r"%(tid|ntid|ctaid|nctaid|laneid|warpid|cluster|clock|globaltimer|smid|lanemask|dynamic)"
)
_WGMMA = re.compile(r"wgmma\.mma_async\S*\.m64n(\d+)k(\d+)")
_MMA_SYNC = re.compile(r"mma\.sync\S*\.m(\d+)n(\d+)k(\d+)\S*?\.(f16|bf16|tf32|e4m3|e5m2|s8|u8|s4|u4|f64)")


_FROM_INTEGER = re.compile(r"cvt\.r[nzmp]\S*\.f32\.(s|u)(8|16|32)\s+\S+\s*(%\w+)")
_SHORT = re.compile(
    r"(?:shr\.u32\s+(%\w+),[^,]*,\s*(?:0x)?(?:1[6-9]|2\d|3[01])|and\.b32\s+(%\w+),[^,]*,\s*(?:65535|0xffff)|cvt\.u32\.u16\s+(%\w+))\b",
    re.I,
)


def short_registers(texts: Iterable[str]) -> frozenset[str]:
    """Registers that hold 16-bit integers, as ptxas sees from what fills them: it converts these by I2F.U16, on XU."""
    found = (_SHORT.match(text) for text in texts)
    return frozenset(one[one.lastindex or 0] for one in found if one)


def instruction_cost(
    opcode: str, text: str, figures: Figures, a_in_registers: bool, shorts: frozenset[str] = frozenset()
) -> Cost:
    """The cost of an instruction. text: its line of PTX; a_in_registers: of wgmma; shorts: see short_registers"""
    cost = cost_of(opcode)
    converted = _FROM_INTEGER.match(text)
    if converted and (converted[2] != "32" or converted[3] in shorts):
        return _SPECIAL
    if cost is _FREE and opcode.startswith("mov") and _SPECIAL_REGISTER.search(text):
        return _alu(latency=20)
    if cost.action == "wait" and cost.argument == 0:
        found = re.search(re.escape(opcode) + r"\s+(\d+)", text)
        return replace(cost, argument=int(found[1]) if found else 0)
    found = _WGMMA.match(opcode)
    if found:
        columns = int(found[1])
        operands = 32 * (columns if a_in_registers else columns + 64)  # bytes along K
        busy = max(64 * columns * 16 / (4 * figures["tensor_macs"]), operands / figures["shared_rate"])
        return Cost(_TENSOR, 1, busy, figures["wgmma_latency"], "wgmma")
    found = _MMA_SYNC.match(opcode)
    if found:
        m, n, k = map(int, found.groups()[:3])
        narrow = {"tf32": 2.0, "e4m3": 0.5, "e5m2": 0.5, "s8": 0.5, "u8": 0.5, "s4": 0.25, "u4": 0.25, "f64": 8.0}
        busy = 2 * m * n * k / figures["tensor_macs"] * narrow.get(found[4], 1.0)
        return replace(cost, busy=busy, latency=25 + busy)
    return cost


# What keeps ptxas from moving an instruction, as the core's Order has it.
_SHARED_SPACE, _GLOBAL_SPACE = 1, 4  # to read them; twice that, to write
BRANCH, FIXED, NO_UNROLL = 16, 32, 64
_IS_BRANCH = re.compile(r"bra|ret|exit|call|brx|trap")
_IS_FIXED = re.compile(
    r"(bar|barrier)(?!\S*arrive)|mbarrier\.(try|test)_wait|cp\.async\.\S*wait|wgmma\.wait|tcgen05\.(wait|alloc|dealloc)"
    r"|fence|membar|griddep|setmaxnreg|nanosleep|activemask"
    r"|(ld|st|atom|red|multimem)\S*\.(volatile|relaxed|acquire|release|acq_rel|mmio)"
)
_IS_ORDERED = re.compile(r"(bar|barrier)\.|mbarrier|cp\.|(red|st)\.async|wgmma|tcgen05|prefetch|discard")
_CLOCK = re.compile(r"%(clock|globaltimer)")


def order_of(opcode: str, text: str) -> int:
    """Where an instruction may go in straight-line code. text: its line of PTX"""
    if _IS_BRANCH.match(opcode):
        return BRANCH
    if _IS_FIXED.match(opcode) or _CLOCK.search(text):
        return FIXED
    if _IS_ORDERED.match(opcode):
        return 2 * (_SHARED_SPACE | _GLOBAL_SPACE)
    found = re.match(r"(ld|st|atom|red)", opcode)
    if not found or re.search(r"\.(param|const|nc)\b", opcode):
        return 0
    spaces = _GLOBAL_SPACE if re.search(r"\.(global|local)\b", opcode) else 0
    spaces |= _SHARED_SPACE if ".shared" in opcode else 0
    spaces = spaces or _GLOBAL_SPACE | _SHARED_SPACE
    return spaces if found[1] == "ld" else 2 * spaces


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
    }
