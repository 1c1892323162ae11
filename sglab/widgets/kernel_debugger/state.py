"""A session at one moment, as the page shows it: plain values, and registers and memory as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sglab.emulator.names import Names
from sglab.emulator.session import Session
from sglab.emulator.state import Cta, Place, Warp
from sglab.gpu import SessionError
from sglab.gpu.findings import Finding, Party

MOST_IN_FLIGHT = 64
MOST_FINDINGS = 100
MOST_OUTPUT = 20_000
"""Characters of printf output that cross: its end."""


class Focus:
    """The warp whose registers are shown: the reader's, while it is there, else the one for which a move stopped, else
    the one that ran last."""

    def __init__(
        self,
        session: Session,
        cta: int | None,
        warp: int | None,
        group: int,
        stopped: tuple[int, int] | None = None,
    ) -> None:
        self.ctas = {each.linear: each for each in session.ctas}
        place = session.last or session.next
        wanted = (cta, warp) if cta is not None and warp is not None else None
        if wanted is None or wanted[0] not in self.ctas or wanted[1] >= self.ctas[wanted[0]].warp_count:
            wanted = stopped if stopped is not None and stopped[0] in self.ctas else None
        if wanted is None:
            wanted = (place.cta, place.warp) if place is not None and place.cta in self.ctas else None
        if wanted is None and self.ctas:
            wanted = (next(iter(self.ctas)), 0)
        self.cta = None if wanted is None else self.ctas[wanted[0]]
        self.warp = 0 if wanted is None else wanted[1]
        self.group = group

    @property
    def name(self) -> tuple[int, int] | None:
        return None if self.cta is None else (self.cta.linear, self.warp)

    @property
    def cluster(self) -> list[Cta]:
        """The CTAs of its cluster."""
        if self.cta is None:
            return []
        return [each for each in self.ctas.values() if each.cluster == self.cta.cluster]


def snapshot(session: Session, focus: Focus, names: Names) -> dict[str, Any]:
    """Everything but registers and watches."""
    shown = [session.warp(warp, cta) for cta in focus.cluster for warp in range(cta.warp_count)]
    if focus.cta is not None:
        own = next(w for w in shown if (w.cta.linear, w.index) == focus.name)
        focus.group = min(focus.group, max(0, len(own.groups) - 1))
    return {
        "position": session.now,
        "over": session.over,
        "last": _place(session.last),
        "next": _place(session.next),
        "focus": None if focus.cta is None else [focus.cta.linear, focus.warp, focus.group],
        "ctas": [[cta.linear, *cta.index, cta.cluster, cta.rank, cta.warp_count] for cta in focus.ctas.values()],
        "warps": [_warp(warp, names) for warp in shown],
        "mbarriers": [row for cta in focus.cluster for row in _mbarriers(session, cta, names)],
        "barriers": [row for cta in focus.cluster for row in _barriers(session, cta, names)],
        "inFlight": [] if focus.cta is None else _in_flight(session, focus.cta),
        "output": session.output[-MOST_OUTPUT:],
    }


def registers(
    session: Session, cta: int, warp: int, group: int, types: Mapping[str, str]
) -> tuple[list[list[Any]], list[bytes]]:
    """([name, type, bytes per lane], its bytes) of the registers that a group of a warp will still read. A predicate
    has 0 bytes per lane and one mask. types: of those that are declared by their size alone, where it is known"""
    try:
        found = session.registers(warp, group, cta)
    except SessionError:
        return [], []
    rows, data = [], []
    for register in found.values():
        values = register.values
        if values.dtype == bool:
            mask = int(sum(1 << lane for lane in range(32) if values[lane]))
            rows.append([register.name, register.type, 0])
            data.append(mask.to_bytes(4, "little"))
        else:
            kind = types.get(register.name, register.type) if register.type.startswith("b") else register.type
            rows.append([register.name, kind, values.nbytes // 32])
            data.append(values.tobytes())
    return rows, data


def _place(place: Place | None) -> list[int] | None:
    return None if place is None else [place.cta, place.warp, place.instruction.pc, place.mask]


def _warp(warp: Warp, names: Names) -> dict[str, Any]:
    groups = [[g.at.pc, g.mask, g.wait, g.key, g.since, g.blocked] for g in warp.groups]
    return {
        "cta": warp.cta.linear,
        "rank": warp.cta.rank,
        "warp": warp.index,
        "executed": warp.executed,
        "groups": groups,
        "role": names.roles.get((warp.cta.linear, warp.index)),
    }


def _mbarriers(session: Session, cta: Cta, names: Names) -> list[dict[str, Any]]:
    return [
        {
            "cta": cta.linear,
            "offset": each.offset,
            "name": names.mbarriers.get((cta.linear, each.offset), ""),
            "pending": each.pending,
            "expected": each.expected,
            "tx": each.tx_count,
            "phase": each.phase,
            "waiting": [list(who) for who in each.waiting],
        }
        for each in session.mbarriers(cta)
    ]


def _barriers(session: Session, cta: Cta, names: Names) -> list[dict[str, Any]]:
    return [
        {
            "cta": cta.linear,
            "number": each.number,
            "name": names.barriers.get((cta.linear, each.number), ""),
            "arrived": each.arrived,
            "expected": each.expected,
            "phase": each.phase,
            "waiting": sorted(each.waiting),
            "twice": max(0, each.arrived - sum(mask.bit_count() for mask in each.waiting.values())),
        }
        for each in session.barriers(cta)
    ]


def shown_findings(found: tuple[Finding, ...]) -> list[Finding]:
    """Those of sanitizers; the failure that ended the launch is listed separately."""
    return [each for each in found[:MOST_FINDINGS] if each.detector != "launch"]


def finding_row(session: Session, finding: Finding, names: Names, watch: str) -> dict[str, Any]:
    """A finding, for the page. watch: the expression that shows its memory, or nothing."""
    return {
        "detector": finding.detector,
        "kind": finding.kind,
        "message": finding.message,
        "severity": finding.severity,
        "count": finding.count,
        "memory": f"{finding.space}+0x{finding.address:x}, {finding.nbytes} bytes" if finding.space else "",
        "watch": watch,
        "at": _party(session, finding.at, names),
        "other": _party(session, finding.other, names),
        "otherDid": finding.other_did,
    }


def _party(session: Session, party: Party | None, names: Names) -> dict[str, Any] | None:
    if party is None:
        return None
    x, y, _ = session.launch.geometry.grid
    cta = party.cta[0] + x * (party.cta[1] + y * party.cta[2])
    return {
        "cta": cta,
        "warp": party.warp,
        "role": names.roles.get((cta, party.warp)) or party.role or None,
        "lanes": party.lanes,
        "pc": party.instruction.pc if party.instruction else -1,
        "position": party.position,
        "asynchronous": party.asynchronous,
    }


def _in_flight(session: Session, cta: Cta) -> list[list[Any]]:
    return [
        [each.kind, each.cta, each.warp, each.lane, each.at.pc, each.shared, each.nbytes, each.mbarrier]
        for each in session.in_flight(cta)[:MOST_IN_FLIGHT]
    ]


def joined(parts: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8)
