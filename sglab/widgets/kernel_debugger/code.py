"""A kernel's code as the page reads it: texts by line, and which instruction is on which line of each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sglab.compilers.source import SourceFinder, SourceText, short_name
from sglab.compilers.vouched import is_vouched
from sglab.emulator.register_types import float_types
from sglab.gpu import SessionError
from sglab.gpu.places import is_library
from sglab.gpu.ptx import Entry

KINDS = (
    *("integer", "float", "half", "convert", "move", "compare", "control", "global", "shared"),
    *("local", "param", "atomic", "warp", "barrier", "async", "matrix", "tensor_memory", "other"),
)
EVENTS = frozenset({"barrier", "async", "matrix", "tensor_memory", "atomic"})
"""Classes of instructions through which warps meet each other or the asynchronous units."""
LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".h": "cuda", ".hpp": "cuda", ".cpp": "cuda"}


class CodeTables:
    """What the page needs of a kernel's code, as named tensors and a list of files.

    ptx.text, ptx.start: the PTX and where each line begins; file<n>.text, file<n>.start: of each file
    code.ptx_line, code.kind, code.chain: by pc; kinds are indices of KINDS
    chain.start: row n of the chains is chain.place[start[n] : start[n + 1]], pairs of file and line, innermost first
    """

    def __init__(self, kernel: Entry, folders: Sequence[str | Path], digests: Mapping[str, str]) -> None:
        self.kernel = kernel
        rows = kernel.code.rows
        self.paths = _files_by_use(rows)
        self.numbers = {path: number for number, path in enumerate(self.paths)}
        finder = SourceFinder(folders, digests, trusted=is_vouched(kernel.module.ptx))
        self.sources = [finder.find(path) for path in self.paths]
        self._rows = rows
        self._aside = {path for path in self.paths if is_library(path)} | _wrappers(kernel.module.ptx, rows)

    def tensors(self) -> dict[str, Any]:
        chains: dict[Any, int] = {}
        of_pc = [chains.setdefault(tuple((file, line) for file, line, *_ in row[3]), len(chains)) for row in self._rows]
        places = [(self.numbers[file], line) for chain in chains for file, line in chain]
        number = {kind: index for index, kind in enumerate(KINDS)}
        named: dict[str, Any] = {
            "code.ptx_line": np.array([row[0] for row in self._rows], np.int32),
            "code.kind": np.array([number[row[2]] for row in self._rows], np.uint8),
            "code.chain": np.array(of_pc, np.int32),
            "chain.start": np.cumsum([0, *map(len, chains)], dtype=np.int32),
            "chain.place": np.array(places, np.int32).reshape(-1, 2),
            **_text("ptx", _without_debug_sections(self.kernel.module.ptx)),
        }
        for index, source in enumerate(self.sources):
            if source.text is not None:
                named |= _text(f"file{index}", source.text)
        return named

    def description(self) -> dict[str, Any]:
        counts = dict.fromkeys(self.paths, 0)
        for row in self._rows:
            for file in {file for file, *_ in row[3]}:
                counts[file] += 1
        return {
            "entry": self.kernel.name,
            "target": self.kernel.module.target,
            "module": self.kernel.module.name,
            "instructions": sum(1 for row in self._rows if row[0]),
            "kinds": list(KINDS),
            "events": sorted(EVENTS),
            "files": [
                {**_file(source, counts[source.path]), "library": source.path in self._aside} for source in self.sources
            ],
        }

    def pcs_of_ptx_line(self, line: int) -> list[int]:
        return [pc for pc, row in enumerate(self._rows) if row[0] == line]

    def pcs_where_line_begins(self, file: int, line: int) -> list[int]:
        """Instructions of a source line that do not follow another one of the same line: where one would stop."""
        path = self.paths[file]
        inside = [bool(row[0]) and any(at[0] == path and at[1] == line for at in row[3]) for row in self._rows]
        return [pc for pc, here in enumerate(inside) if here and not (pc and inside[pc - 1])]

    @cached_property
    def float_types(self) -> dict[str, str]:
        """See register_types."""
        return float_types(self.kernel.code.kernel.statements())

    def line_with_code(self, file: int, line: int) -> int:
        """This source line, or the next one with instructions. Raises SessionError: none follows"""
        path = self.paths[file]
        lines = {at[1] for row in self._rows if row[0] for at in row[3] if at[0] == path and at[1]}
        return _at_or_behind(lines, line, "line")

    def ptx_line_with_code(self, line: int) -> int:
        """The same of PTX."""
        return _at_or_behind({row[0] for row in self._rows} - {0}, line, "PTX line")

    def pcs_that_write(self, register: str) -> list[int]:
        """Instructions that write a register."""
        return self.kernel.code.kernel.writers_of(register)

    def ptx_lines(self, pcs: Sequence[int]) -> list[int]:
        """Of instructions, ascending."""
        return sorted({self._rows[pc][0] for pc in pcs} - {0})

    @cached_property
    def pcs_of_events(self) -> list[int]:
        return [pc for pc, row in enumerate(self._rows) if row[0] and row[2] in EVENTS]

    @cached_property
    def shown(self) -> list[int]:
        """Instructions that are in the PTX text."""
        return [pc for pc, row in enumerate(self._rows) if row[0]]

    def line_of(self, pc: int) -> tuple[str, int] | None:
        """The source line that an instruction belongs to; where a library or a wrapper of inline PTX was inlined, the
        line that called it."""
        chain = [place for place in self._rows[pc][3] if place[1]]  # line 0: the compiler's own
        place = next((place for place in chain if place[0] not in self._aside), chain[0] if chain else None)
        return None if place is None else (place[0], place[1])


def _at_or_behind(lines: set[int], line: int, what: str) -> int:
    found = min((each for each in lines if each >= line), default=None)
    if found is None:
        last = f"; the last that has one is {max(lines)}" if lines else ""
        raise SessionError(f"{what} {line} has no instruction, nor has any after it{last}")
    return found


def _files_by_use(rows: Sequence[Any]) -> list[str]:
    """Files with code: the author's before those of libraries, the one that most instructions lead to first."""
    uses: dict[str, int] = {}
    for row in rows:
        for file in {file for file, *_ in row[3]}:
            uses[file] = uses.get(file, 0) + 1
    return sorted(uses, key=lambda file: (is_library(file), -uses[file]))


