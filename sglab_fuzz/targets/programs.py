"""Random programs over every row of the table, under all schedulers and sanitizers, recorded and stepped."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np

from sglab import _core
from sglab_fuzz import operand_templates as operands
from sglab_fuzz.target import Finding
from tests.support.emulator.launching import parameters

SCHEDULERS = ("fair", "random", "adversarial", "in_order")
DETECTORS = ("memory", "races", "tensor", "barriers")
MOST_INSTRUCTIONS = 20_000
GRIDS = ((1, 32, 1), (1, 64, 1), (2, 96, 1), (2, 128, 2), (4, 256, 2), (1, 40, 1), (3, 33, 1))
"""CTAs, threads and CTAs of a cluster."""
MAPS = ("tile", "tile", "im2col", "im2col::w", "im2col::w::128")
PURE = ("Integer arithmetic", "Logic", "f32 and f64", "f16 and bf16", "Comparison", "Conversion", "Data movement")
START = """ld.param.u64 %d10, [out];
ld.param.u64 %d11, [map];
mov.u32 %r120, sm;
mov.u32 %r121, 0;
mov.u32 %r122, %tid.x;
mad.lo.u32 %r0, %r122, 0x9E3779B1, 0x85EBCA6B;
mad.wide.u32 %d0, %r122, 64, %d10;
setp.eq.u32 %p0, %r122, 0;
mov.u32 %r1, %laneid;
mov.b64 %d1, {%r0, %r1};
"""
HEAP = """.extern .func (.param .b64 r) malloc (.param .b64 s);
.extern .func free (.param .b64 p);
"""
BARRIERS = """@%p0 mbarrier.init.shared.b64 [mb], 1;
@%p0 mbarrier.init.shared.b64 [mc], 4;
bar.sync 0;
"""


def _seeded(rng: random.Random) -> list[str]:
    """Registers with numbers of all sizes, so that addresses and lengths are now and then wild."""
    values = [0, 1, 2, 4, 16, 31, 64, 127, 4096, 0xFFFFFFFF, 0x80000000, 0x7F800000, 0x3F800000]
    lines = []
    for name, bits, count in (("%h", 16, 9), ("%r", 32, 30), ("%d", 64, 8)):
        for k in range(2, count):
            value = rng.choice(values) if rng.random() < 0.6 else rng.getrandbits(bits)
            lines.append(f"mov.b{bits} {name}{k}, {value % (1 << bits):#x};\n")
    return lines


def program(rng: random.Random, pure: bool) -> str:
    """A program's text; its first line says how it is launched."""
    ctas, threads, cluster = rng.choice(GRIDS)
    lines = [f"// {ctas} {threads} {cluster} {'pure' if pure else 'wild'} {rng.getrandbits(16)}\n"]
    lines += [operands.HEADER, "" if pure else HEAP, operands.DECLARATIONS, operands.TARGETS, START]
    lines += _seeded(rng)
    if not pure:
        lines.append(BARRIERS)
    labels = 0
    for _ in range(rng.choice([4, 10, 25, 60])):
        kind = rng.random()
        if kind < 0.08:
            lines.append(f"@%p{rng.randrange(1, 9)} bra E{labels};\n")
        elif kind < 0.12 and labels < 6:
            lines.append(f"E{labels}:\n")
            labels += 1
        elif kind < 0.14:
            lines.append(f"setp.ne.u32 %p{rng.randrange(1, 9)}, %r{rng.randrange(30)}, %r1;\n")
        elif kind < 0.17 and not pure:
            lines.append(heap_call(rng))
        else:
            lines.append(statement(rng, pure))
    lines.append(f"E{labels}:\nLABEL:\n")
    if pure:
        lines.append("mov.u32 %r122, %tid.x;\nmov.u32 %r123, %ctaid.x;\nmov.u32 %r124, %ntid.x;\n")
        lines.append("mad.lo.u32 %r122, %r123, %r124, %r122;\nld.param.u64 %d19, [out];\n")
        lines.append("mad.wide.u32 %d18, %r122, 64, %d19;\n")
        lines += [f"st.global.b32 [%d18+{4 * k}], %r{rng.randrange(30)};\n" for k in range(8)]
        lines += [f"st.global.b64 [%d18+{32 + 8 * k}], %d{rng.randrange(8)};\n" for k in range(4)]
    lines.append("ret;\n}\n")
    return "".join(lines)


def statement(rng: random.Random, pure: bool) -> str:
    rows = pure_rows() if pure else operands.table()
    mnemonic, kinds = rng.choice(rng.choice(rows))
    guard = rng.choice(["", "", "", "", f"@%p{rng.randrange(9)} ", f"@!%p{rng.randrange(9)} "])
    if mnemonic.startswith("brx."):  # a guarded one is refused
        guard = ""
    text = operands.written(kinds, rng)
    if not pure and rng.random() < 0.15:
        text = text.replace(
            "[%d10]", rng.choice(["[%d0]", "[%d1]", "[gl]", "[%d10+4088]", "[%d10+-16]", "[%d10+8192]"])
        )
        text = text.replace("[sm]", rng.choice(["[%r120]", "[sm+8]", "[sm+8176]", "[%r2]", "[sm+-16]", "[mc]"]))
        text = text.replace("[%r121]", rng.choice(["[%r3]", "[%r121]", "[%r122]"]))
    return f"{guard}{mnemonic} {text};\n"


