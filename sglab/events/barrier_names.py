"""Names for barriers: who arrives, who waits, and which place in a ring of stages they have."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from sglab.events.columns import EventColumns
from sglab.events.tables import CLUSTER, FAILED, MBARRIER, NAMED, Array

_RANK_SHIFT = 24
_SIZE = 8  # bytes of an mbarrier
_LOADS = "load"  # Role.name


@dataclass(frozen=True)
class BarrierName:
    """A barrier of a launch.

    Attributes:
        name: such as "load→mma full[1]"; "none→load empty[1]" where no warp arrived, "load→none" where no warp
            waited.
        cta, kind, object: as in EventLog.phases.
        producers: roles that arrive at it, or issue the operations that do.
        consumers: roles that wait for it.
        purpose: of an mbarrier: full (its first wait waits), empty (its first wait finds it free) or, unwaited for,
            nothing.
        stage: its place in a ring of `stages` such mbarriers that are one after the other; 0 of 1 if there is no ring.
    """

    name: str
    cta: int
    kind: int
    object: int
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    purpose: str
    stage: int
    stages: int


@dataclass
class BarrierUse:
    """Roles that arrive and that wait; the purpose as in BarrierName; the source lines at which it is waited for, as
    numbers."""

    producers: set[str]
    consumers: set[str]
    purpose: str = ""
    sites: set[int] = field(default_factory=set)


def name_barriers(log: EventColumns, role_names: tuple[str, ...], role: Array) -> list[BarrierName]:
    """All barriers that the launch used, by CTA, kind and object. role: of each event's warp, an index in role_names"""
    return name_uses(_uses(log, role_names, role), role_names)


def name_uses(uses: dict[tuple[int, int, int], BarrierUse], role_names: tuple[str, ...]) -> list[BarrierName]:
    """Names for barriers given by (CTA, kind, object), in that order. role_names: in the order in which names list
    them."""
    order = {name: index for index, name in enumerate(role_names)}
    _complete(uses)
    _mark_returns(uses)

    def sort(names: set[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=lambda name: order[name]))

    made = []
    for ring in _rings(uses):
        for stage, key in enumerate(ring):
            use = uses[key]
            producers, consumers = sort(use.producers), sort(use.consumers)
            name = _name(key[1], key[2], producers, consumers, use.purpose, stage, len(ring))
            made.append(BarrierName(name, *key, producers, consumers, use.purpose, stage, len(ring)))
    return sorted(made, key=lambda one: (one.cta, one.kind, one.object))


def _name(
    kind: int,
    number: int,
    producers: tuple[str, ...],
    consumers: tuple[str, ...],
    purpose: str,
    stage: int,
    stages: int,
) -> str:
    if kind == CLUSTER:
        return "cluster barrier"
    if kind == NAMED:
        return f"{'+'.join(dict.fromkeys(producers + consumers))} barrier {number}"
    if not producers and not consumers:
        return "unused"
    ends = f"{'+'.join(producers) or 'none'}→{'+'.join(consumers) or 'none'}"
    place = f"[{stage}]" if stages > 1 else ""
    return f"{ends} {purpose}{place}".rstrip()


def _uses(log: EventColumns, role_names: tuple[str, ...], role_of: Array) -> dict[tuple[int, int, int], BarrierUse]:
    """By (CTA, kind, object)."""
    barriers, phases = log.barriers, log.phases
    kind_of = np.array([_ACTS.get(event, 0) for event in log.code.events])
    act = kind_of[log.pc[barriers.event]]
    owner = _owner(log, barriers.event, barriers.kind, barriers.object)
    table = np.stack([owner, barriers.kind, barriers.object, role_of[barriers.event], act]).astype(np.int64)
    uses: dict[tuple[int, int, int], BarrierUse] = defaultdict(lambda: BarrierUse(set(), set()))
    for cta, kind, number, role, did in np.unique(table, axis=1).T.tolist():
        use = uses[cta, kind, number]
        if did == _WAITS:
            use.consumers.add(role_names[role])
        if did == _ARRIVES or (did == _WAITS and kind == NAMED):
            use.producers.add(role_names[role])
    chains: dict[object, int] = {(): 0}
    site_of = np.array([chains.setdefault(tuple(row[3]), len(chains)) for row in log.code.rows])[log.pc[barriers.event]]
    waited = np.flatnonzero((act == _WAITS) & (site_of > 0))
    for cta, kind, number, site in np.unique(np.vstack([table[:3], site_of])[:, waited], axis=1).T.tolist():
        uses[cta, kind, number].sites.add(site)
    ends = np.stack([phases.cta, phases.kind, phases.object, role_of[phases.event]]).astype(np.int64)
    for cta, kind, number, role in np.unique(ends, axis=1).T.tolist():
        uses[cta, kind, number].producers.add(role_names[role])
    passes = np.flatnonzero((barriers.kind == MBARRIER) & (act == _WAITS) & (barriers.passed != FAILED))
    _, first = np.unique(table[:3, passes], axis=1, return_index=True)
    for row in passes[first].tolist():
        cta, kind, number = table[:3, row].tolist()
        uses[cta, kind, number].purpose = "full" if barriers.passed[row] >= 0 else "empty"
    return uses


