"""Bank conflicts of a launch's accesses to shared memory, counted from the addresses that its lanes used.

Shared memory has 32 banks, each 4 bytes wide. A warp's access of 4 bytes a lane is one phase; of 8 bytes, one per half
warp; of 16 bytes, as of every 8 × 8 matrix of ldmatrix, one per quarter. A phase takes as many passes as the busiest
bank has different words to deliver; lanes that want the same word share it, but for those that change it: lanes of an
atomic take turns, unless it adds 1, which a GPU counts and adds once (the timing model's rule, too).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sglab.emulator.session import Session
from sglab.emulator.state import MemoryAccess
from sglab.events.log import SHARED, EventLog
from sglab.gpu import KernelError
from sglab.gpu.code import Instruction

BANKS, LANES = 32, 32
MOST = 10_000
"""Executions that are looked at: the first ones."""
PERMUTATIONS: dict[str, tuple[int, int]] = {
    "32B": (0x10, 3),
    "64B": (0x30, 3),
    "128B": (0x70, 3),
    "256B_rows": (0x70, 4),
    "512B_rows": (0x70, 5),
    "1024B_rows": (0x70, 6),
}
"""Address ^= (address >> shift) & mask. The first three are TMA's swizzles; in the others chunk c of row r is at
c ^ (r mod 8), as in FlashInfer's permuted shared memory. Each undoes itself."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class InstructionBanks:
    """One instruction's accesses to a CTA's shared memory, all executions and warps together.

    Attributes:
        executions: how often warps executed it.
        nbytes: per lane.
        reads: whether it reads.
        turns: whether its lanes change the same word one after the other.
        passes: through the banks.
        least: what it would take without conflicts.
        permuted: passes had every address been permuted so, by name in PERMUTATIONS.
        first: event of its first execution.
        start, end: the bytes that it touched, as offsets in shared memory.
        chunks, masks: of which 16 bytes, by number, it touched which ones, as a mask: of a struct's member not all.
            Empty where it touched all from start to end.
    """

    instruction: Instruction
    executions: int
    nbytes: int
    reads: bool
    turns: bool
    passes: int
    least: int
    permuted: dict[str, int]
    first: int
    start: int
    end: int
    chunks: Ints = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)
    masks: Ints = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)


def permute(addresses: Ints, name: str) -> Ints:
    """Where the byte at each address is if rows are permuted so."""
    mask, shift = PERMUTATIONS[name]
    return addresses ^ ((addresses >> shift) & mask)


def count_passes(addresses: Ints, lanes: Ints, nbytes: int, turns: bool = False) -> tuple[Ints, Ints]:
    """(passes, passes without conflicts) of each access.

    Args:
        addresses: (accesses, 32) of the lanes' lowest bytes.
        lanes: (accesses,) masks.
        nbytes: per lane, 1 to 16.
        turns: whether lanes that want the same word take turns.
    """
    phases = 4 if nbytes >= 16 else 2 if nbytes == 8 else 1
    active = (lanes[:, None] >> np.arange(LANES) & 1).astype(bool)
    phase = np.arange(len(addresses))[:, None] * phases + np.arange(LANES) // (LANES // phases)
    words = [addresses // 4 + word for word in range(max(1, nbytes // 4))]
    wanted = np.concatenate([(phase[active] << 32) | each[active] for each in words])
    if not turns:
        wanted = np.unique(wanted)
    busy = np.bincount((wanted >> 32) * BANKS + wanted % BANKS, minlength=len(addresses) * phases * BANKS)
    passes = busy.reshape(len(addresses), phases, BANKS).max(axis=2)
    return passes.sum(axis=1), (passes > 0).sum(axis=1)


def bank_conflicts(session: Session, cta: int = 0, log: EventLog | None = None) -> list[InstructionBanks]:
    """Every instruction by which a CTA's warps access its shared memory, in program order.

    The session moves through the launch and back to where it is. log: the launch's events, if they are recorded.
    Looks at the first 10,000 executions. cp.async, TMA and tensor cores do not count: they have no lanes.
    """
    log = log or session.log
    found: dict[tuple[int, int], list[tuple[int, int, Ints]]] = {}
    forms: dict[int, MemoryAccess] = {}
    moment = session.moment
    with session.quiet():
        try:
            for event in _accesses(log, cta)[:MOST].tolist():
                session.seek(event)
                access = _about_to(session, int(log.warp[event]), cta, int(log.pc[event]))
                if access is None:
                    continue
                pc = access.at.pc
                forms[pc] = access
                offsets = (access.addresses & 0xFFFFFF).astype(np.int64)
                found.setdefault((pc, access.nbytes), []).append((event, access.lanes, offsets))
        except KernelError:
            pass  # what came before the fault is counted
        finally:
            with suppress(KernelError):  # where it was at the fault, it is there again
                session.return_to(moment)
    return [_counted(forms[pc], rows) for (pc, nbytes), rows in sorted(found.items(), key=_pc)]


def _pc(item: tuple[tuple[int, int], object]) -> tuple[int, int]:
    return item[0]


def _accesses(log: EventLog, cta: int) -> Ints:
    """The CTA's events that access shared memory lane by lane; the table of accesses leaves out the matrix moves."""
    matrices = log.code.where(lambda one: one.act == "matrix rows")
    listed = log.accesses.event[log.accesses.space == SHARED].astype(np.int64)
    events = np.union1d(listed, np.flatnonzero(np.isin(log.pc, matrices)))
    return events[log.cta[events] == cta]


def _about_to(session: Session, warp: int, cta: int, pc: int) -> MemoryAccess | None:
    """The access of the lanes of a warp that stand at `pc`; None where the session was stepped into another order."""
    access = session.shared_access(warp, 0, cta)
    if access and access.at.pc == pc:
        return access
    groups = next((one.groups for one in session.warps if (one.cta.linear, one.index) == (cta, warp)), ())
    at = next((number for number, group in enumerate(groups) if group.at.pc == pc), None)
    return None if at is None else session.shared_access(warp, at, cta)


def _counted(form: MemoryAccess, rows: Sequence[tuple[int, int, Ints]]) -> InstructionBanks:
    nbytes, turns = form.nbytes, form.turns
    events, active, addresses = zip(*rows, strict=True)
    lanes, where = np.array(active, np.int64), np.stack(addresses)
    passes, least = count_passes(where, lanes, nbytes, turns)
    touched = np.unique(where[(lanes[:, None] >> np.arange(LANES) & 1).astype(bool)])
    chunks, masks = _chunks(touched, nbytes)
    return InstructionBanks(
        instruction=form.at,
        executions=len(rows),
        nbytes=nbytes,
        reads=form.reads,
        turns=turns,
        passes=int(passes.sum()),
        least=int(least.sum()),
        permuted={
            name: int(count_passes(permute(where, name), lanes, nbytes, turns)[0].sum()) for name in PERMUTATIONS
        },
        first=events[0],
        start=int(touched.min()),
        end=int(touched.max()) + nbytes,
        chunks=chunks,
        masks=masks,
    )


def _chunks(touched: Ints, nbytes: int) -> tuple[Ints, Ints]:
    """Which 16 bytes, by number, are touched, and which ones of them; nothing where it is all from first to last."""
    at = np.unique(touched[:, None] + np.arange(nbytes))
    if len(at) == at[-1] + 1 - at[0]:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    chunks, first = np.unique(at // 16, return_index=True)
    return chunks, np.bitwise_or.reduceat(1 << at % 16, first)