def _wrappers(ptx: str, rows: Sequence[Any]) -> set[str]:
    """Headers most of whose instructions are in asm statements: what is there says less than the line that calls."""
    inline, inside = set[int](), False
    for number, line in enumerate(ptx.splitlines(), 1):
        inside = (inside or "// begin inline asm" in line) and "// end inline asm" not in line
        if inside:
            inline.add(number)
    own = Counter(row[3][0][0] for row in rows if row[0] and len(row[3]) > 1)
    wrapped = Counter(row[3][0][0] for row in rows if row[0] in inline and len(row[3]) > 1)
    return {path for path, count in wrapped.items() if 2 * count > own[path] and path.endswith((".cuh", ".h", ".hpp"))}


def _file(source: SourceText, instructions: int) -> dict[str, Any]:
    path = Path(source.path)
    return {
        "path": os.path.normpath(source.path),  # compilers write /build/../csrc/kernel.cu
        "name": short_name(source.path),
        "language": LANGUAGES.get(path.suffix, "python" if "ipykernel" in source.path else "cuda"),
        "instructions": instructions,
        "available": source.text is not None,
        "note": source.note,
    }


def _without_debug_sections(ptx: str) -> str:
    """The text up to the first of them: compilers write them last."""
    kept = 0
    for line in ptx.splitlines(keepends=True) if ".debug" in ptx else ():
        words = line.split(None, 2)[:2] if ".section" in line else []
        if len(words) == 2 and words[0] == ".section" and words[1].startswith(".debug"):
            return ptx[:kept]
        kept += len(line)
    return ptx


def _text(name: str, text: str) -> dict[str, Any]:
    """UTF-8 bytes, and where each line begins: one entry more than lines. Line ends are part of their lines."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    starts = np.cumsum([0, *map(len, lines)], dtype=np.int32)
    return {f"{name}.text": np.frombuffer(b"".join(lines), np.uint8), f"{name}.start": starts}
