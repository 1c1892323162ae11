"""Who produced a value: from a store of a launch back over registers and memory, one lane at a time."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.register_types import float_types
from sglab.emulator.session_writers import Order, Source, Writer
from sglab.emulator.state import MemoryAccess, Register, lanes
from sglab.gpu.code import Instruction
from sglab.stepping.matrix_elements import element_types, shown_elements
from sglab.stepping.matrix_moves import matrix_places, matrix_source, moves_8x8, tensor_cells
from sglab.stepping.shuffles import shuffled

_GUARD = re.compile(r"@(!?)([%$\w.]+)\s+")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_LARGE = 1 << 40  # what is larger is a pointer
_VIEWED = {("f16", 2): np.float16, ("f32", 4): np.float32, ("f64", 8): np.float64}
_WORD = re.compile(r"[%$A-Za-z_][\w$%]*")
_BETWEEN_LANES = ("mma.", "wmma.mma", "wgmma.", "movmatrix.", "shfl.", "redux.", "vote.", "match.", "activemask")


@dataclass(frozen=True)
class Produced:
    """An instruction on the way back from a store, before it was executed; or an asynchronous operation, by the
    instruction that issued it.

    Attributes:
        position: of the instruction in the launch, as `Session.now` counts.
        cta, warp, lane: who executed it, for the value that is followed.
        inputs: the registers that it reads, by name, in the order of its text.
        executed: False where its predicate kept the lane from it, so that a register has kept its value; that
            register is then among the inputs.
        sources: the memory that it reads for the value; empty if it reads none or it cannot be followed.
        order: of an operation, when it was carried out.
        accumulator, held: of a wgmma that adds to it, the register, and what it held at the issue: nothing that means
            anything where an earlier wgmma was still at work on it.
        result: of a wgmma, what it left in the accumulator.
        taken: of a shuffle, the register and the lane that it takes the value from.
    """

    instruction: Instruction
    position: int
    cta: int
    warp: int
    lane: int
    inputs: dict[str, Register] = field(repr=False)
    sources: tuple[Source, ...] = ()
    executed: bool = True
    order: Order | None = None
    accumulator: str = ""
    held: Any = field(default=None, repr=False)
    result: tuple[float, ...] = ()
    taken: tuple[str, int] | None = None

    @property
    def who(self) -> tuple[int, int, int]:
        """CTA, warp and lane."""
        return self.cta, self.warp, self.lane

    @property
    def between_lanes(self) -> bool:
        """Whether its result depends on registers of other lanes."""
        return self.instruction.opcode.startswith(_BETWEEN_LANES)

    def value(self, name: str, lane: int | None = None) -> Any:
        """What a register that it reads holds, of the lane that the value comes from unless another is given."""
        return self.inputs[name].values[self.lane_of(name) if lane is None else lane]

    def lane_of(self, name: str) -> int:
        """The lane whose register it reads: its own, but for what a shuffle takes."""
        return self.taken[1] if self.taken is not None and self.taken[0] == name else self.lane

    def __str__(self) -> str:
        addresses = " ".join(_BRACKETS.findall(self.instruction.text))
        types = element_types(self.instruction.opcode, self.instruction.text)
        shown = {name: _shown(self.value(name), name in addresses, types.get(name, "")) for name in self.inputs}
        values = ", ".join(f"{name}={value}{self._from(name)}" for name, value in shown.items())
        source = "".join(f", {place}" for place in self.instruction.places)
        who = f"CTA {self.cta} warp {self.warp} lane {self.lane}"
        did = "" if self.executed else ", not executed"
        did += ", carried out later" if self.order is not None else ""
        text = f"PTX line {self.instruction.ptx_line} `{self.instruction.text}`{source}"
        return f"{text} ({who}{did}): {values or 'no registers'}"

    def _from(self, name: str) -> str:
        return f" of lane {self.lane_of(name)}" if self.taken is not None and self.taken[0] == name else ""


class Producers:
    """The way back in one launch. It uses the launch's memory while it is on the way; `leave` gives it back as it was
    at the launch's start, so that two launches on the same tensors can take turns."""

    def __init__(self, launch: CapturedLaunch) -> None:
        self._session = CapturedLaunch.session(launch)
        self._code = launch.launch.kernel.code
        self._types = float_types(self._code.kernel.statements())

    def leave(self) -> None:
        """Goes to the launch's start."""
        self._session.seek(0)

    def store(self, position: int, address: int) -> Produced | None:
        """The store to an address in global memory at a position, or the copy that took effect by then; None if it is
        an atomic operation."""
        return self._written("global", address, 0, position)

    def of(self, step: Produced, name: str, lane: int | None = None) -> Produced | None:
        """The instruction that gave a register the value that a step reads; None if none did."""
        session, lane = self._session, step.lane_of(name) if lane is None else lane
        session.seek(step.position)
        pcs = self._code.kernel.writers_of(name)
        while pcs:
            stop = self._back(pcs, step.warp, step.cta)
            if stop is None:
                return None
            made = self._step(stop, step.cta, step.warp, lane, name)
            if made is not None:
                return made
        return None

    def of_memory(self, step: Produced, source: Source) -> Produced | None:
        """Who wrote memory that a step reads, the last before it; None if the launch found it there, or an atomic
        operation wrote it."""
        before = step.position if step.order is None else step.order
        return self._written(source.space, source.address, source.cta, before)

    def _written(self, space: str, address: int, cta: int, before: int | Order) -> Produced | None:
        writer = self._session.last_writer(space, address, cta, before)
        if writer is None:
            return None
        self._session.seek(writer.position)
        return self._issuing(writer) if writer.operation else self._storing(writer, space, address)

    def branches(self, step: Produced) -> list[Produced]:
        """The conditional branches that the lane of a step came to before it, first ones first."""
        session = self._session
        session.seek(0)
        pcs = [each.pc for each in self._code if each.opcode.startswith("bra") and _GUARD.match(each.text)]
        if not pcs:
            return []
        number = session.break_code(pcs, step.warp, step.cta, listed=False)
        found: list[Produced] = []
        try:
            while (stop := session.run()).reason == "breakpoint" and stop.position < step.position and stop.at:
                made = self._step(stop.at.instruction, step.cta, step.warp, step.lane, "")
                if made is not None and (not found or made.position != found[-1].position):
                    found.append(made)
        finally:
            session.unbreak(number)
        return found

    def _inputs(self, names: Iterable[str], registers: dict[str, Register]) -> dict[str, Register]:
        """Those that exist; as floats where instructions use them so, for compilers declare .b32 for these, too."""
        inputs = {name: registers[name] for name in names if name in registers}
        for name, register in inputs.items():
            dtype = _VIEWED.get((self._types.get(name, ""), register.values.itemsize))
            if dtype is not None and register.type.startswith("b"):
                inputs[name] = replace(register, values=register.values.view(dtype))
        return inputs

    def _back(self, pcs: list[int], warp: int, cta: int) -> Instruction | None:
        moves = self._session.going_back(pcs, warp, cta)
        while True:
            try:
                next(moves)
            except StopIteration as done:
                stop = done.value
                return stop.at.instruction if stop.reason == "breakpoint" and stop.at is not None else None

    def _step(self, instruction: Instruction, cta: int, warp: int, lane: int, name: str) -> Produced | None:
        """The instruction at which the session stands, that writes a register, for a lane; None if the lane is not
        there."""
        session = self._session
        for group, state in enumerate(session.warp(warp, cta).groups):
            if state.at is not instruction or not state.mask >> lane & 1:
                continue
            registers = session.registers(warp, group, cta)
            executed = _executes(instruction, registers, lane)
            names = _read(instruction) if executed else [*_guard(instruction), name]
            inputs = self._inputs(names, registers)
            if not executed:
                return Produced(instruction, session.now, cta, warp, lane, inputs, (), executed)
            if instruction.opcode.startswith("wgmma.mma_async"):
                return self._product(instruction, cta, warp, lane, name, registers)
            sources = self._sources(instruction, group, cta, warp, lane, name, registers)
            shuffles = instruction.opcode.startswith("shfl.sync.")
            taken = shuffled(instruction.text, registers, lane) if shuffles else None
            return Produced(instruction, session.now, cta, warp, lane, inputs, sources, taken=taken)
        return None

    def _product(
        self, instruction: Instruction, cta: int, warp: int, lane: int, name: str, registers: dict[str, Register]
    ) -> Produced:
        """A wgmma, for one of its accumulators."""
        now = self._session.now
        accumulators = _results(instruction)
        inputs = self._inputs(_read(instruction), registers)
        adds = any(each.type == "pred" and bool(each.values[lane]) for each in inputs.values())
        number = accumulators.index(name) if name in accumulators else 0
        made = self._session.wgmma(warp, cta, lane, number, now)
        sources, order, result = ((), None, ()) if made is None else (made.sources, made.order, made.result)
        held = registers[name].values[lane] if name in registers else None
        step = Produced(instruction, now, cta, warp, lane, inputs, sources, True, order, result=result)
        return replace(step, accumulator=name, held=held) if adds else step

    def _sources(
        self,
        instruction: Instruction,
        group: int,
        cta: int,
        warp: int,
        lane: int,
        name: str,
        registers: dict[str, Register],
    ) -> tuple[Source, ...]:
        """Where an instruction reads what goes to a lane's register."""
        opcode, results = instruction.opcode, _results(instruction)
        number = results.index(name) if name in results else 0
        if opcode.startswith("tcgen05.ld."):
            base = self._tensor_address(instruction, registers, lane)
            cells = tensor_cells(opcode, instruction.text, base, warp, lane, number)
            return tuple(self._cell(cta, *each) for each in cells)
        if not opcode.startswith(("ld.", "ldmatrix.")):
            return ()
        for space in ("shared", "global"):
            access = self._access(group, cta, warp, space)
            if access is None or access.at is not instruction:
                continue
            if opcode.startswith("ldmatrix."):
                rows = [(each, 0, access.nbytes) for each in lanes(access.lanes)]
                places = matrix_places(opcode, number, lane) if moves_8x8(opcode) else rows
            elif access.lanes >> lane & 1:
                nbytes = access.nbytes // max(len(results), 1)
                places = [(lane, number * nbytes, nbytes)]
            else:
                continue
            return tuple(
                self._source(space, cta, int(access.addresses[of]) + offset, nbytes) for of, offset, nbytes in places
            )
        return ()

    def _tensor_address(self, instruction: Instruction, registers: dict[str, Register], lane: int) -> int:
        text = instruction.text[instruction.text.index("[") + 1 :]
        parts = [each.strip() for each in text[: text.index("]")].split("+")]
        return sum(int(registers[each].values[lane]) if each in registers else int(each, 0) for each in parts)

    def _cell(self, cta: int, lane: int, column: int) -> Source:
        memory = self._session.tensor_memory(cta)
        data = b"" if memory is None else memory.cells[column, lane].tobytes()
        return Source("tensor", cta, lane << 16 | column, data)

    def _source(self, space: str, cta: int, address: int, nbytes: int) -> Source:
        if space == "global":
            return Source(space, 0, address, ctypes.string_at(address, nbytes))
        owner, offset = self._owner(cta, address >> 24), address & 0xFFFFFF
        return Source(space, owner, offset, self._session.shared(owner)[offset : offset + nbytes].tobytes())

    def _owner(self, cta: int, rank: int) -> int:
        """The CTA of this rank in the cluster of another."""
        running = self._session.ctas
        cluster = next(each.cluster for each in running if each.linear == cta)
        return next((each.linear for each in running if each.cluster == cluster and each.rank == rank), cta)

    def _access(self, group: int, cta: int, warp: int, space: str) -> MemoryAccess | None:
        session = self._session
        return (session.shared_access if space == "shared" else session.global_access)(warp, group, cta)

    def _issuing(self, writer: Writer) -> Produced | None:
        """The instruction before which the session stands, that has issued an operation."""
        session = self._session
        for group, state in enumerate(session.warp(writer.warp, writer.cta).groups):
            if state.at is not writer.instruction or (writer.lanes and not writer.lanes & state.mask):
                continue
            lane = lanes(writer.lanes or state.mask)[0]
            registers = session.registers(writer.warp, group, writer.cta)
            names = dict.fromkeys(_WORD.findall(writer.instruction.text))
            inputs = self._inputs(names, registers)
            return Produced(
                writer.instruction,
                session.now,
                writer.cta,
                writer.warp,
                lane,
                inputs,
                writer.sources,
                order=writer.order,
            )
        return None

    def _storing(self, writer: Writer, space: str, address: int) -> Produced | None:
        """The store before which the session stands, by the lane that writes to an address; only the register that goes
        there is among its inputs, and its predicate."""
        session, cta, warp, opcode = self._session, writer.cta, writer.warp, writer.instruction.opcode
        if not opcode.startswith(("st.", "stmatrix.", "tcgen05.st.")):
            return None
        for group, state in enumerate(session.warp(warp, cta).groups):
            if state.at is not writer.instruction:
                continue
            lane, registers = lanes(writer.lanes)[-1], session.registers(warp, group, cta)
            text = writer.instruction.text
            values = _WORD.findall(text[text.rindex("]") :])
            number = 0
            if opcode.startswith("tcgen05.st."):
                number = writer.element
            else:
                access = self._access(group, cta, warp, space)
                if access is None:
                    continue
                offset = address - (int(access.addresses[lane]) & (0xFFFFFF if space == "shared" else -1))
                if opcode.startswith("st."):
                    number = offset * len(values) // access.nbytes
                elif moves_8x8(opcode):
                    number, lane = matrix_source(opcode, lane, offset)
                else:
                    return None
            stored = values[number] if number < len(values) else ""
            inputs = self._inputs([*_guard(writer.instruction), stored], registers)
            return Produced(writer.instruction, session.now, cta, warp, lane, inputs)
        return None


