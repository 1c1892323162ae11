"""The places at which a launch under control stops; see Session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from sglab.gpu.errors import SessionError
from sglab.gpu.session_log import SessionLog
from sglab.gpu.session_state import CtaName, WarpName
from sglab.gpu.state import Warp


class SessionBreakpoints(SessionLog):
    """Breakpoints: on instructions, on memory, on the phases of barriers. Each has a number, for `unbreak`."""

    def break_at(
        self,
        line: int | None = None,
        ptx_line: int | None = None,
        warp: WarpName | None = None,
        file: str | None = None,
        opcode: str | None = None,
        cta: CtaName | None = None,
    ) -> int:
        """Stops in front of instructions of a source line, of a PTX line, or whose mnemonic starts like `opcode`
        ("bar.", "st.global"). Given several, an instruction must match all. `warp` and `cta` limit it to some warps.

        file: where several source files have the line: the end of its path
        returns: a number for `unbreak`
        """
        return self.break_code(self.code.find(line=line, ptx_line=ptx_line, file=file, opcode=opcode), warp, cta)

    def break_code(self, pcs: Sequence[int], warp: WarpName | None = None, cta: CtaName | None = None) -> int:
        """Stops in front of these instructions, given by pc; see `break_at`."""
        if warp is None:
            return self._session.break_code(pcs, -1 if cta is None else self._cta(cta, running=False), -1)
        if isinstance(warp, Warp):
            return self._session.break_code(pcs, warp.cta.linear, warp.index)
        return self._session.break_code(pcs, self._cta(cta, running=False), warp)

    def watch(
        self,
        memory: Any,
        nbytes: int | None = None,
        access: Literal["write", "read", "any"] = "write",
        cta: CtaName | None = None,
    ) -> int:
        """Stops in front of instructions that access some memory, and behind asynchronous writes to it.

        memory: a tensor (global memory), or an offset in the shared memory of `cta`
        nbytes: of shared memory, 4 unless given; of a tensor, its size
        """
        if access not in ("write", "read", "any"):
            raise SessionError(f"access must be 'write', 'read' or 'any'; got {access!r}")
        reads, writes = access != "write", access != "read"
        if hasattr(memory, "data_ptr"):
            size = memory.numel() * memory.element_size() if nbytes is None else nbytes
            return self._ask(self._session.break_watch, "global", memory.data_ptr(), size, reads, writes, -1)
        index = self._cta(cta)
        return self._ask(self._session.break_watch, "shared", int(memory), nbytes or 4, reads, writes, index)

    def watch_tensor_memory(self, column: int, columns: int = 1, cta: CtaName | None = None) -> int:
        """Stops behind every change of some columns of a CTA's tensor memory: by tcgen05.mma, cp, shift, or st at its
        wait. The first allocation is no change."""
        if column < 0 or columns < 1:
            raise SessionError(f"tensor memory has columns 0 to 511; got {columns} columns from {column}")
        return self._ask(self._session.break_tensor_watch, column, columns, self._cta(cta))

    def break_phase(
        self,
        barrier: int | None = None,
        mbarrier: int | None = None,
        cta: CtaName | None = None,
        cluster: bool = False,
    ) -> int:
        """Stops behind the instruction that ends a phase of a named barrier (0 to 15), of the mbarrier at an offset in
        shared memory, or of the barrier of the CTA's cluster."""
        if (barrier is not None) + (mbarrier is not None) + cluster != 1:
            raise SessionError(
                "give one of barrier=, a number from 0 to 15, mbarrier=, a shared-memory offset, and cluster=True"
            )
        if cluster:
            return self._ask(self._session.break_barrier, "cluster", 0, self._cta(cta))
        if barrier is not None:
            return self._ask(self._session.break_barrier, "barrier", barrier, self._cta(cta))
        return self._ask(self._session.break_barrier, "mbarrier", mbarrier, self._cta(cta))

    def unbreak(self, number: int) -> None:
        """Takes a breakpoint or watch away."""
        if not self._session.unbreak(number):
            raise SessionError(f"there is no breakpoint {number}")

    def _break_events(
        self,
        warp: WarpName | None,
        role: str | None,
        barrier: int | None,
        mbarrier: int | None,
        kind: str | None,
        cta: CtaName | None,
    ) -> list[int]:
        """Breakpoints that stop where Session.next_event should."""
        if barrier is not None and mbarrier is not None:
            raise SessionError("give barrier= or mbarrier=, not both")
        warps = self._chosen_warps(warp, role, cta)
        pcs = self._event_pcs(kind)
        if barrier is None and mbarrier is None:
            return [self._session.break_code(pcs, of_cta, number) for of_cta, number in warps]
        name, which = ("barrier", barrier) if mbarrier is None else ("mbarrier", mbarrier)
        owner = self._cta(cta)
        pcs = [pc for pc in pcs if self.code.rows[pc][1].startswith(_BARRIER_OPCODES[name])]
        numbers = sorted({number for _, number in warps})
        made = [self._ask(self._session.break_use, name, which, pcs, owner, number) for number in numbers]
        if warp is None and role is None and kind is None:
            made.append(self._ask(self._session.break_barrier, name, which, owner))
        return made

    def _event_pcs(self, kind: str | None) -> list[int]:
        by_kind = self.code.by_kind
        if kind is not None and (not kind or kind not in by_kind):
            known = ", ".join(sorted(by_kind.keys() - {""}))
            raise SessionError(f"the kernel has no instruction of the kind {kind!r}; it has {known}")
        return by_kind[kind or ""]

    def _chosen_warps(self, warp: WarpName | None, role: str | None, cta: CtaName | None) -> list[tuple[int, int]]:
        """(CTA, warp) pairs; -1 for all."""
        of_cta = -1 if cta is None else self._cta(cta, running=False)
        if warp is not None and role is not None:
            raise SessionError("give warp= or role=, not both")
        if isinstance(warp, Warp):
            return [(warp.cta.linear, warp.index)]
        if warp is not None:
            return [(self._cta(cta, running=False), warp)]
        if role is None:
            return [(of_cta, -1)]
        found = [pair for pair in self.roles.warps(role) if of_cta in (-1, pair[0])]
        if not found:
            raise SessionError(f"no warp has the role {role!r}; there are {', '.join(self.roles.names)}")
        return found

    @contextmanager
    def _temporary(self, breakpoints: list[int]) -> Iterator[None]:
        try:
            yield
        finally:
            for number in breakpoints:
                self.unbreak(number)


_BARRIER_OPCODES = {
    "barrier": (
        "bar.sync",
        "bar.red",
        "bar.arrive",
        "bar.cta",
        "barrier.sync",
        "barrier.red",
        "barrier.arrive",
        "barrier.cta",
    ),
    "mbarrier": ("mbarrier.", "cp.async.mbarrier.arrive"),
}
