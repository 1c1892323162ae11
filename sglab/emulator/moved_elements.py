"""What the numbers are that loads and stores move: compilers write .b32 of halves, floats and integers alike.

The instructions that compute with a register say what it holds; moves between registers hand that on. Where none
computes, the dtype of the tensor that the numbers come from or go to says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sglab.emulator.nan_kinds import tensors_in
from sglab.emulator.register_types import ELEMENTS
from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.tables import GLOBAL
from sglab.gpu import core

FLOATS = {"f16", "bf16", "f32", "f64", "e4m3", "e5m2"}
BYTES = {"s8", "u8"}
"""Of a matrix product: a register holds four of them, whatever moves it."""
PARTS = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32", "e4m3x2": "e4m3", "e5m2x2": "e5m2", "tf32": "f32"}
SIGNS = {**dict.fromkeys(("s8", "s16", "s32", "s64"), "s"), **dict.fromkeys(("u8", "u16", "u32", "u64"), "u")}
SIGN = {"s", "u"}
"""Of an integer instructions say the sign; its width is that of the access."""
_NAMES = re.compile(r"%?[A-Za-z_$][\w$]*")
_WIDTHS = re.compile(r"\.[bfsu](8|16|32|64|128)\b")


@dataclass(frozen=True)
class Moved:
    """What an instruction moves.

    Attributes:
        element: the type of its elements, empty where nothing says it.
        computed: whether it is an instruction that says it, not a tensor's dtype.
        updates: whether it reads what it writes.
    """

    element: str
    computed: bool = False
    updates: bool = False


class MovedElements:
    """The element types of a launch's loads and stores, by pc.

    Args:
        kernel: what was launched.
        log: the recorded launch.
        tensors: (address, bytes, element) of memory whose dtype is known; see `elements_of_tensors`.
    """

    def __init__(self, kernel: core.Kernel, log: RecordedLaunch, tensors: list[tuple[int, int, str]]) -> None:
        self._log, self._tensors = log, tensors
        self._halves = set(kernel.half_registers())
        listed = [(mnemonic.split("."), operands) for mnemonic, operands in kernel.statements()]
        self._moves = [found for parts, operands in listed for found in _moves(parts, operands)]
        self._computed: dict[str, str] = {}
        for parts, operands in listed:
            for register, kind in _said(parts, operands):
                _learn(self._computed, register, kind)
        self._spread(self._computed)
        self._moved = dict(self._computed)
        for pc, kind in self._of_global():
            for register in self._values(pc):
                self._moved.setdefault(register, kind)
        self._spread(self._moved)

    @classmethod
    def of_launch(cls, launch: Any, log: RecordedLaunch) -> MovedElements:
        """Of a launch (LaunchRecord) and its recording."""
        kernel = launch.kernel
        tensors = tensors_in((launch.keep, [held.tensor for held in launch.tensors]))
        return cls(kernel.code.kernel, log, elements_of_tensors(tensors))

    def of(self, pc: int) -> Moved:
        """What an instruction loads, stores or updates."""
        opcode = self._log.code[pc].opcode
        parts = opcode.split(".")
        updates = parts[0] in ("atom", "red")
        named = next((_kind(part) for part in reversed(parts) if _kind(part) in FLOATS), "")
        if named or (updates and _kind(parts[-1])):
            return Moved(named or _sized(_kind(parts[-1]), opcode), True, updates)
        for kinds in (self._computed, self._moved):
            found = {kinds[register] for register in self._values(pc) if kinds.get(register)}
            if len(found) == 1:
                return Moved(_sized(found.pop(), opcode), kinds is self._computed, updates)
        return Moved("", False, updates)

    def at(self, address: int) -> str:
        """The element type of the tensor that holds an address of global memory."""
        return next((kind for start, size, kind in self._tensors if start <= address < start + size), "")

    def _values(self, pc: int) -> list[str]:
        """The registers of what it moves: not those of its address."""
        instruction = self._log.code[pc]
        text = instruction.text.split(instruction.opcode, 1)[-1].split(";")[0]
        return _NAMES.findall(re.sub(r"\[[^]]*\]", "", text))

    def _spread(self, kinds: dict[str, str]) -> None:
        """Along moves, in both directions, until nothing new is learnt."""
        for _ in range(8):
            before = len(kinds)
            for registers, packs in self._moves:
                found = {kinds[register] for register in registers if kinds.get(register)}
                if len(found) == 1 and not (packs and found & SIGN):
                    (kind,) = found
                    for register in registers:
                        upper = kind == "f32" and register in self._halves
                        kinds.setdefault(register, "bf16" if upper else kind)  # a float's upper half
            if len(kinds) == before:
                return

    def _of_global(self) -> list[tuple[int, str]]:
        accesses = self._log.accesses
        rows = np.flatnonzero(accesses.space == GLOBAL)
        pcs, first = np.unique(self._log.pc[accesses.event[rows].astype(np.int64)], return_index=True)
        found = [
            (pc, self.at(int(accesses.address[rows[i]]))) for pc, i in zip(pcs.tolist(), first.tolist(), strict=True)
        ]
        # of bytes that a vector moves for others, its tensor's dtype says nothing
        return [(pc, kind[:1] if kind in SIGNS else kind) for pc, kind in found if kind]


def elements_of_tensors(tensors: Iterable[Any]) -> list[tuple[int, int, str]]:
    """Address, bytes and element type of the memory of tensors and arrays, of those that have a known one."""
    found = []
    for tensor in tensors:
        kind = ELEMENTS.get(str(tensor.dtype).removeprefix("torch."), "")
        if hasattr(tensor, "untyped_storage"):
            storage = tensor.untyped_storage()
            found.append((storage.data_ptr(), storage.nbytes(), kind))
        elif hasattr(tensor, "ctypes"):
            found.append((tensor.ctypes.data, tensor.nbytes, kind))
    return [one for one in found if one[2]]


def _sized(kind: str, opcode: str) -> str:
    """ "s32" of an integer that is moved by an instruction of 32 bits."""
    if kind not in SIGN:
        return kind
    widths = _WIDTHS.findall(opcode)
    return f"{kind}{widths[-1]}" if widths and widths[-1] != "128" else ""


def _learn(kinds: dict[str, str], register: str, kind: str) -> None:
    """Instructions that disagree of a register say nothing: it is the bits of one taken for the other."""
    known = kinds.setdefault(register, kind)
    if known != kind and {known, kind} != SIGN:
        kinds[register] = ""
    elif "u" in (known, kind):
        kinds[register] = "u"


def _said(parts: list[str], operands: Iterable[Iterable[str]]) -> list[tuple[str, str]]:
    """(register, what it holds), as far as an instruction says."""
    listed = [list(operand) for operand in operands]
    return [(register, kind) for operand, kind in _typed(parts, listed) if kind for register in operand]


def _typed(parts: list[str], operands: list[list[str]]) -> list[tuple[list[str], str]]:
    name = parts[0]
    if name in ("mma", "wgmma"):
        types = parts[-4:] if name == "mma" else parts[-3:]
        return [(one, part if part in BYTES else _kind(part)) for one, part in zip(operands, types, strict=False)]
    if "mbarrier" in name or name.startswith("cp") or name in ("cvta", "set"):
        return []
    kinds = [kind for part in parts if (kind := _kind(part))]
    if name == "cvt":  # from the last to the first; of two integers that are packed, none has the access's width
        if len(kinds) != 2:
            return []
        pairs = [(operands[0], kinds[0]), *((operand, kinds[1]) for operand in operands[1:])]
        return [(one, kind) for one, kind in pairs if len(operands) == 2 or kind not in SIGN]
    if name in ("ld", "st", "mov", "selp", "shfl", "prmt", "ldmatrix", "stmatrix"):  # .u32 may be anything
        kinds = [kind for kind in kinds if kind in FLOATS]
        operands = operands[:2]
    return [(one, kinds[-1]) for one in operands["wide" in parts :]] if kinds else []


def _kind(part: str) -> str:
    part = PARTS.get(part, part)
    return part if part in FLOATS or part in SIGN else SIGNS.get(part, "")


def _moves(parts: list[str], operands: Iterable[Iterable[str]]) -> list[tuple[list[str], bool]]:
    """Registers that hold the same kind of number after an instruction that hands values on; whether it packs them."""
    listed = [list(operand) for operand in operands]
    taken = {"mov": 2, "shfl": 2, "selp": 3, "prmt": 3}.get(parts[0], 0)
    packs = parts[0] == "prmt" or any(len(operand) > 1 for operand in listed[:taken])
    return [([register for operand in listed[:taken] for register in operand], packs)] if taken else []
