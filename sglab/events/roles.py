"""Warp roles and the names of barriers, from a launch's event log.

A warp's role is what the function that it runs is called (load, mma, softmax, …), where the PTX names inlined
functions; else it follows from what the warp does: issue TMA or cp.async, issue wgmma or tcgen05.mma, take
exponentials, … Idle is who does none of this, computes nothing, leaves shared memory alone and meets the others at
barriers only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.events.barrier_names import BarrierName, name_barriers
from sglab.events.columns import EventColumns
from sglab.gpu import core
from sglab.gpu.code import Code

# Words in the names of functions, and the roles that they indicate. The first that matches counts.
_WORDS = (
    ("page table", r"page_?table"),
    ("correction", r"correction|rescale"),
    ("softmax", r"softmax"),
    ("epilogue", r"epilogue|store_o|writeback"),
    ("load", r"load|producer|fetch"),
    ("mma", r"mma(?!_async)|multiply|gemm|umma"),
    ("", r"^compute|^attend|consumer|^math"),  # what it does says more
)
# Wrappers of single instructions are called like roles as well.
_INSTRUCTION = re.compile(
    r"^(tma|ld|st|cp|tcgen05|tmem|wgmma|umma|mbarrier|copy)_|_(tile|async|ldsm|fragment|2d|3d|4d|5d)$"
)
_LEAST_SHARE = 0.2  # of the instructions that a warp executes


@dataclass(frozen=True)
class Role:
    """What a warp does in a launch.

    Attributes:
        name: load, page table, mma, math (multiplies and takes exponentials), softmax, correction, epilogue, compute,
            idle.
        does: what it was seen to do: load, mma, softmax, correction, epilogue, store, compute.
        function: the function of the source that it runs, if the name comes from there.
    """

    name: str
    does: tuple[str, ...]
    function: str = ""


class Roles:
    """The roles of a launch's warps. names: the roles there are, in the order of their first warps."""

    def __init__(self, log: EventColumns) -> None:
        self._log = log
        self._of = _roles(log)
        self.names: tuple[str, ...] = tuple(dict.fromkeys(role.name for role in self._of.values()))

    def of(self, cta: int, warp: int) -> Role:
        """The role of a warp of a CTA, given by its linear index in the grid. A warp that executed nothing is idle."""
        return self._of.get((cta, warp), Role("idle", ()))

    def warps(self, role: str) -> list[tuple[int, int]]:
        """The warps with a role, as (CTA, warp)."""
        return [place for place, found in self._of.items() if found.name == role]

    def __iter__(self) -> Iterator[tuple[tuple[int, int], Role]]:
        """((CTA, warp), role), by CTA and warp."""
        return iter(self._of.items())

    @cached_property
    def event(self) -> npt.NDArray[np.uint8]:
        """The role of every event's warp, as an index into `names`."""
        log = self._log
        warps = int(log.warp.max()) + 1 if len(log) else 1
        table = np.zeros((int(log.cta.max()) + 1 if len(log) else 1) * warps, np.uint8)
        for (cta, warp), role in self._of.items():
            table[cta * warps + warp] = self.names.index(role.name)
        return table[log.cta * np.uint32(warps) + log.warp]

    @cached_property
    def barriers(self) -> list[BarrierName]:
        """The barriers of the launch, with names; by CTA, kind and object."""
        return name_barriers(self._log, self.names, self.event)

    def barrier(self, cta: int, kind: int, object_: int) -> str:
        """The name of a barrier: cta, kind and object as in EventLog.phases. Empty: the launch did not use it."""
        return self._barrier_names.get((cta, kind, object_), "")

    @cached_property
    def _barrier_names(self) -> dict[tuple[int, int, int], str]:
        return {(one.cta, one.kind, one.object): one.name for one in self.barriers}


def _roles(log: EventColumns) -> dict[tuple[int, int], Role]:
    """Warps of the same index in CTAs of the same rank play the same role."""
    ranks = log.geometry.cluster[0] * log.geometry.cluster[1] * log.geometry.cluster[2]
    ctas, warps = (int(log.cta.max()) + 1, int(log.warp.max()) + 1) if len(log) else (0, 0)
    rank_of = _ranks(log, ctas, ranks)
    place = (rank_of[log.cta] * warps + log.warp) * len(log.code) + log.pc
    times = np.bincount(place, minlength=ranks * warps * len(log.code)).reshape(ranks, warps, len(log.code))
    found = roles_by_rank(log.code, times)
    return {(cta, warp): found[rank_of[cta]][warp] for cta in range(ctas) for warp in range(warps)}


def roles_by_rank(code: Code, times: npt.NDArray[np.int64]) -> list[list[Role]]:
    """The roles of warps by their CTA's rank and their index, from how often they executed each instruction (rank,
    warp, pc). Warps of the same index play the same role in CTAs of other ranks, unless they do something else: the
    odd CTA of a pair issues no multiplications, but its warp is there for them."""
    functions = _outer_functions(code)
    common = (times > 0).all(axis=1, keepdims=True)  # what all warps of a CTA execute makes none of them different
    own = np.where(common, 0, times)
    roles = [
        [_role(code, *counts, functions) for counts in zip(of_rank, own_of_rank, strict=True)]
        for of_rank, own_of_rank in zip(times, own, strict=True)
    ]
    for warp in range(times.shape[1]):
        busy = [of_rank[warp] for of_rank in roles if of_rank[warp].name not in ("idle", "compute")]
        for of_rank in roles:
            if busy and of_rank[warp].name in ("idle", "compute"):
                of_rank[warp] = busy[0]
    if _specialised(code, roles):
        return roles
    return [
        [_plain(role, _takes_part(code, mine)) for role, mine in zip(of_rank, counts, strict=True)]
        for of_rank, counts in zip(roles, times, strict=True)
    ]