def _executes(instruction: Instruction, registers: dict[str, Register], lane: int) -> bool:
    guard = _GUARD.match(instruction.text)
    if guard is None or guard[2] not in registers:
        return True
    return bool(registers[guard[2]].values[lane]) != (guard[1] == "!")


def _guard(instruction: Instruction) -> list[str]:
    guard = _GUARD.match(instruction.text)
    return [guard[2]] if guard else []


def _read(instruction: Instruction) -> list[str]:
    """Names in the text of an instruction that has a result, in order: its predicate, then what follows the result."""
    text = instruction.text
    guard = _GUARD.match(text)
    body = text[guard.end() :] if guard else text
    end = body.find("}") if body.split(None, 1)[-1].startswith("{") else -1
    rest = body[body.find(",", max(end, 0)) :]
    return list(dict.fromkeys([*_guard(instruction), *_WORD.findall(rest)]))


def _results(instruction: Instruction) -> Sequence[str]:
    """The registers that it writes, in the order of its text."""
    body = instruction.text.split(instruction.opcode, 1)[-1].lstrip()
    end = body.find("}") if body.startswith("{") else body.find(",")
    return _WORD.findall(body[: max(end, 0)])


def _shown(value: Any, address: bool, elements: str) -> str:
    if elements and (text := shown_elements(value, elements)) is not None:
        return text
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "f":
        return f"{value:.9g}"
    return f"{int(value):#x}" if kind in "iu" and (address or value >= _LARGE) else str(value)
