"""NaN made visible as it spreads: which instruction made the first one, who read it, where it went.

A launch is run again with every float that registers, shared, tensor and global memory exchange looked at. Nothing is
assumed: an event is an instruction or operation that read or wrote a NaN, and its parents are the events that wrote
what it read, found by registers and addresses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.nan_kinds import copied_kind, moved_registers, register_kinds, tensor_kinds
from sglab.emulator.nan_pairs import Pairs
from sglab.emulator.session import Session
from sglab.gpu import core
from sglab.gpu.arguments import Held
from sglab.gpu.code import Instruction

MOST = 20_000
INSTRUCTION, OPERATION, FILLED = range(3)
SPACES = ("global", "shared", "tensor")
ROLES = {
    "made": "made here: nothing that it read was NaN",
    "came": "came in from outside: an input held it",
    "spread": "made NaN out of NaN that it read",
    "stored": "stored to memory",
    "stopped": "read here and gone: the result is no NaN",
}
LINE_LANES = 128 * 512


@dataclass(frozen=True)
class Place:
    """Bytes of memory that held NaN.

    Attributes:
        space: global, shared or tensor.
        address: global: the host's; shared: offset in the CTA's window, with its rank above bit 24; tensor: (rank * 512
            + column) * 128 + lane.
        count: bytes; of tensor memory, lanes.
        written: by the event; else read.
        text: in words: a tensor's name and element, `smem+0x400`, `tmem[0–31,64]`.
    """

    space: str
    address: int
    count: int
    written: bool
    text: str


@dataclass(frozen=True)
class NanEvent:
    """An instruction of one warp, or an asynchronous operation, that read or wrote NaN.

    Attributes:
        number: in the order of effects.
        role: made, came, spread, stored or stopped: see ROLES.
        position: warp-instructions of the launch before it, as `Session.now` counts; of an operation, before its issue.
        cta, warp: who executed or issued it.
        lanes_read, lanes_written: bit masks of lanes; of an operation, numbers of elements.
        instruction: which.
        kind: "instruction", "operation" (carried out asynchronously) or "filled" (registers that a wait made readable).
        read, written: registers that held NaN.
        places: memory that did.
        parents: numbers of the events that wrote what it read.
        made: lanes that made one out of none, where others made theirs out of one that they read.
    """

    number: int
    role: str
    position: int
    cta: int
    warp: int
    lanes_read: int
    lanes_written: int
    instruction: Instruction
    kind: str
    read: tuple[str, ...]
    written: tuple[str, ...]
    places: tuple[Place, ...]
    parents: tuple[int, ...]
    made: int = 0


class NanTrace(Sequence[NanEvent]):
    """Where NaN was met in one run, in the order of effects.

    Attributes:
        launch: what was run.
        truncated: there were more events than were kept.
        infinite: whether infinities were followed, too.
    """

    def __init__(self, launch: Any, events: Sequence[NanEvent], truncated: bool, infinite: bool) -> None:
        self.launch, self.truncated, self.infinite = launch, truncated, infinite
        self._events = tuple(events)

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, number: Any) -> Any:
        return self._events[number]

    @property
    def first(self) -> NanEvent | None:
        """The first NaN: made by an instruction, or come in from outside."""
        return next((event for event in self._events if event.role in ("made", "came")), None)

    @property
    def origins(self) -> list[NanEvent]:
        """Every event that made a NaN or took one in."""
        return [event for event in self._events if event.role in ("made", "came") or event.made]

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Events by the events that they read from."""
        found: dict[int, list[int]] = {}
        for event in self._events:
            for parent in event.parents:
                found.setdefault(parent, []).append(event.number)
        return found

    def way(self, number: int) -> list[NanEvent]:
        """The shortest way from an origin to an event, both included: each read what the one before had written."""
        before: dict[int, int] = {number: -1}
        layer = [number]
        while layer:
            for each in layer:
                if not self._events[each].parents:
                    way = []
                    while each >= 0:
                        way.append(self._events[each])
                        each = before[each]
                    return way
            following = [(parent, each) for each in layer for parent in self._events[each].parents]
            layer = []
            for parent, each in following:
                if parent not in before:
                    before[parent] = each
                    layer.append(parent)
        return [self._events[number]]

    def __repr__(self) -> str:
        return f"<NanTrace: {len(self)} events, {len(self.origins)} origins>"


