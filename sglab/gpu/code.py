"""A kernel's decoded instructions and where they are: in the PTX text and in the source it was compiled from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sglab.gpu import core
from sglab.gpu.errors import SessionError
from sglab.gpu.names import variable_name
from sglab.gpu.places import own_place, paths_once, places_of, shown_path
from sglab.gpu.triton_lines import with_callers

_UNREGISTERED = re.compile("no memory was registered for this launch|far from all memory of this launch")
_REMEDY = "tensors that are reached through pointers in structs or in other tensors go into extra=[…]"
_SPANS = re.compile(r"the CTA's shared memory spans 0x([0-9a-f]+) to 0x[0-9a-f]+")  # likewise
_RANK_SHIFT = 24  # of a shared address: above is the CTA's rank in its cluster
_MOST_NAMED = 6  # variables
_MOST_NEAR = 4  # lines
_BEFORE_PLACE = re.compile(r"PTX lines? (?:\d+ to )?(\d+)(?:, | \()")  # as the compiled core writes it


@dataclass(frozen=True)
class SourceLine:
    """A place in a source file. function: the one inlined there that contains it; empty for the kernel itself."""

    file: str
    line: int
    column: int
    function: str = ""


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction.

    Attributes:
        pc: its number in the kernel.
        opcode: mnemonic with modifiers.
        kind: its class, as in a report's by_class.
        event: what it is to someone who follows a launch, a key of sglab.gpu.event_kinds.KINDS, or empty.
        text: its line of PTX.
        chain: its source line, then the lines at which the function around it was inlined, innermost first.
    """

    pc: int
    ptx_line: int
    opcode: str
    kind: str
    event: str
    text: str
    chain: tuple[SourceLine, ...]

    @property
    def places(self) -> list[str]:
        """For messages: the author's line first; then the place in the library that it is inlined from, or the line of
        the kernel that called the author's function."""
        return places_of(self._lines)

    @property
    def own_source(self) -> tuple[str, int] | None:
        """File and line of the author's code; of what was inlined from a library, the line that called it."""
        return own_place(self._lines)

    @property
    def _lines(self) -> list[tuple[str, int]]:
        return [(each.file, each.line) for each in self.chain]

    @property
    def source(self) -> tuple[str, int] | None:
        """File and line, if the PTX was compiled with line information."""
        return (self.chain[0].file, self.chain[0].line) if self.chain else None

    def __repr__(self) -> str:
        return f"<PTX {self}>"

    def __str__(self) -> str:
        source = f" ({self.source[0]}:{self.source[1]})" if self.source else ""
        return f"{self.ptx_line}: {self.text}{source}"


