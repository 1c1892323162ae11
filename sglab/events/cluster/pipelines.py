"""The barriers of a cluster by name, and the pipelines that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglab.events.barrier_names import BarrierName
from sglab.events.cluster.columns import ClusterColumns
from sglab.events.tables import CLUSTER, MBARRIER, NAMED

KINDS = {NAMED: "named", MBARRIER: "mbarrier", CLUSTER: "cluster"}


def barrier_rows(trace: ClusterColumns) -> list[dict[str, Any]]:
    """By number: kind, rank of the CTA it belongs to, object (number, or offset in shared memory), name."""
    barriers = trace.barriers
    found = _names(trace)
    rows: list[dict[str, Any]] = []
    times: dict[tuple[int, str], int] = {}
    for key in zip(barriers.kind.tolist(), barriers.rank.tolist(), barriers.object.tolist(), strict=True):
        kind, rank, number = key
        name = found[key].name if key in found else "unused"
        if name == "unused":
            name = f"mbarrier 0x{number:x}" if kind == MBARRIER else f"barrier {number}"
        rows.append({"kind": KINDS[kind], "rank": rank, "object": number, "name": _told_apart(rank, name, times)})
    return rows


def pipelines(trace: ClusterColumns) -> list[dict[str, Any]]:
    """Rings of full barriers, the longest first, each with the ring of as many empty ones that answers it.

    full, empty: barriers by stage; empty: none where only the order of the work frees a stage
    """
    rings, times = _rings(trace), dict[tuple[int, str], int]()
    full = sorted((ring for ring in rings if ring[0].purpose == "full"), key=len, reverse=True)
    empty = [ring for ring in rings if ring[0].purpose == "empty"]
    made = []
    for ring in full:
        first = ring[0]
        answers = [each for each in empty if len(each) == len(ring) and _answers(first, each[0])]
        answers.sort(key=lambda each: each[0].cta != first.cta)
        back = answers[0] if answers else []
        if back:
            empty.remove(back)
        name, rank = f"{'+'.join(first.producers)}→{'+'.join(first.consumers)}", int(trace.ranks[first.cta])
        made.append(
            {
                "name": _told_apart(rank, name, times),
                "rank": rank,
                "producers": [role_key(name) for name in first.producers],
                "consumers": [role_key(name) for name in first.consumers],
                "full": [_number(trace, each) for each in ring],
                "empty": [_number(trace, each) for each in back],
            }
        )
    return made


def _told_apart(rank: int, name: str, times: dict[tuple[int, str], int]) -> str:
    """The second of a name in a CTA gets a number."""
    times[rank, name] = times.get((rank, name), 0) + 1
    return name if times[rank, name] == 1 else f"{name} #{times[rank, name]}"


def role_key(name: str) -> str:
    return name.replace(" ", "_")


def _names(trace: ClusterColumns) -> dict[tuple[int, int, int], BarrierName]:
    """By kind, rank and number or offset."""
    return {
        (one.kind, int(trace.ranks[one.cta]), one.object & 0xFFFFFF): one
        for one in trace.log.roles.barriers
        if trace.ranks[one.cta] >= 0
    }


def _rings(trace: ClusterColumns) -> list[list[BarrierName]]:
    rings: list[list[BarrierName]] = []
    for one in trace.log.roles.barriers:
        if one.kind != MBARRIER or trace.ranks[one.cta] < 0:
            continue
        if one.stage and rings:
            rings[-1].append(one)
        else:
            rings.append([one])
    return rings


def _answers(full: BarrierName, empty: BarrierName) -> bool:
    return full.producers == empty.consumers and full.consumers == empty.producers


def _number(trace: ClusterColumns, one: BarrierName) -> int:
    rows: Sequence[int] = trace.barriers.find(one.kind, int(trace.ranks[one.cta]), one.object & 0xFFFFFF)
    return rows[0]
