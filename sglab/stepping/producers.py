"""Who produced a value: from a store of a launch back over registers and memory, one lane at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.state import MemoryAccess, Register
from sglab.gpu.code import Instruction
from sglab.stepping.first_store import Span

_GUARD = re.compile(r"@(!?)([%$\w.]+)\s+")
_WORD = re.compile(r"[%$A-Za-z_][\w$%]*")
_BETWEEN_LANES = ("mma.", "shfl.", "redux.", "vote.", "match.", "activemask")


@dataclass(frozen=True)
class Produced:
    """An instruction on the way back from a store, before it was executed.

    Attributes:
        position: of the instruction in the launch, as `Session.now` counts.
        cta, warp, lane: who executed it, for the value that is followed.
        inputs: the registers that it reads, by name, in the order of its text.
        executed: False where its predicate kept the lane from it, so that a register has kept its value; that
            register is then among the inputs.
        address: of the bytes in memory that it reads; None if it reads none or they cannot be followed.
    """

    instruction: Instruction
    position: int
    cta: int
    warp: int
    lane: int
    inputs: dict[str, Register] = field(repr=False)
    address: int | None = None
    executed: bool = True

    @property
    def who(self) -> tuple[int, int, int]:
        """CTA, warp and lane."""
        return self.cta, self.warp, self.lane

    @property
    def between_lanes(self) -> bool:
        """Whether its result depends on registers of other lanes."""
        return self.instruction.opcode.startswith(_BETWEEN_LANES)

    def value(self, name: str, lane: int | None = None) -> Any:
        """What a register that it reads holds, of its own lane unless another is given."""
        return self.inputs[name].values[self.lane if lane is None else lane]

    def __str__(self) -> str:
        values = ", ".join(f"{name}={_shown(self.value(name))}" for name in self.inputs)
        source = "".join(f", {place}" for place in self.instruction.places)
        who = f"CTA {self.cta} warp {self.warp} lane {self.lane}"
        did = "" if self.executed else ", not executed"
        text = f"PTX line {self.instruction.ptx_line} `{self.instruction.text}`{source}"
        return f"{text} ({who}{did}): {values or 'no registers'}"


class Producers:
    """The way back in one launch. It uses the launch's memory while it is on the way; `leave` gives it back as it was
    at the launch's start, so that two launches on the same tensors can take turns."""

    def __init__(self, launch: CapturedLaunch) -> None:
        self._session = CapturedLaunch.session(launch)
        self._code = launch.launch.kernel.code

    def leave(self) -> None:
        """Goes to the launch's start."""
        self._session.seek(0)

    def store(self, position: int, address: int) -> Produced | None:
        """The store to an address at a position; None if it is not a plain one by a lane of a warp."""
        self._session.seek(position + 1)
        return self._stored(address, "global", 0)

    def of(self, step: Produced, name: str, lane: int | None = None) -> Produced | None:
        """The instruction that gave a register the value that a step reads; None if none did."""
        session, lane = self._session, step.lane if lane is None else lane
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

    def of_memory(self, step: Produced) -> Produced | None:
        """The store to the bytes that a step reads, the last before it; None if the launch found them there, or an
        asynchronous operation wrote them."""
        if step.address is None:
            return None
        self._session.seek(step.position)
        return self._stored(step.address, "shared" if ".shared" in step.instruction.opcode else "global", step.cta)

    def _stored(self, address: int, space: str, cta: int) -> Produced | None:
        """The last store to an address before now."""
        session = self._session
        watch = session.watch(address & 0xFFFFFF, 1, cta=cta) if space == "shared" else session.watch(Span(address, 1))
        try:
            stop = session.run_back()
        finally:
            session.unbreak(watch)
        if stop.reason != "breakpoint" or stop.at is None:
            return None
        return self._storing(stop.at.cta, stop.at.warp, address, space)

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
            inputs = {each: registers[each] for each in names if each in registers}
            address = self._address(instruction, group, cta, warp, lane, name) if executed else None
            return Produced(instruction, session.now, cta, warp, lane, inputs, address, executed)
        return None

    def _address(self, instruction: Instruction, group: int, cta: int, warp: int, lane: int, name: str) -> int | None:
        """Where a lane's own load reads what goes to a register."""
        if not instruction.opcode.startswith("ld."):
            return None
        access = self._access(group, cta, warp, "shared" if ".shared" in instruction.opcode else "global")
        if access is None or not access.lanes >> lane & 1:
            return None
        results = _WORD.findall(instruction.text[: instruction.text.rindex("[")].split(instruction.opcode)[-1])
        offset = results.index(name) * access.nbytes // len(results) if name in results else 0
        return int(access.addresses[lane]) + offset

    def _access(self, group: int, cta: int, warp: int, space: str) -> MemoryAccess | None:
        session = self._session
        return (session.shared_access if space == "shared" else session.global_access)(warp, group, cta)

    def _storing(self, cta: int, warp: int, address: int, space: str) -> Produced | None:
        """The store before which the session stands, by the lane that writes to an address; only the register that goes
        there is among its inputs, and its predicate."""
        session = self._session
        for group, state in enumerate(session.warp(warp, cta).groups):
            access = self._access(group, cta, warp, space)
            if access is None or access.at is not state.at or not access.at.opcode.startswith("st."):
                continue
            hits = [
                lane for lane in range(32)
                if access.lanes >> lane & 1 and 0 <= address - int(access.addresses[lane]) < access.nbytes
            ]  # fmt: skip
            if not hits:
                continue
            lane, registers = hits[-1], session.registers(warp, group, cta)
            text = access.at.text
            values = _WORD.findall(text[text.rindex("]") :])
            offset = address - int(access.addresses[lane])
            stored = values[offset * len(values) // access.nbytes] if values else ""
            inputs = {name: registers[name] for name in [*_guard(access.at), stored] if name in registers}
            return Produced(access.at, session.now, cta, warp, lane, inputs)
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


def _shown(value: Any) -> str:
    return f"{value:.9g}" if getattr(value, "dtype", None) is not None and value.dtype.kind == "f" else str(value)