def _specialised(code: Code, roles: list[list[Role]]) -> bool:
    """Whether the code gives its warps roles: it names functions for them, or some feed or multiply for others. A
    launch that ended before its first product does not show for whom a warp loaded: perhaps for itself."""
    if any(role.function for of_rank in roles for role in of_rank):
        return True
    working = {role.name for of_rank in roles for role in of_rank if role.name != "idle"}
    if working.isdisjoint(("mma", "math")) and any(one.event == "mma" for one in code.effects):
        return False
    if working == {"load", "compute"} and all(
        "compute" in role.does for of_rank in roles for role in of_rank if role.name == "load"
    ):
        return False  # the warp that was elected to issue the copies computes like the others
    return len(working) > 1 and not working.isdisjoint(("load", "mma"))


def _plain(role: Role, works: bool) -> Role:
    """Without other roles around, a warp that loads, takes exponentials or stores computes: it has no role of its
    own. So does one that was taken for idle, if it takes part in what the others do."""
    if role.name == "idle" and works:
        return replace(role, name="compute", does=("compute",))
    return replace(role, name="compute") if role.name in ("load", "softmax", "epilogue") else role


def _takes_part(code: Code, times: npt.NDArray[np.int64]) -> bool:
    """Whether a warp works in shared memory or arrives at barriers again and again. times: how often it executed each
    instruction."""
    return _works_in_shared(code, times, times) or any(
        code.effects[pc].barrier == "arrive" for pc in _repeated(times, times)
    )


def _works_in_shared(code: Code, counted: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> bool:
    """Whether some of the counted instructions write shared memory, or read it in a loop. One that reads it once
    fetches an address, such as that of tensor memory."""

    def shared(pc: int) -> core.Effects | None:
        effects = code.effects[pc]
        return effects if effects.act in ("access", "matrix rows") and effects.space == "shared" else None

    writes = any(found.writes for pc in np.flatnonzero(counted).tolist() if (found := shared(pc)) is not None)
    return writes or any(shared(pc) is not None for pc in _repeated(counted, times))


def _repeated(counted: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> list[int]:
    """The counted instructions that a warp executed more often than its first one."""
    executed = np.flatnonzero(times)
    return np.flatnonzero(counted > times[executed[0]]).tolist() if len(executed) else []


def _ranks(log: EventColumns, ctas: int, ranks: int) -> npt.NDArray[np.int64]:
    """The rank in its cluster of each CTA."""
    return np.asarray(log.geometry.rank(np.arange(ctas)) if ranks > 1 else np.zeros(ctas, np.int64))


def _outer_functions(code: Code) -> list[tuple[str, str]]:
    """For each instruction, the outermost inlined function around it whose name indicates a role: (role, function)."""

    def role_of(name: str) -> tuple[str, str]:
        if not name or _INSTRUCTION.search(name):
            return ("", "")
        return next(((role, name) for role, words in _WORDS if re.search(words, name)), ("", ""))

    chains = [row[3] for row in code.rows]
    roles = {name: role_of(name) for name in {place[3] for chain in chains for place in chain}}
    return [next((roles[place[3]] for place in reversed(chain) if roles[place[3]][1]), ("", "")) for chain in chains]


def _role(code: Code, mine: Any, own: Any, functions: list[tuple[str, str]]) -> Role:
    """mine: how often each instruction was executed by the warps in question; own: of those that not all warps
    execute."""
    does = _behaviour(code, mine, own)
    executed = np.flatnonzero(mine)
    share: Counter[tuple[str, str]] = Counter()
    for pc in executed.tolist():
        share[functions[pc]] += int(mine[pc])
    function = ""
    named = [(count, found) for found, count in share.items() if found[1] and not _contradicts(found[0], does)]
    if named and max(named)[0] >= _LEAST_SHARE * sum(share.values()):
        name, function = max(named)[1]
        if name:
            return Role(name, does, function)
    if not does:
        return Role("idle", does)
    if "mma" in does:
        return Role("math" if "softmax" in does else "mma", does, function)
    return Role(next((name for name in ("softmax", "load", "epilogue") if name in does), "compute"), does, function)


def _contradicts(name: str, does: tuple[str, ...]) -> bool:
    """A function called load whose warps issue no copies, but compute, loads what they work on themselves."""
    return name == "load" and "load" not in does and not {"mma", "softmax"}.isdisjoint(does)


def _behaviour(code: Code, mine: Any, own: Any) -> tuple[str, ...]:
    pcs = np.flatnonzero(mine).tolist()
    effects = [code.effects[pc] for pc in pcs]
    classes = {code.rows[pc][2] for pc in pcs}
    copies = [one for one in effects if one.event == "copy"]
    seen = {
        "load": any(not _stores(one) for one in copies),
        "mma": any(one.event == "mma" for one in effects),
        "softmax": any(one.exponential for one in effects),
        "epilogue": False,
        "store": any(map(_stores, effects)),
        "compute": not classes.isdisjoint(("float", "half")) or _works_in_shared(code, own, mine),
    }
    seen["epilogue"] = seen["store"] and any(one.act == "tmem load" for one in effects)
    return tuple(name for name, holds in seen.items() if holds)


def _stores(effects: core.Effects) -> bool:
    """What leaves its result in global memory, or adds it to another: not atomics that return what was there."""
    if effects.event == "copy":
        return effects.space == "global" or effects.atomic
    return effects.act == "access" and effects.writes and not effects.returns and effects.space in ("global", "generic")