def find_nans(launch: Capture | CapturedLaunch | Session, *, infinite: bool = False, most: int = MOST) -> NanTrace:
    """Runs a launch again and finds where NaN was met.

    Args:
        launch: what `sglab.trace`, `gpu.capture` or `sglab.step` returns; tensors have their values again afterwards,
            and a session is where it was.
        infinite: follow infinities as well.
        most: events that are kept; later ones are not looked at.

    Raises:
        TypeError: it is none of these.
        KernelError: the kernel failed.
    """
    if isinstance(launch, Capture):
        launch = launch.main
    if isinstance(launch, Session):
        now = launch.now
        launch.seek(0)
        device: Any = launch.device
        held = CapturedLaunch.prepared(device, launch.launch)
        try:
            return _run(held, launch.launch, infinite, most)
        finally:
            held.restore()
            launch.seek(now)
    if not isinstance(launch, CapturedLaunch):
        raise TypeError(
            "launch must be what sglab.trace, gpu.capture or sglab.step returns; got "
            f"{type(launch).__name__}: for your own launches call gpu.capture(function)"
        )
    held = CapturedLaunch.prepared(launch.device, launch.launch)
    launch.restore()
    try:
        return _run(launch, launch.launch, infinite, most)
    finally:
        held.restore()


def _run(held: CapturedLaunch, launch: Any, infinite: bool, most: int) -> NanTrace:
    device: Any = held.device
    statements = launch.kernel.code.kernel.statements()
    kinds = register_kinds(statements)
    copied = copied_kind(kinds)
    kinds = {**dict.fromkeys(moved_registers(statements, kinds), "moved"), **kinds}
    _, columns = device.nans(launch, kinds, tensor_kinds(launch), copied, infinite, most)
    return NanTrace(held, _Reader(launch, columns).events(), bool(columns["truncated"]), infinite)


REGISTER = re.compile(r"%\w+")
OF_A_LANE = ("compute", "halves", "convert pair")
"""How what a lane writes follows from what it read: from its own registers."""


