"""Names for barriers and the pipelines they make, from who arrives and who waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sglab.gpu.event_tables import CLUSTER, MBARRIER, NAMED

from .launch_trace import ACTIONS, ClusterTrace

MBARRIER_BYTES = 8
_WAITS = (ACTIONS.index("wait"), ACTIONS.index("test"))
_ARRIVES = (ACTIONS.index("arrive"), ACTIONS.index("expect_tx"))


@dataclass
class Use:
    """Which roles arrive at a barrier and wait for it; whether its first wait found it free before any phase.

    sites: the source places at which it is waited for
    """

    arrive: set[str] = field(default_factory=set)
    wait: set[str] = field(default_factory=set)
    free_at_first: bool = False
    sites: set[object] = field(default_factory=set)

    def like(self, other: Use) -> bool:
        """Whether both may be stages of one array."""
        same = (self.arrive, self.wait, self.free_at_first) == (other.arrive, other.wait, other.free_at_first)
        return same and (not self.sites or not other.sites or not self.sites.isdisjoint(other.sites))


@dataclass(frozen=True)
class Pipeline:
    """Barriers that take turns, by stage; empty: none where nothing but the order of work frees a stage.

    number: counts pipelines of a CTA between the same roles, from 1
    """

    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    rank: int
    full: tuple[int, ...]
    empty: tuple[int, ...]
    number: int = 1

    @property
    def name(self) -> str:
        number = f" #{self.number}" if self.number > 1 else ""
        return f"{_roles(self.producers)}→{_roles(self.consumers)}{number}"


def uses(trace: ClusterTrace, roles: Sequence[str]) -> list[Use]:
    """By barrier."""
    made = [Use() for _ in range(len(trace.barriers))]
    actions, waits = trace.actions(), trace.waits()
    waited = set(waits[1].tolist())
    rows = trace.rows_of(actions[0])
    seen: set[int] = set()
    phases = trace.phases()
    first_phase: dict[int, int] = {}
    for position, barrier in zip(phases[0].tolist(), phases[1].tolist(), strict=True):
        first_phase.setdefault(barrier, position)
    for event, barrier, action, row in zip(
        actions[0].tolist(), actions[1].tolist(), actions[2].tolist(), rows.tolist(), strict=True
    ):
        use, role = made[barrier], roles[row]
        if action in _ARRIVES:
            use.arrive.add(role)
        elif action in _WAITS:
            use.wait.add(role)
            use.sites.update(_site(trace, event))
            if barrier not in seen:
                use.free_at_first = event not in waited and event < first_phase.get(barrier, event + 1)
            seen.add(barrier)
    for barrier, event in zip(phases[1].tolist(), phases[3].tolist(), strict=True):
        made[barrier].arrive.add(roles[int(trace.rows_of(np.array([event]))[0])])
    return made


def pipelines(trace: ClusterTrace, used: Sequence[Use]) -> list[Pipeline]:
    """Arrays of mbarriers with the same users; an array that is free at first belongs to the one it answers."""
    groups = sorted(_arrays(trace, used), key=len, reverse=True)
    full = [group for group in groups if not used[group[0]].free_at_first]
    empty = [group for group in groups if used[group[0]].free_at_first]
    found = []
    for group in full:
        use, rank = used[group[0]], int(trace.barriers.rank[group[0]])
        answers = [each for each in empty if len(each) == len(group) and _answers(use, used[each[0]])]
        answers.sort(key=lambda each: int(trace.barriers.rank[each[0]]) != rank)
        back = answers[0] if answers else ()
        if back:
            empty.remove(back)
        found.append(Pipeline(_sorted(use.arrive), _sorted(use.wait), rank, group, tuple(back)))
    for group in empty:  # whose other half another CTA has
        use, rank = used[group[0]], int(trace.barriers.rank[group[0]])
        found.append(Pipeline(_sorted(use.wait), _sorted(use.arrive), rank, (), group))
    return _numbered(found)


def names(trace: ClusterTrace, used: Sequence[Use], found: Iterable[Pipeline], roles: Sequence[str]) -> list[str]:
    """By barrier: "load→mma full[1]", "softmax barrier 1"; numbered where pipelines have the same name."""
    made = [""] * len(trace.barriers)
    for pipeline in found:
        for half, group in (("full", pipeline.full), ("empty", pipeline.empty)):
            for stage, barrier in enumerate(group):
                made[barrier] = f"{pipeline.name} {half}" + (f"[{stage}]" if len(group) > 1 else "")
    for i, (kind, number) in enumerate(zip(trace.barriers.kind.tolist(), trace.barriers.object.tolist(), strict=True)):
        if kind == CLUSTER:
            made[i] = "cluster barrier"
        elif kind == NAMED:
            made[i] = f"{_roles(_sorted(used[i].arrive | used[i].wait), len(set(roles)))} barrier {number}"
        elif not made[i]:
            made[i] = f"mbarrier 0x{number:x}"
    return made


def _numbered(found: Sequence[Pipeline]) -> list[Pipeline]:
    counts: dict[tuple[str, int], int] = {}
    made = []
    for pipeline in found:
        key = (pipeline.name, pipeline.rank)
        counts[key] = counts.get(key, 0) + 1
        made.append(replace(pipeline, number=counts[key]))
    return made


def _site(trace: ClusterTrace, event: int) -> set[object]:
    chain = trace.log.code.rows[int(trace.log.pc[event])][3]
    return {tuple((place[0], place[1]) for place in chain)} if chain else set()


def _answers(use: Use, other: Use) -> bool:
    return use.arrive == other.wait and use.wait == other.arrive


def _arrays(trace: ClusterTrace, used: Sequence[Use]) -> list[tuple[int, ...]]:
    barriers = trace.barriers
    groups: list[list[int]] = []
    for i in np.flatnonzero(barriers.kind == MBARRIER).tolist():
        use = used[i]
        if not use.arrive and not use.wait:
            continue
        last = groups[-1][-1] if groups else -1
        beside = last >= 0 and barriers.object[i] - barriers.object[last] == MBARRIER_BYTES
        if beside and barriers.rank[last] == barriers.rank[i] and used[groups[-1][0]].like(use):
            groups[-1].append(i)
        else:
            groups.append([i])
    return [tuple(group) for group in groups]


def _sorted(roles: set[str]) -> tuple[str, ...]:
    return tuple(sorted(roles))


def _roles(roles: Sequence[str], all_roles: int = 99) -> str:
    if len(roles) >= min(4, all_roles):
        return "all"
    return "+".join(role.replace("_", " ") for role in roles) or "?"