class Code(Sequence[Instruction]):
    """The instructions of one kernel, by pc."""

    def __init__(self, name: str, ptx: str, kernel: core.Kernel) -> None:
        self._name, self.kernel = name, kernel
        self.rows: Sequence[Any] = with_callers(ptx, kernel.code(), kernel.source_files)
        self._text = ptx.splitlines()
        self._made: dict[int, Instruction] = {}  # a session asks for one at each step

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, pc: Any) -> Any:
        if isinstance(pc, slice):
            return [self[one] for one in range(*pc.indices(len(self)))]
        found = self._made.get(pc)
        if found is None:
            line, opcode, kind, chain = self.rows[pc]
            places = tuple(SourceLine(*place) for place in chain)
            found = self._made[pc] = Instruction(int(pc), line, opcode, kind, self.events[pc], self.text(line), places)
        return found

    def __iter__(self) -> Iterator[Instruction]:
        return (self[pc] for pc in range(len(self)))

    def text(self, line: int) -> str:
        """A line of the PTX, from 1, without the tabs that nvcc sets; empty where there is none."""
        return " ".join(self._text[line - 1].split()) if 0 < line <= len(self._text) else ""

    @cached_property
    def effects(self) -> list[core.Effects]:
        """What each instruction does, by pc: the instruction table's word, settled by modifiers and operands."""
        return self.kernel.effects()

    @cached_property
    def events(self) -> list[str]:
        """What each instruction is to someone who follows a launch: a key of KINDS, or empty. By pc."""
        return [one.event for one in self.effects]

    def where(self, holds: Callable[[core.Effects], bool]) -> list[int]:
        """pcs of the instructions for whose effects `holds`."""
        return [pc for pc, one in enumerate(self.effects) if holds(one)]

    @cached_property
    def source_lines(self) -> dict[str, list[int]]:
        """Files and the lines of theirs that have instructions, those that were inlined included."""
        lines: dict[str, set[int]] = {}
        for _, _, _, chain in self.rows:
            for file, line, *_ in chain:
                lines.setdefault(file, set()).add(line)
        return {file: sorted(found) for file, found in lines.items()}

    def source(self, pc: int) -> tuple[str, int] | None:
        """File and line of an instruction."""
        chain = self.rows[pc][3]
        return (chain[0][0], chain[0][1]) if chain else None

    def with_own_lines(self, message: str) -> str:
        """A failure's message, in which places in inlined functions begin with the author's line, cells of a notebook
        have their numbers, a pointer that no argument explains has a remedy, and shared memory its variables."""
        chains = {row[0]: [(file, line) for file, line, *_ in row[3]] for row in self.rows if len(row[3]) > 1}
        parts, done = [], 0
        for found in _BEFORE_PLACE.finditer(message):
            chain = chains.get(int(found[1]), [])
            innermost = f"{chain[0][0]}:{chain[0][1]}" if chain else ""
            if innermost and message.startswith(innermost, found.end()):
                parts += [message[done : found.end()], ", ".join(places_of(chain))]
                done = found.end() + len(innermost)
        text = "".join(parts) + message[done:]
        for file in {row[3][0][0] for row in self.rows if row[3]}:
            text = text.replace(f"{file}:", f"{shown_path(file)}:")
        text = paths_once(_SPANS.sub(self._with_variables, text))
        return _UNREGISTERED.sub(rf"\g<0>: {_REMEDY}", text)

    def _with_variables(self, spans: re.Match[str]) -> str:
        window = int(spans[1], 16) >> _RANK_SHIFT << _RANK_SHIFT
        rows = sorted(self.kernel.shared_variables, key=lambda row: row[1])
        named = [
            f"{variable_name(name)} {window + begin:#x}" + (f" to {window + begin + size:#x}" if size else " and on")
            for name, begin, size in rows[:_MOST_NAMED]
        ]
        more = ["…"] if len(rows) > _MOST_NAMED else []
        return f"{spans[0]} ({', '.join(named + more)})" if named else spans[0]

    @cached_property
    def line_numbers(self) -> list[int]:
        """See numbered_lines; an instruction's line is its innermost one."""
        return numbered_lines([self.source(pc) for pc in range(len(self))])

    @cached_property
    def shown(self) -> list[int]:
        """pcs of the instructions that are in the PTX text."""
        return [pc for pc, row in enumerate(self.rows) if row[0]]

    @cached_property
    def by_kind(self) -> dict[str, list[int]]:
        """pcs by kind of event (see sglab.gpu.event_kinds) and by class; "" has those that are events of any kind."""
        found: dict[str, list[int]] = {"": []}
        for pc in self.shown:
            kind, event = self.rows[pc][2], self.events[pc]
            for name in {event, kind} - {""}:
                found.setdefault(name, []).append(pc)
            if event:
                found[""].append(pc)
        return found

    def find(
        self,
        line: int | None = None,
        ptx_line: int | None = None,
        file: str | None = None,
        opcode: str | None = None,
    ) -> list[int]:
        """pcs of the instructions that match all of what is given; see Session.break_at.

        Raises:
            SessionError: none does; the message lists what is near.
        """
        if line is None and ptx_line is None and opcode is None:
            raise SessionError(f"{self._name}: give a line, a ptx_line or an opcode to stop at")
        pcs = [pc for pc, row in enumerate(self.rows) if row[0] and self._matches(row, line, ptx_line, file, opcode)]
        if not pcs:
            raise SessionError(f"{self._name}: {self._nothing(line, ptx_line, file, opcode)}")
        return pcs

    @staticmethod
    def _matches(row: Any, line: int | None, ptx_line: int | None, file: str | None, opcode: str | None) -> bool:
        at, name, _, chain = row
        if ptx_line is not None and at != ptx_line:
            return False
        if opcode is not None and not name.startswith(opcode):
            return False
        if line is None:
            return True
        return any(place[1] == line and (file is None or place[0].endswith(file)) for place in chain)

    def _nothing(self, line: int | None, ptx_line: int | None, file: str | None, opcode: str | None) -> str:
        if line is not None:
            known = {name: found for name, found in self.source_lines.items() if file is None or name.endswith(file)}
            if not known:
                listed = ", ".join(self.source_lines) or "none; compile it with -lineinfo"
                return f"no source file {file or ''} has code (files: {listed})"
            places = [(at, name) for name, found in known.items() for at in found]
            nearest = sorted(places, key=lambda place: abs(place[0] - line))[:_MOST_NEAR]
            near = [f"{name}:{at}" for at, name in sorted(nearest)]
            return f"no instruction of line {line} matches; near it are {', '.join(near)}"
        if ptx_line is not None:
            lines = sorted({row[0] for row in self.rows if row[0]})
            listed = ", ".join(map(str, _nearest(lines, ptx_line)))
            return f"no instruction on PTX line {ptx_line} matches; near it are {listed}"
        names = sorted({row[1].split(".")[0] for row in self.rows if row[1]})
        return f"no instruction starts with '{opcode}'; the kernel uses {', '.join(names)}"


def numbered_lines(places: Iterable[tuple[str, int] | None]) -> list[int]:
    """By instruction, a number for its source line. One without a line belongs to that of the one before it; 0: to
    none. Empty where there are no lines at all: then each instruction is one of its own.

    Args:
        places: file and line, by pc.
    """
    numbers: dict[tuple[str, int], int] = {}
    found, here = [], 0
    for place in places:
        if place is not None:
            here = numbers.setdefault(place, len(numbers) + 1)
        found.append(here)
    return found if numbers else []


def _nearest(lines: Sequence[int], wanted: int) -> list[int]:
    return sorted(sorted(lines, key=lambda line: abs(line - wanted))[:_MOST_NEAR])
