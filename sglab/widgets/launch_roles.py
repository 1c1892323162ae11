"""Which role each warp of a cluster plays, by what it was seen to do."""

from __future__ import annotations

import numpy as np

from sglab.gpu.event_tables import MMA_KINDS, TMEM_KINDS

from .launch_trace import Array, ClusterTrace

IDLE_BELOW = 100
"""Instructions: a warp that executes fewer has found nothing to do."""
_WGMMA, _MMA_SYNC = MMA_KINDS.index("wgmma"), MMA_KINDS.index("mma.sync")


def warp_roles(trace: ClusterTrace) -> list[str]:
    """By row (rank · warps + warp): page_table, load, mma, softmax, epilogue, compute or idle.

    A warp is named by the most telling thing it does: matrix products together with exponentials are compute; matrix
    products mma; exponentials softmax; copies load; reads of tensor memory epilogue. What is left and not idle brings
    the others numbers: page_table where some warp loads, else compute.
    """
    log, rows = trace.log, len(trace.ctas) * trace.warps
    counts = np.bincount(trace.rows_of(trace.positions), minlength=rows)

    def doing(events: Array) -> Array:
        return np.asarray(np.bincount(trace.rows_of(events[trace.here(events)]), minlength=rows) > 0)

    kinds, tmem = log.mmas.kind, log.tmem
    exponentials = np.array(["ex2." in opcode for opcode in trace.opcodes])[log.pc[trace.positions]]
    loads = doing(log.copies.event)
    loads_tmem = doing(tmem.event[tmem.kind == TMEM_KINDS.index("ld")])
    mma = doing(log.mmas.event[kinds < _WGMMA])
    together = doing(log.mmas.event[kinds == _MMA_SYNC]) | _warpgroups(trace, doing(log.mmas.event[kinds == _WGMMA]))
    softmax = _often(trace, trace.positions[exponentials], rows)
    shown = [
        (counts < IDLE_BELOW, "idle"),
        (together, "compute"),
        (mma, "mma"),
        (softmax, "softmax"),
        (loads, "load"),
        (loads_tmem, "epilogue"),
    ]
    rest = "page_table" if loads.any() else "compute"
    return [next((role for is_so, role in shown if is_so[row]), rest) for row in range(rows)]


def _often(trace: ClusterTrace, events: Array, rows: int) -> Array:
    """Rows that do most of it: one exponential at the end is no softmax."""
    counts = np.bincount(trace.rows_of(events), minlength=rows)
    return np.asarray(counts > max(1, counts.max(initial=0) // 8))


def _warpgroups(trace: ClusterTrace, first: Array) -> Array:
    """wgmma is logged for the first of four warps."""
    rows = np.arange(len(first))
    return np.asarray(first[rows - rows % trace.warps % 4])