_WAITS, _ARRIVES = 1, 2
_ACTS = {"wait": _WAITS, "arrive": _ARRIVES}


def _owner(log: EventColumns, event: Array, kind: Array, number: Array) -> Array:
    """Linear index of the CTA whose barrier each instruction was about."""
    linear = log.cta[event].astype(np.int64)
    rank = np.where(kind == MBARRIER, number.astype(np.int64) >> _RANK_SHIFT, 0)
    return np.asarray(np.where(kind == NAMED, linear, log.geometry.neighbour(linear, rank)))


def _rings(uses: dict[tuple[int, int, int], BarrierUse]) -> list[list[tuple[int, int, int]]]:
    """Barriers in rings: mbarriers of one CTA with the same ends and purpose, at equal distances, waited for at some
    line in common (a barrier of Q may be before the ring of K). All others alone."""
    alike: dict[object, list[tuple[int, int, int]]] = defaultdict(list)
    for key in sorted(uses):
        use = uses[key]
        alone = key if key[1] != MBARRIER else None
        alike[key[0], alone, frozenset(use.producers), frozenset(use.consumers), use.purpose].append(key)
    rings = []
    for keys in alike.values():
        offsets = np.array([key[2] for key in keys])
        gaps = np.diff(offsets)
        distance = 8 if not len(gaps) else int(gaps.min())
        cuts = np.flatnonzero(gaps != distance) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(keys)], strict=True):
            rings += _by_site(keys[begin:end], uses)
    return rings


def _complete(uses: dict[tuple[int, int, int], BarrierUse]) -> None:
    """A launch may end before both sides have used a stage of a ring. What is known of the stage beside it, which has
    the same known side, holds for it, too."""
    open_ = {key for key, use in uses.items() if key[1] == MBARRIER and bool(use.producers) != bool(use.consumers)}
    while found := {key: whole for key in sorted(open_) if (whole := _whole_neighbour(key, uses)) is not None}:
        for key, whole in found.items():
            use = uses[key]
            use.producers, use.consumers = use.producers or set(whole.producers), use.consumers or set(whole.consumers)
            use.purpose = use.purpose or whole.purpose
        open_ -= set(found)


def _mark_returns(uses: dict[tuple[int, int, int], BarrierUse]) -> None:
    """A loader that does not wait in the first round finds its stages taken at its first wait, so that a barrier which
    gives stages back looks like one that says that they are filled. It gives them back where it comes from those who
    read what the loader loads, and no other of theirs was found free."""
    ends: dict[tuple[int, frozenset[str], frozenset[str]], list[BarrierUse]] = defaultdict(list)
    for (cta, kind, _), use in uses.items():
        if kind == MBARRIER:
            ends[cta, frozenset(use.producers), frozenset(use.consumers)].append(use)
    for (cta, producers, consumers), answers in ends.items():
        if consumers != {_LOADS} or producers == consumers or any(use.purpose == "empty" for use in answers):
            continue
        if any(use.purpose == "full" for use in ends.get((cta, consumers, producers), ())):
            for use in answers:
                use.purpose = "empty"


def _whole_neighbour(key: tuple[int, int, int], uses: dict[tuple[int, int, int], BarrierUse]) -> BarrierUse | None:
    """The mbarrier before or after this one in memory that is used by both sides and may be a stage of its ring."""
    use = uses[key]
    for offset in (-_SIZE, _SIZE):
        other = uses.get((key[0], MBARRIER, key[2] + offset))
        if other is None or not other.producers or not other.consumers or use.purpose not in ("", other.purpose):
            continue
        alike = other.producers == use.producers if use.producers else other.consumers == use.consumers
        if alike and not (use.sites and other.sites and use.sites.isdisjoint(other.sites)):
            return other
    return None


def _by_site(
    keys: list[tuple[int, int, int]], uses: dict[tuple[int, int, int], BarrierUse]
) -> list[list[tuple[int, int, int]]]:
    """Cut where a barrier is waited for at other source lines than all before it."""
    rings = [keys[:1]]
    sites = set(uses[keys[0]].sites)
    for key in keys[1:]:
        own = uses[key].sites
        if sites and own and sites.isdisjoint(own):
            rings.append([])
            sites = set()
        rings[-1].append(key)
        sites |= own
    return rings
