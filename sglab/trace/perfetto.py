"""Event logs as Chrome JSON traces, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sglab.gpu.events import EventLog

TIME = "issue order: one microsecond on this axis is one executed warp-instruction of the launch, not time"


def trace_events(log: EventLog) -> list[dict[str, Any]]:
    """The `traceEvents` of a log: a process per CTA, a thread per warp, and on it slices of consecutive instructions of
    one source line and spans of waiting. The axis is issue order."""
    events: list[dict[str, Any]] = []
    for cta, warp in np.unique(np.stack([log.cta, log.warp]), axis=1).T.tolist():
        name = f"CTA {cta}"
        events.append({"ph": "M", "name": "process_name", "pid": cta, "tid": 0, "args": {"name": name}})
        events.append({"ph": "M", "name": "thread_name", "pid": cta, "tid": warp, "args": {"name": f"warp {warp}"}})
        events += _warp_slices(log, cta, warp)
    events += _wait_slices(log)
    return events


def save_perfetto(log: EventLog, path: str | Path) -> None:
    """Writes a log as a trace file."""
    document = {
        "traceEvents": trace_events(log),
        "displayTimeUnit": "ms",
        "otherData": {"kernel": log.kernel, "clock": TIME},
    }
    Path(path).write_text(json.dumps(document, separators=(",", ":")))


def _warp_slices(log: EventLog, cta: int, warp: int) -> list[dict[str, Any]]:
    """Runs of instructions that follow each other at once and belong to one source line (or, without, one PTX line)."""
    at = np.flatnonzero((log.cta == cta) & (log.warp == warp))
    pcs = log.pc[at]
    label = _labels(log)[pcs]
    first = np.flatnonzero(np.r_[True, (np.diff(at) != 1) | (label[1:] != label[:-1])])
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
                "ts": int(at[begin]),
                "dur": int(at[end] - at[begin]) + 1,
                "args": {"ptx_line": instruction.ptx_line, "first": instruction.text, "instructions": end - begin + 1},
            }
        )
    return slices


def _wait_slices(log: EventLog) -> list[dict[str, Any]]:
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


def _labels(log: EventLog) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number per instruction, the same for instructions of one source line."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(one.source or one.ptx_line, len(numbers)) for one in log.code], np.int64)
