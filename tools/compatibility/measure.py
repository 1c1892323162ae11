"""Runs a case, in a process of its own, and makes its row."""

from __future__ import annotations

import multiprocessing
import re
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import torch

from sglab.gpu.errors import CompileError, LaunchError, LaunchWarning
from sglab.gpu.fault import KernelError
from tools.compatibility.case import Case, Check, RefusedError, Row
from tools.compatibility.meter import Meter

_SHOWN = 240  # letters of a message


def measured(family: str, version: str, case: Case, limit: float) -> Row:
    """The row of a case.

    Args:
        limit: seconds for the run without sanitizers, compiling included, and as many again with them.
    """
    unknown = Row(family, case.kernel, version, case.arch, "failed", case.reference)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(case, unknown, theirs))
    child.start()
    theirs.close()
    try:
        plain = _received(ours, child, limit, unknown)
        if plain.result not in ("right", "wrong"):
            return replace(plain, findings=None)
        watched = _received(ours, child, limit, unknown)
    finally:
        child.kill()
        child.join()
    if watched.result == "wrong" and plain.result == "right":
        return replace(plain, result="wrong", message="wrong with sanitizers only", findings=watched.findings)
    return replace(plain, findings=watched.findings if watched.result == plain.result else None)


def _received(rows: Connection, child: BaseProcess, limit: float, unknown: Row) -> Row:
    try:
        return rows.recv() if rows.poll(limit) else replace(unknown, message=f"not finished after {limit:.0f} s")
    except EOFError:
        child.join()
        return replace(unknown, message=f"the process died: exit code {child.exitcode}")


def _send(case: Case, unknown: Row, into: Connection) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", LaunchWarning)
    for sanitize in (False, True):
        torch.manual_seed(0)
        into.send(_run(case, sanitize, unknown))


def _run(case: Case, sanitize: bool, unknown: Row) -> Row:
    meter = Meter(case.arch, sanitize, case.scheduler)
    try:
        checks = case.run(meter)
    except (LaunchError, CompileError, RefusedError) as error:
        return replace(unknown, result="refused", message=_short(error))
    except KernelError as error:
        return replace(unknown, message=_short(error), findings=dict(meter.found))
    except Exception as error:
        return replace(unknown, message=_short(f"{type(error).__name__}: {error}"))
    if not checks or not meter.launches:
        return replace(unknown, message="nothing was launched or compared")
    faults = [fault for fault in map(_fault, checks) if fault]
    return replace(
        unknown,
        result="wrong" if faults else "right",
        message="; ".join(faults),
        worst=max(map(_worst, checks)),
        launches=meter.launches,
        warp_instructions=meter.warp_instructions,
        seconds=meter.seconds,
        findings=dict(meter.found),
    )


def _fault(check: Check) -> str:
    """What is wrong with an output; empty if it is right."""
    got, expected = torch.as_tensor(check.got), torch.as_tensor(check.expected)
    if got.shape != expected.shape:
        return f"shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
    worst = _worst(check)
    return f"{worst:.3g} times what is tolerated" if not worst <= 1 else ""


def _worst(check: Check) -> float:
    """The largest error in units of what is tolerated. A NaN or an infinity is right only where it is expected."""
    got, expected = (torch.as_tensor(each).to(torch.float64) for each in (check.got, check.expected))
    if got.shape != expected.shape:
        return float("inf")
    same = (got == expected) | (got.isnan() & expected.isnan())
    error = (got - expected).abs() / (check.atol + check.rtol * expected.abs())
    error = torch.where(same, 0.0, torch.where(error.isnan(), torch.inf, error))
    return float(error.max()) if error.numel() else 0.0


def _short(error: object) -> str:
    """A message on one line, without what differs from machine to machine and from run to run."""
    text = re.sub(r"/\S*/site-packages/", "", " ".join(str(error).split()))
    text = re.sub(r"\b0x[0-9a-f]{9,}\b", "0x…", text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
