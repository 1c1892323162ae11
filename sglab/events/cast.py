"""The cast of a launch: its warps' roles and its barriers' names, for messages.

They come from the launch's event log where there is one, else from what every launch keeps count of: which instructions
each warp has executed, and who has arrived and waited at which barrier.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sglab.events.barrier_names import BarrierUse, name_uses
from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.roles import Role, Roles, roles_by_rank
from sglab.events.symbols import plain_name
from sglab.events.tables import MBARRIER, NAMED
from sglab.gpu import core
from sglab.gpu.device import Launch
from sglab.gpu.fault import Fault, Wait

Index = tuple[int, int, int]
Bits = npt.NDArray[np.bool_]  # by rank, warp, pc
_SAYS_LITTLE = ("idle", "compute")
_RANK_SHIFT = 24
_MOST_BARRIER_BYTES = 512  # of a shared variable that is taken for an array of mbarriers
_CTA = re.compile(r"CTA \((\d+), (\d+), (\d+)\)")
_WARP = re.compile(r"(CTA \(\d+, \d+, \d+\),? warp (\d+))(?! \()")
_MBARRIER = re.compile(r"\bmbarrier at shared address (0x[0-9a-f]+)")
_NAMED = re.compile(r"\bbarrier (\d+)\b")


class Cast(ABC):
    """Roles and names by CTA (coordinates in the grid). Empty strings mark what is not known."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._geometry = launch.geometry

    @abstractmethod
    def role(self, cta: Index, warp: int) -> str:
        """load, mma, softmax, …: Role.name of a warp."""

    @abstractmethod
    def several(self) -> bool:
        """Whether warps have different roles, so that it is worth showing them."""

    @abstractmethod
    def _name(self, cta: Index, kind: int, object_: int) -> str:
        """What the barrier of this kind and object is called."""

    def mbarrier(self, cta: Index, address: int) -> str:
        """The name of the mbarrier at a shared::cluster address in the cluster of `cta`."""
        owner = self._geometry.neighbour(self._geometry.linear(cta), address >> _RANK_SHIFT)
        place = self._geometry.coordinates(owner)
        symbol, name = self._symbol(address & 0xFFFFFF), self._name(place, MBARRIER, address)
        if symbol and not self.several():  # "idle→idle full" says nothing of a variable that has a name
            return symbol
        return f"{symbol} ({name})" if symbol and name else symbol or name

    def barrier(self, cta: Index, number: int) -> str:
        """The name of a named barrier, which ends in its number."""
        return self._name(cta, NAMED, number)

    def fault(self, fault: Fault) -> Fault:
        """The same, with its warps' roles and its barriers' names."""
        role = self.role(fault.cta, fault.warp) if fault.warp >= 0 else ""
        return replace(fault, cycle=tuple(self._wait(wait) for wait in fault.cycle), role=role)

    def _wait(self, wait: Wait) -> Wait:
        name = ""
        if wait.kind == "mbarrier":
            name = self.mbarrier(wait.cta, wait.object)
        elif wait.kind == "barrier":
            name = self.barrier(wait.cta, wait.object)
        waits = self.annotated(wait.waits, wait.cta)
        return replace(wait, waits=waits, role=self.role(wait.cta, wait.warp), barrier=name)

    def annotated(self, text: str, cta: Index) -> str:
        """A message with roles after warps, and barriers by name. cta: the one meant in lines that name none."""
        return "\n".join(self._annotated_line(line, cta) for line in text.split("\n"))

    def _annotated_line(self, line: str, cta: Index) -> str:
        def warp(found: re.Match[str]) -> str:
            x, y, z = (int(one) for one in _CTA.search(found[1]).groups())  # type: ignore[union-attr]
            role = self.role((x, y, z), int(found[2])) if self.several() else ""
            return f"{found[1]} ({role})" if role else found[1]

        def mbarrier(found: re.Match[str]) -> str:
            name = self.mbarrier(here, int(found[1], 16))
            return f"mbarrier {name} at shared address {found[1]}" if name else found[0]

        def named(found: re.Match[str]) -> str:
            return (self.barrier(here, int(found[1])) if self.several() else "") or found[0]

        first = _CTA.search(line)
        here = (int(first[1]), int(first[2]), int(first[3])) if first else cta
        return _WARP.sub(warp, _NAMED.sub(named, _MBARRIER.sub(mbarrier, line)))

    def _symbol(self, offset: int) -> str:
        for name, begin, nbytes in self._shared_variables:
            if begin <= offset < begin + min(nbytes, _MOST_BARRIER_BYTES) and nbytes <= _MOST_BARRIER_BYTES:
                return f"{name}[{(offset - begin) // 8}]" if nbytes > 8 else name
        return ""

    @cached_property
    def _shared_variables(self) -> list[tuple[str, int, int]]:
        rows = self._launch.kernel.emulated.shared_variables
        return [(plain_name(name), begin, nbytes) for name, begin, nbytes in rows]


