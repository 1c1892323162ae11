"""Event logs as Chrome JSON traces, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sglab.events.axis import Axis, issue_order, modelled_time
from sglab.events.columns import EventColumns
from sglab.events.log import COPY_KINDS, MMA_KINDS, TMEM_KINDS
from sglab.events.roles import Roles
from sglab.events.tables import Array
from sglab.events.timing import Spans, TimedLog


def trace_events(log: EventColumns, axis: Axis | None = None) -> list[dict[str, Any]]:
    """The `traceEvents` of a log: a process per CTA, a thread per warp, and on it slices of consecutive instructions of
    one source line and spans of waiting; beside the warps, tracks of asynchronous operations from issue until they
    are carried out; and arrows from what ended a barrier's phase to the waits that it ended.

    Args:
        axis: where all of this is; None: issue order.
    """
    timed, axis = axis is not None, axis or issue_order(log)
    events: list[dict[str, Any]] = []
    roles = Roles(log)
    for cta, warp in np.unique(np.stack([log.cta, log.warp]), axis=1).T.tolist():
        name = f"CTA {cta}"
        events.append({"ph": "M", "name": "process_name", "pid": cta, "tid": 0, "args": {"name": name}})
        name = f"warp {warp}: {roles.of(cta, warp).name}"
        events.append({"ph": "M", "name": "thread_name", "pid": cta, "tid": warp, "args": {"name": name}})
        events += _warp_slices(log, axis, cta, warp)
    if not timed:
        events += _wait_slices(log)
    events += _operations(log, axis)
    events += _releases(log, axis)
    return events


def save_perfetto(log: EventColumns | TimedLog, path: str | Path) -> None:
    """Writes a log as a trace file: in the order of issue, or, of log.timed(...), in modelled time."""
    axis = modelled_time(log) if isinstance(log, TimedLog) else None
    recorded = log.log if isinstance(log, TimedLog) else log
    document = {
        "traceEvents": trace_events(recorded, axis),
        "displayTimeUnit": "ns" if axis else "ms",
        "otherData": {"kernel": recorded.kernel, "clock": (axis or issue_order(recorded)).meaning},
    }
    Path(path).write_text(json.dumps(document, separators=(",", ":")))


def _warp_slices(log: EventColumns, axis: Axis, cta: int, warp: int) -> list[dict[str, Any]]:
    """Runs of instructions in direct succession that belong to one source line (or, without, one PTX line)."""
    at = np.flatnonzero((log.cta == cta) & (log.warp == warp))
    pcs = log.pc[at]
    label = _labels(log)[pcs]
    start, until = axis.start[at], axis.until[at]
    first = np.flatnonzero(np.r_[True, (start[1:] > until[:-1]) | (label[1:] != label[:-1])])
    last = np.r_[first[1:], at.size] - 1
    slices = []
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        instruction = log.code[int(pcs[begin])]
        source = instruction.source
        slices.append(
            {
                "ph": "X",
                "name": f"{source[0]}:{source[1]}" if source else instruction.opcode,
                "cat": instruction.kind,
                "pid": cta,
                "tid": warp,
                "ts": start[begin].item(),
                "dur": (until[end] - start[begin]).item(),
                "args": {"ptx_line": instruction.ptx_line, "first": instruction.text, "instructions": end - begin + 1},
            }
        )
    return slices


def _wait_slices(log: EventColumns) -> list[dict[str, Any]]:
    waits = log.waits
    return [
        {
            "ph": "X",
            "name": f"waits at {log.code[int(log.pc[event])].opcode}",
            "cat": "wait",
            "pid": int(log.cta[event]),
            "tid": int(log.warp[event]),
            "ts": since,
            "dur": event - since,
            "args": {"ptx_line": log.code[int(log.pc[event])].ptx_line},
        }
        for event, since in zip(waits.event.tolist(), waits.since.tolist(), strict=True)
        if event > since
    ]


def _operations(log: EventColumns, axis: Axis) -> list[dict[str, Any]]:
    copies, mmas, tmem = log.copies, log.mmas, log.tmem
    moved = zip(copies.kind.tolist(), copies.nbytes.tolist(), strict=True)
    shapes = zip(mmas.kind.tolist(), mmas.m.tolist(), mmas.n.tolist(), mmas.k.tolist(), strict=True)
    reached = zip(tmem.kind.tolist(), tmem.columns.tolist(), strict=True)
    tracks: list[tuple[str, Array, Spans, list[str]]] = [
        ("TMA and copies", copies.event, axis.copies, [f"{COPY_KINDS[kind]}, {nbytes} B" for kind, nbytes in moved]),
        ("MMA", mmas.event, axis.mmas, [f"{MMA_KINDS[kind]} {m}x{n}x{k}" for kind, m, n, k in shapes]),
        ("TMEM", tmem.event, axis.tmem, [f"{TMEM_KINDS[kind]}, {columns} columns" for kind, columns in reached]),
    ]
    return [event for track in tracks for event in _spans(log, *track)]


def _spans(log: EventColumns, track: str, issued: Array, spans: Spans, labels: list[str]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    rows = zip(issued.tolist(), spans.start.tolist(), spans.end.tolist(), labels, strict=True)
    for number, (event, begin, end, label) in enumerate(rows):
        if begin != begin:  # NaN: the axis has no place for it
            continue
        common = {"cat": track, "name": track, "id": f"{track} {number}", "pid": int(log.cta[event])}
        place = {"ptx_line": log.code[int(log.pc[event])].ptx_line, "warp": int(log.warp[event]), "operation": label}
        events.append({"ph": "b", "ts": begin, "args": place, **common})
        events.append({"ph": "e", "ts": end, **common})
    return events


def _releases(log: EventColumns, axis: Axis) -> list[dict[str, Any]]:
    """Arrows from the last arrival (of an operation: from its issue) to the instruction that waited."""
    waits, phases = log.waits, log.phases
    events: list[dict[str, Any]] = []
    for number, (event, phase) in enumerate(zip(waits.event.tolist(), waits.phase.tolist(), strict=True)):
        if phase < 0:
            continue
        by = int(phases.event[phase])
        common = {"cat": "release", "name": "release", "id": number}
        events.append(
            {"ph": "s", "ts": axis.start[by].item(), "pid": int(log.cta[by]), "tid": int(log.warp[by]), **common}
        )
        end = {"pid": int(log.cta[event]), "tid": int(log.warp[event])}
        events.append({"ph": "f", "bp": "e", "ts": max(axis.start[by], axis.start[event]).item(), **end, **common})
    return events


def _labels(log: EventColumns) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number per instruction, the same for instructions of one source line."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(one.source or one.ptx_line, len(numbers)) for one in log.code], np.int64)