def heap_call(rng: random.Random) -> str:
    """malloc of some or of wild size, with a store to what it gave, or free of that, of a part or of anything."""
    register = rng.randrange(2, 5)  # few, so that blocks are freed, and now and then twice
    if rng.random() < 0.6:
        size = rng.choice([f"mov.u64 %d9, {rng.choice([0, 1, 16, 24, 100, 4096, 1 << 20])};", "mov.b64 %d9, %d7;"])
        call = f"st.param.b64 [s], %d9; call (q), malloc, (s); ld.param.b64 %d{register}, [q];"
        use = rng.choice(["", f"st.global.b32 [%d{register}+{rng.choice([0, 4, 12, 16, -8])}], %r0;"])
        return f"{{ .param .b64 s; .param .b64 q; {size} {call} {use} }}\n"
    pointer = rng.choice([f"mov.b64 %d9, %d{register};", f"add.u64 %d9, %d{register}, 16;", "mov.b64 %d9, %d10;"])
    return f"{{ .param .b64 p; {pointer} st.param.b64 [p], %d9; call free, (p); }}\n"


@cache
def pure_rows() -> tuple[Any, ...]:
    """Rows whose instructions compute from registers alone."""
    families = _core.instruction_forms()
    opcodes = {p.split(".")[0].split("[")[0] for family, p, _ in families if family.startswith(PURE)}
    found = []
    for row in operands.table():
        effects = _core.instruction_effects(row[0][0])
        if row[0][0].split(".")[0] in opcodes and effects is not None and not effects.act:
            found.append(row)
    return tuple(found)


class Programs:
    """Pure programs give the same memory however they run; wild ones must only not harm the process."""

    name = "programs"
    unit = "programs"

    def __init__(self) -> None:
        """The memory is the same in every run: programs compute with its addresses."""
        self.memory = np.zeros(1 << 15, np.uint32)
        whole = np.zeros(128 + 64, np.uint8)
        place = -whole.ctypes.data % 64
        self.map = whole[place : place + 128]

    def make(self, rng: random.Random, number: int) -> str:
        return program(rng, pure=rng.random() < 0.3)

    def run(self, text: str) -> int:
        first, _, _ = text.partition("\n")
        words = first.removeprefix("// ").split()
        ctas, threads, cluster, kind, seed = int(words[0]), int(words[1]), int(words[2]), words[3], int(words[4])
        try:
            kernel = _core.Module(text).kernel("k")
        except _core.PtxError:
            return 1
        if kernel.unsupported:
            return 1
        shape = ((ctas, 1, 1), (threads, 1, 1), (cluster, 1, 1))
        if kind == "pure":
            self._pure(kernel, shape, seed)
            return len(SCHEDULERS) + 3
        return self._wild(kernel, shape, seed)

    def _pure(self, kernel: Any, shape: Any, seed: int) -> None:
        seen: dict[str, bytes] = {}
        for scheduler in SCHEDULERS:
            seen[scheduler] = self._run(kernel, shape, scheduler, seed, 1, None, "launch")
        seen["sanitized"] = self._run(kernel, shape, "fair", seed, 1, DETECTORS, "launch")
        seen["on two threads"] = self._run(kernel, shape, "fair", seed, 2, None, "launch")
        seen["recorded"] = self._run(kernel, shape, "fair", seed, 2, None, "record")
        for way, memory in seen.items():
            if memory != seen["fair"]:
                raise Finding(f"pure program differs: {way} gives other memory than fair")

    def _wild(self, kernel: Any, shape: Any, seed: int) -> int:
        rng = random.Random(seed)
        detectors = tuple(d for d in DETECTORS if rng.random() < 0.6)
        for how in ("launch", rng.choice(["record", "session"])):
            self._run(kernel, shape, rng.choice(SCHEDULERS), seed, rng.choice([1, 1, 2]), detectors, how)
        return 2

    def _run(self, kernel: Any, shape: Any, scheduler: str, seed: int, threads: int, detectors: Any, how: str) -> bytes:
        memory = self.memory
        memory[:] = np.arange(len(memory), dtype=np.uint32) * np.uint32(2654435761)
        self.map[:] = self._map(memory, MAPS[seed % len(MAPS)])
        _core.reset_device_heap()
        buffer, allocations = parameters(kernel, [memory, self.map, ("u", 7)])
        machine = _core.Machine("sm_100a", 2, threads, scheduler, seed)
        sanitizer = _core.sanitizer(list(detectors), False, _core.MarkedMemory()) if detectors else None
        whole = (kernel, *shape, 0, buffer, allocations, MOST_INSTRUCTIONS, sanitizer)
        try:
            if how == "launch":
                machine.launch(*whole)
            elif how == "record":
                machine.record(*whole, True)
            else:
                session = machine.session(*whole)
                session.run(MOST_INSTRUCTIONS)
                session.seek(min(session.ticks, 40))
                session.step(5)
                for cta in session.ctas()[:1]:
                    session.warp(cta[0], 0)
                    session.mbarriers(cta[0])
        except (_core.LaunchError, ValueError):
            return b"error"
        if sanitizer is not None:
            sanitizer.findings()
        return memory.tobytes()

    def _map(self, memory: np.ndarray, mode: str) -> np.ndarray:
        address = -(-memory.ctypes.data // 16) * 16
        if mode == "tile":
            encoded = _core.tma.encode_tiled(7, address, [32, 16, 2], [128, 2048], [16, 4, 1], [1, 1, 1])
        else:
            wide = None if mode == "im2col" else int(mode == "im2col::w::128")
            shape = [32, 8, 4], [128, 1024], [-1], [-1], 16, 0 if wide else 8, [1, 1, 1]
            encoded = _core.tma.encode_im2col(7, address, *shape, swizzle=0 if wide is None else 2, wide_mode=wide)
        return np.frombuffer(encoded, np.uint8)


def target(device: str) -> Programs:
    return Programs()