class LogCast(Cast):
    """Of a recorded launch. Its roles are found when a message needs them."""

    def __init__(self, launch: Launch, log: RecordedLaunch) -> None:
        super().__init__(launch)
        self._log = log

    @property
    def _roles(self) -> Roles:
        return self._log.roles

    def role(self, cta: Index, warp: int) -> str:
        return self._roles.of(self._linear(cta), warp).name

    def several(self) -> bool:
        return _differ(self._roles.names)

    def _name(self, cta: Index, kind: int, object_: int) -> str:
        return self._roles.barrier(self._linear(cta), kind, object_)

    def _linear(self, cta: Index) -> int:
        return int(self._geometry.linear(cta))


class TallyCast(Cast):
    """Of a launch that was not recorded. tally: as the compiled core has it: 64-bit words per warp; for each warp of a
    cluster a bit per instruction that it has executed; the same for those that it may reach, where the launch has
    failed; and the barriers' users."""

    def __init__(self, launch: Launch, tally: core.Tally) -> None:
        super().__init__(launch)
        self._words, self._visited, self._ahead, self._rows = tally

    def role(self, cta: Index, warp: int) -> str:
        return self._roles[self._rank(cta)][warp].name

    def several(self) -> bool:
        return _differ(role.name for roles in self._roles for role in roles)

    def _name(self, cta: Index, kind: int, object_: int) -> str:
        return self._names.get((self._rank(cta), kind, object_), "")

    def _rank(self, cta: Index) -> int:
        return int(self._geometry.rank(self._geometry.linear(cta)))

    @cached_property
    def _roles(self) -> list[list[Role]]:
        """By rank and warp."""
        done = self._bits(self._visited)
        roles = roles_by_rank(self._launch.kernel.code, _own(done).astype(np.int64))
        if self._ahead:
            self._foresee(roles, done, done | self._bits(self._ahead))
        return roles

    def _foresee(self, roles: list[list[Role]], done: Bits, whole: Bits) -> None:
        """A warp that has done little before the launch failed has the role of what it would have done, unless that may
        be what warps of several other roles do: then it had not reached the point where they diverge."""
        foreseen = roles_by_rank(self._launch.kernel.code, _own(whole).astype(np.int64))
        own = _own(done)
        for rank, of_rank in enumerate(roles):
            for warp in [warp for warp, role in enumerate(of_rank) if role.name in _SAYS_LITTLE]:
                others = {
                    role.name
                    for role, bits in zip(of_rank, own[rank], strict=True)
                    if role.name not in _SAYS_LITTLE and (bits & whole[rank, warp]).sum() > bits.sum() // 2
                }
                if len(others) < 2:
                    of_rank[warp] = foreseen[rank][warp]

    def _bits(self, words: bytes) -> Bits:
        bits = np.unpackbits(np.frombuffer(words, np.uint8), bitorder="little").astype(bool)
        return bits.reshape(self._geometry.ranks, -1, self._words * 64)[:, :, : len(self._launch.kernel.code)]

    @cached_property
    def _names(self) -> dict[tuple[int, int, int], str]:
        chains = [tuple(row[3]) for row in self._launch.kernel.code.rows]
        sites: dict[object, int] = {}
        warps = len(self._roles[0])

        def played(slots: list[int]) -> set[str]:
            return {self._roles[slot // warps][slot % warps].name for slot in slots}

        uses = {}
        for kind, rank, object_, arrivers, waiters, purpose, pcs in self._rows:
            use = BarrierUse(played(arrivers), played(waiters), purpose)
            use.sites = {sites.setdefault(chains[pc], len(sites)) for pc in pcs if chains[pc]}
            uses[rank, kind, object_] = use
        order = dict.fromkeys(role.name for roles in self._roles for role in roles)
        return {(one.cta, one.kind, one.object): one.name for one in name_uses(uses, tuple(order))}


def _own(bits: Bits) -> Bits:
    """Less what all warps of a CTA do, which distinguishes none."""
    own = bits & ~bits.all(axis=1, keepdims=True)
    return np.where(own.any(axis=2, keepdims=True), own, bits)


def _differ(names: Iterable[str]) -> bool:
    return len({*names} - {"idle"}) > 1
