"""Records what a compiled Triton kernel does to global memory on the emulator.

The launch's event log says which warp-instructions accessed global memory; a session over the same launch stops in
front of each and reads the registers that hold its lanes' addresses. Accesses that one line of the source makes are one
operation again: Triton cut its vector into warps and registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch

from sglab import gpu
from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.session import Session
from sglab.emulator.state import Place, Register
from sglab.events.log import EventLog
from sglab.events.tables import GLOBAL
from sglab.workbench.recorders.accesses import AccessTable, extent
from sglab.workbench.recorders.memory import LOAD, STORE, MemoryTrace
from sglab.workbench.recorders.triton import source_of

_ACCESS = re.compile(
    r"(?:@(?P<negated>!?)(?P<guard>%p\d+)\s+)?(?P<kind>ld|st)\.\S*?(?:\.v(?P<vector>\d))?\.[a-z](?P<bits>\d+)\s.*"
    r"\[\s*(?P<address>%rd\d+)\s*(?:\+\s*(?P<offset>-?\d+))?\s*\]"
)
_LANES = np.arange(32)


def record_emulated(kernel: Any, tensors: Mapping[str, torch.Tensor], launch: Callable[[], Any]) -> MemoryTrace:
    """Launches `kernel`, a Triton kernel, through `launch` on the emulator and records its loads and stores.

    Args:
        tensors: those that get a name, on the CPU, without storage in common; their contents afterwards are the
            launch's returns the trace: programs one after the other; a lane is a thread of the program's CTA; where
            several threads read the same element together, the first represents them all.

    Raises:
        LaunchError: nothing was launched on the emulator, which TRITON_INTERPRET or an empty grid prevents.
    """
    captured = gpu.capture(launch).main
    table = AccessTable(tensors)
    memory = [torch.as_strided(tensor, (extent(tensor),), (1,)) for tensor in tensors.values()]
    source = source_of(kernel)
    operations = sorted(_operations(captured, memory, source.file), key=lambda one: (one.program, one.began))
    threads = prod(captured.geometry.block)
    for one in operations:
        table.add(one.program, one.kind, one.line, threads, *one.accesses())
    return table.trace(f"emulated {captured.device.arch}", kernel.__name__, captured.geometry.grid, source)


@dataclass
class _Operation:
    """What one line of the source accessed together, by all warps of a CTA; began: the event of the first of them."""

    program: int
    kind: int
    line: int
    began: int
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def accesses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Threads, addresses and bits, by address; of equal addresses the first thread's."""
        thread, address, bits = (np.concatenate(parts) for parts in zip(*self.parts, strict=True))
        order = np.lexsort((thread, address))
        first = order[np.diff(address[order], prepend=np.uint64(0)) != 0]
        return thread[first], address[first], bits[first]


def _operations(captured: CapturedLaunch, memory: list[torch.Tensor], file: str) -> list[_Operation]:
    """What the warps of a CTA access at their n-th pass through a line of the source is one operation."""
    log, session = captured.record(), captured.session()
    table = log.accesses
    passes, found = _passes(log), dict[tuple[int, int, int, int], _Operation]()
    for event in table.event[table.space == GLOBAL].tolist():
        session.seek(event)
        place = session.next
        assert place is not None
        access = _access(place)
        kind, line = LOAD if access["kind"] == "ld" else STORE, _line(place, file)
        number, began = passes[event]
        one = found.setdefault((place.cta, kind, line, number), _Operation(place.cta, kind, line, began))
        one.began = min(one.began, began)
        one.parts += _parts(session, place, access, memory)
    session.run()
    return list(found.values())


def _passes(log: EventLog) -> dict[int, tuple[int, int]]:
    """Of each access: how often its warp has executed the instruction before, and when the first warp of its CTA did so
    for as many times, with lanes enabled or without."""
    accessing = np.unique(log.pc[log.accesses.event])
    executed: dict[tuple[int, int, int], int] = {}
    first: dict[tuple[int, int, int], int] = {}
    found = {}
    events = np.flatnonzero(np.isin(log.pc, accessing))
    rows = zip(events, log.cta[events], log.warp[events], log.pc[events], strict=True)
    for event, cta, warp, pc in (tuple(map(int, row)) for row in rows):
        number = executed[cta, warp, pc] = executed.get((cta, warp, pc), -1) + 1
        found[event] = number, first.setdefault((cta, pc, number), event)
    return found


def _access(place: Place) -> re.Match[str]:
    found = _ACCESS.match(place.instruction.text)
    if not found:
        raise RuntimeError(f"no access to global memory that could be recorded: {place.instruction.text}")
    return found


def _line(place: Place, file: str) -> int:
    name = file.rsplit("/", 1)[-1]
    return next((one.line for one in place.instruction.chain if one.file.endswith(name)), 0)


def _parts(
    session: Session, place: Place, access: re.Match[str], memory: list[torch.Tensor]
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Threads, addresses and bits of the instruction that is next: one part per element of its vector."""
    registers = session.registers(place.warp, _group(session, place), place.cta)
    lanes = (place.mask >> _LANES & 1).astype(bool)
    if access["guard"]:
        lanes &= registers[access["guard"]].values.astype(bool) != (access["negated"] == "!")
    threads = 32 * place.warp + _LANES[lanes]
    size = int(access["bits"]) // 8
    address = registers[access["address"]].values[lanes] + np.uint64(int(access["offset"] or 0))
    parts = []
    for i in range(int(access["vector"] or 1)):
        each = address + np.uint64(i * size)
        parts.append((threads, each, _bits(access, place, registers, lanes, i, each, memory)))
    return parts


def _bits(
    access: re.Match[str],
    place: Place,
    registers: dict[str, Register],
    lanes: np.ndarray,
    element: int,
    addresses: np.ndarray,
    memory: list[torch.Tensor],
) -> np.ndarray:
    """The values that lanes are about to store, or that are where they are about to load."""
    if access["kind"] == "st":
        stored = re.findall(r"%\w+", place.instruction.text.split("]", 1)[1])[element]
        values = np.ascontiguousarray(registers[stored].values[lanes])
        return values.view(f"u{values.itemsize}").astype(np.uint64)
    bits = np.zeros(len(addresses), np.uint64)
    for tensor in memory:
        size = tensor.element_size()
        index = (addresses.astype(np.int64) - tensor.data_ptr()) // size
        inside = (index >= 0) & (index < len(tensor))
        bits[inside] = tensor.numpy()[index[inside]].view(f"u{size}")
    return bits


def _group(session: Session, place: Place) -> int:
    """Which of the warp's groups of lanes runs next."""
    groups = session.warp(place.warp, place.cta).groups
    return next(i for i, group in enumerate(groups) if group.at.pc == place.instruction.pc)