class _Reader:
    """From columns to events with their parents."""

    def __init__(self, launch: Any, columns: Any) -> None:
        self._code, self._allocations, self._tensors = launch.kernel.code, launch.allocations, launch.tensors
        self._columns = columns
        self._operands: dict[int, list[tuple[int, int, bool, int]]] = {}
        table = columns["operands"]
        for event, register, lanes, written, warp in zip(
            *(table[name].tolist() for name in ("event", "register", "lanes", "written", "warp")), strict=True
        ):
            self._operands.setdefault(event, []).append((register, lanes, bool(written), warp))
        self._memory: dict[int, list[Any]] = {}
        table = columns["memory"]
        names = ("event", "lane", "address", "bytes", "cluster", "space", "written")
        for event, *row in zip(*(table[name].tolist() for name in names), strict=True):
            self._memory.setdefault(event, []).append(tuple(row))
        self._registers: dict[tuple[int, int, int], dict[int, int]] = {}  # (cta, warp, register) -> lane -> event
        self._bytes: dict[tuple[int, int], dict[int, int]] = {}  # (space, cluster) -> unit -> event
        self._issued: dict[tuple[int, int], int] = {}  # (cta, pc) -> last operation
        self._pairs = Pairs(launch.kernel.code.kernel.statements())
        self._packed: dict[tuple[int, int, str], dict[int, int]] = {}  # (cta, warp, pair) -> lane -> event
        # Compilers pack what a load from tensor memory brings before its wait: whence is known only at the wait.
        self._early: dict[tuple[int, int, str], int] = {}  # (cta, warp, register) -> event
        self._late: dict[int, set[int]] = {}  # event -> parents
        # Local memory has no addresses here: of a lane's earlier stores the last of each instruction counts.
        self._local: dict[tuple[int, int, int], dict[int, int]] = {}  # (cta, warp, lane) -> pc -> event

    def events(self) -> list[NanEvent]:
        table = self._columns["events"]
        names = ("position", "pc", "cta", "warp", "in", "out", "kind")
        rows = zip(*(table[name].tolist() for name in names), strict=True)
        events = [self._event(number, *row) for number, row in enumerate(rows)]
        for number, parents in self._late.items():
            events[number] = replace(events[number], parents=tuple(sorted(parents)))
        return events

    def _event(
        self, number: int, position: int, pc: int, cta: int, warp: int, lanes_in: int, lanes_out: int, kind: int
    ) -> NanEvent:
        operands = self._operands.get(number, [])
        memory = self._with_nan(self._code[pc], operands, self._memory.get(number, []))
        parents: set[int] = set()
        for register, lanes, written, of_warp in operands:
            if not written:
                known = self._registers.get((cta, of_warp, register), {})
                parents.update(known[lane] for lane in _lanes(lanes) if lane in known)
        for _, address, count, cluster, space, written in memory:
            if not written:
                parents |= self._written_before(space, cluster, address, count)
        if kind == FILLED and not parents and (cta, pc) in self._issued:
            parents.add(self._issued[cta, pc])
        instruction = self._code[pc]
        pair = self._pairs.packed(instruction.text) if kind == INSTRUCTION else ""
        if kind == INSTRUCTION:
            parents |= self._out_of_sight(instruction, cta, warp, lanes_out)
        role = self._role(instruction, kind, lanes_in, lanes_out, memory, parents)
        if pair:
            role = "spread"
            self._packed.setdefault((cta, warp, pair), {}).update(dict.fromkeys(_lanes(lanes_in), number))
        if parents and instruction.opcode.startswith(("st.local.", "wmma.store.")):
            role = "stored"
        if instruction.opcode.startswith("st.local."):
            for lane in _lanes(lanes_in):
                self._local.setdefault((cta, warp, lane), {})[pc] = number
        for register, lanes, written, of_warp in operands:
            if written:
                self._registers.setdefault((cta, of_warp, register), {}).update(dict.fromkeys(_lanes(lanes), number))
        for _, address, count, cluster, space, written in memory:
            if written:
                known = self._bytes.setdefault((space, cluster if space else 0), {})
                known.update(dict.fromkeys(_units(space, address, count), number))
        if kind == OPERATION:
            self._issued[cta, pc] = number
        names = self._columns["registers"]
        named = dict.fromkeys((names[register], written) for register, _, written, _ in operands)
        for name, written in named:
            if pair and not parents and not written:
                self._early[cta, warp, name] = number
            elif kind == FILLED and (early := self._early.pop((cta, warp, name), None)) is not None:
                self._late.setdefault(early, set()).update(parents)
        apart = self._pairs.unpacked(instruction.text) if kind == INSTRUCTION and parents else ""
        return NanEvent(
            number, role, position, cta, warp, lanes_in, lanes_out, instruction,
            ("instruction", "operation", "filled")[kind],
            (apart,) if apart else tuple(name for name, written in named if not written),
            (pair,) if pair else tuple(name for name, written in named if written),
            self._places(memory),
            tuple(sorted(parents)),
            self._made(instruction, kind, lanes_in, lanes_out, memory) if role == "spread" else 0,
        )  # fmt: skip

    def _out_of_sight(self, instruction: Instruction, cta: int, warp: int, lanes: int) -> set[int]:
        """Who wrote the NaN that an instruction took out of local memory or out of a pair of floats."""
        if instruction.opcode.startswith("ld.local."):
            return {event for lane in _lanes(lanes) for event in self._local.get((cta, warp, lane), {}).values()}
        pair = self._pairs.unpacked(instruction.text)
        for each in self._pairs.behind(pair) if pair else []:
            known = self._packed.get((cta, warp, each), {})
            if found := {known[lane] for lane in _lanes(lanes) if lane in known}:
                return found
        return set()

    @staticmethod
    def _made(instruction: Instruction, kind: int, lanes_in: int, lanes_out: int, memory: list[Any]) -> int:
        """Lanes of which each computes with its own registers alone, and had no NaN in them."""
        effects = core.instruction_effects(instruction.opcode)
        alone = kind == INSTRUCTION and not memory and effects is not None and effects.taint in OF_A_LANE
        return lanes_out & ~lanes_in if alone and lanes_in else 0

    def _with_nan(self, instruction: Instruction, operands: list[Any], memory: list[Any]) -> list[Any]:
        """What an access moved that is NaN. Of an ldmatrix the rows with one: row j of matrix i is in lanes 4j to
        4j + 3 of the i-th register (PTX ISA, "ldmatrix"). Transposed, a lane holds parts of two rows, and all rows
        count."""
        opcode = instruction.opcode
        if not opcode.startswith("ldmatrix.") or ".m8n8." not in opcode or ".trans." in opcode:
            return memory
        order = REGISTER.findall(instruction.text)
        names, rows = self._columns["registers"], 0
        for register, lanes, written, _ in operands:
            if written:
                for j in range(8):
                    rows |= bool(lanes >> 4 * j & 15) << 8 * order.index(names[register]) + j
        return [row for row in memory if rows >> row[0] & 1]

    def _written_before(self, space: int, cluster: int, address: int, count: int) -> set[int]:
        known = self._bytes.get((space, cluster if space else 0), {})
        return {known[unit] for unit in _units(space, address, count) if unit in known} if known else set()

    def _role(
        self, instruction: Instruction, kind: int, lanes_in: int, lanes_out: int, memory: list[Any], parents: set[int]
    ) -> str:
        loads = any(not row[-1] for row in memory) or instruction.opcode.startswith(("ld.", "wmma.load."))
        if parents:
            if lanes_out and (kind != OPERATION or not any(row[-1] for row in memory)):
                return "spread"
            if any(row[-1] for row in memory):
                return "stored" if kind == INSTRUCTION else "spread"
            return "stopped"
        if loads or (lanes_in and lanes_out):
            return "came"
        if lanes_out:
            return "made"
        return "stored" if any(row[-1] for row in memory) else "stopped"

    def _places(self, memory: list[tuple[int, int, int, int, int, bool]]) -> tuple[Place, ...]:
        """Neighbouring bytes as one place; columns of tensor memory stay apart."""
        stretches: list[list[Any]] = []
        for written, space, address, count in sorted({(row[5], row[4], row[1], row[2]) for row in memory}):
            last = stretches[-1] if stretches else None
            if last and last[:2] == [written, space] and space < 2 and address <= last[2] + last[3]:
                last[3] = max(last[3], address + count - last[2])
            else:
                stretches.append([written, space, address, count])
        return tuple(
            Place(SPACES[space], address, count, written, self._words(space, address, count))
            for written, space, address, count in stretches
        )

    def _words(self, space: int, address: int, count: int) -> str:
        if space == 2:
            cell, rank = divmod(address, 128)[0] % 512, address // LINE_LANES
            lane = address % 128
            lanes = str(lane) if count == 1 else f"{lane}–{lane + count - 1}"
            return f"tmem[{lanes},{cell}]" + (f" of rank {rank}" if rank else "")
        if space == 1:
            rank = address >> 24
            return f"smem+0x{address & 0xFFFFFF:x}" + (f" of rank {rank}" if rank else "") + _extent(count)
        for held in self._tensors:
            if text := _elements(held, address, count):
                return text
        for each in self._allocations:
            if each.address <= address < each.address + each.nbytes:
                name = each.name.split(" (")[0]
                return f"{name}+0x{address - each.address:x}" + _extent(count)
        return f"global 0x{address:x}" + _extent(count)


def _elements(held: Held, address: int, count: int) -> str:
    """ "out[2, 64:96]" of bytes that are whole elements of one row of a tensor whose rows lie after each other."""
    tensor, offset = held.tensor, address - held.address
    if not hasattr(tensor, "is_contiguous") or not tensor.is_contiguous() or not tensor.dim() or not tensor.numel():
        return ""
    first, within = divmod(offset, tensor.element_size())
    many, rest = divmod(count, tensor.element_size())
    if within or rest or not 0 <= first < tensor.numel():
        return ""
    *row, column = (int(i) for i in np.unravel_index(first, tensor.shape))
    if column + many > tensor.shape[-1]:
        return ""
    last = str(column) if many == 1 else f"{column}:{column + many}"
    return f"{held.name.split(' (')[0]}[{', '.join([*map(str, row), last])}]"


def _extent(count: int) -> str:
    return f" ({count} bytes)" if count > 8 else ""


def _lanes(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def _units(space: int, address: int, count: int) -> range:
    """Bytes in pairs, lanes one by one."""
    return range(address, address + count) if space == 2 else range(address // 2, (address + count + 1) // 2)
