"""What a recorded launch did, as plain figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from sglab.emulator.bank_conflicts import bank_conflicts
from sglab.emulator.session import Session
from sglab.events.log import GLOBAL, MBARRIER, READ, SHARED, WRITE, EventLog
from sglab.gpu.code import Instruction
from sglab.gpu.errors import LaunchError
from sglab.gpu.findings import Finding

from .buffers import Buffer

MOST_FINDINGS = 20


def measured(
    log: EventLog, buffers: dict[str, Buffer], wanted: dict[str, Any], session: Session | None
) -> dict[str, Any]:
    """Figures of one launch.

    Args:
        wanted: pages, bytes of a page by buffer name; timed, the architecture whose modelled time is wanted.
        session: over the same launch, for bank conflicts; None for none.

    Returns:
        kernel, grid, block; warp_instructions; opcodes: executions by PTX opcode; read, written: bytes of global memory
        by buffer; pages: by buffer, bytes read of each page; shared_read, shared_written: bytes by loads and stores;
        barriers: phases of CTA barriers and of mbarriers that ended; findings; passes, least_passes: through the banks;
        modelled_ns, ctas_per_sm; shared_bytes.
    """
    opcodes: dict[str, int] = {}
    for pc, times in enumerate(np.bincount(log.pc, minlength=len(log.code.rows)).tolist()):
        if times:
            name = log.code[pc].opcode
            opcodes[name] = opcodes.get(name, 0) + times
    read, written, pages = _traffic(log, buffers, wanted.get("pages") or {})
    shared = log.accesses.space == SHARED
    figures: dict[str, Any] = {
        "kernel": log.kernel,
        "grid": list(log.geometry.grid),
        "block": list(log.geometry.block),
        "warp_instructions": int(log.report.warp_instructions),
        "opcodes": opcodes,
        "read": read,
        "written": written,
        "pages": pages,
        "shared_read": int(log.accesses.nbytes[shared & (log.accesses.kind & READ > 0)].sum()),
        "shared_written": int(log.accesses.nbytes[shared & (log.accesses.kind & WRITE > 0)].sum()),
        "cta_barriers": int((log.phases.kind != MBARRIER).sum()),
        "mbarrier_phases": int((log.phases.kind == MBARRIER).sum()),
        "copies": len(log.copies.event),
        "findings": [finding(one) for one in log.report.findings[:MOST_FINDINGS]],
        "shared_bytes": int(log.geometry.smem + log.shared_bytes),
        "output": log.report.output[:2000],
    }
    if session is not None:
        rows = bank_conflicts(session)
        figures["passes"], figures["least_passes"] = sum(r.passes for r in rows), sum(r.least for r in rows)
        figures["conflicts"] = [
            {"line": own_line(row.instruction), "passes": row.passes, "least": row.least} for row in rows
        ]
    if wanted.get("timed"):
        try:
            timed = log.timed(wanted["timed"])
            figures["modelled_ns"], figures["ctas_per_sm"] = float(timed.total_ns), int(timed.ctas_per_sm)
        except LaunchError as error:
            figures["untimed"] = str(error)[:500]
    return figures


def own_line(instruction: Instruction) -> int:
    """The line of the submission's own file, where that called a function of a header; 0 where none is known."""
    return instruction.chain[-1].line if instruction.chain else 0


def finding(one: Finding) -> dict[str, Any]:
    """A sanitizer's finding, as plain data."""
    return {
        "detector": one.detector,
        "kind": one.kind,
        "severity": one.severity,
        "message": one.message[:600],
        "line": own_line(one.at.instruction) if one.at and one.at.instruction else 0,
        "space": one.space,
        "count": int(one.count),
    }


def _traffic(
    log: EventLog, buffers: dict[str, Buffer], page_bytes: dict[str, int]
) -> tuple[dict[str, int], dict[str, int], dict[str, list[int]]]:
    """Bytes read and written by buffer, and read by page; loads, stores, cp.async and bulk copies. TMA's tensor copies
    are counted as a whole for the buffer of their map."""
    accesses, copies = log.accesses, log.copies
    outside = accesses.space == GLOBAL
    address = np.concatenate([accesses.address[outside], copies.address[copies.map < 0]]).astype(np.int64)
    nbytes = np.concatenate([accesses.nbytes[outside], copies.nbytes[copies.map < 0]]).astype(np.int64)
    span = np.concatenate([accesses.span[outside], copies.nbytes[copies.map < 0]]).astype(np.int64)
    kind = np.concatenate([accesses.kind[outside], _copy_kinds(copies.kind[copies.map < 0])])
    maps = {info.address: int(copies.nbytes[copies.map == i].sum()) for i, info in enumerate(log.maps)}
    read, written, pages = {}, {}, {}
    for name, buffer in buffers.items():
        start, size = buffer.data_ptr(), len(buffer.bytes)
        mine = (address >= start) & (address < start + max(size, 1))
        reads = mine & (kind & READ > 0)
        read[name] = int(nbytes[reads].sum()) + maps.get(start, 0)
        written[name] = int(nbytes[mine & (kind & WRITE > 0)].sum())
        if name in page_bytes:
            pages[name] = _by_page(address[reads] - start, span[reads], nbytes[reads], page_bytes[name], size)
    return read, written, pages


def _copy_kinds(kinds: Any) -> Any:
    from sglab.events.tables import COPY_KINDS

    stores = np.array([WRITE if "store" in name or "reduce" in name else READ for name in COPY_KINDS], np.uint8)
    return stores[kinds] if len(kinds) else np.zeros(0, np.uint8)


def _by_page(offsets: Any, spans: Any, nbytes: Any, page: int, size: int) -> list[int]:
    """Bytes read of each page; an access that reaches over several is shared out among them evenly."""
    counts = np.zeros(-(-size // page), np.int64)
    first, last = offsets // page, np.minimum(offsets + spans - 1, size - 1) // page
    for begin, end, amount in zip(first.tolist(), last.tolist(), nbytes.tolist(), strict=True):
        counts[begin : end + 1] += amount // (end + 1 - begin)
    return [int(count) for count in counts]
