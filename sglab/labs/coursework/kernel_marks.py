"""What the labs with kernels share: symptoms that the emulator reports, as known wrong ideas, and marks from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sglab.labs.exercises import Run
from sglab.labs.lab import Exercise, Idea, Mark

Report = dict[str, Any]
SYMPTOMS = {
    "hang": "The kernel never ends: threads wait for an arrival, bytes or a phase that does not come. Count them.",
    "out_of_bounds": "It reaches outside its tensors: what is beyond the last element must not be touched.",
    "missing_mbarrier_wait": "It reads what a bulk copy brings without waiting for the phase of its mbarrier.",
    "missing_cp_async_wait": "It reads what cp.async brings before it is sure to be there: "
    "wait_group waits for a thread's "
    "own copies, __syncthreads for the other threads, and a stage is free only when all have read it.",
    "missing_proxy_fence": "Plain stores to shared memory are seen by wgmma and bulk copies "
    "only after fence.proxy.async.",
    "missing_init_fence": "An mbarrier is used before its initialisation is visible to all: fence, and __syncthreads.",
    "missing_wgmma_fence": "Registers are touched, then read by wgmma, without wgmma.fence between.",
    "missing_wgmma_wait": "The accumulators are read before wgmma.wait_group says that the products are done.",
    "shared_race": "Threads touch the same shared memory with no barrier between a write and another's access.",
    "global_race": "CTAs or threads touch the same global memory and nothing orders them: "
    "use an atomic, or share the work.",
    "arrivals": "An mbarrier gets more arrivals in a phase than it was made for: someone "
    "arrives again without waiting first.",
    "uninitialised": "It reads memory that nothing has written.",
    "divergent_barrier": "Not all threads come to a barrier that all must come to: no __syncthreads in a branch.",
    "nan": "There is NaN in the result: -inf - (-inf), 0 · inf or 0 / 0.",
    "nothing": "Nothing has been written: the output is as it was before the launch.",
}
_KINDS = {
    "uninitialised_read": "uninitialised",
    "mbarrier_arrival_underflow": "arrivals",
    "out_of_bounds": "out_of_bounds",
    **{name: name for name in SYMPTOMS if name.startswith("missing_")},
}


def symptom_ideas(*left_out: str) -> tuple[Idea, ...]:
    return tuple(Idea(name, text) for name, text in SYMPTOMS.items() if name not in left_out)


def failure(report: Report) -> str:
    """Why it did not run to its end; empty where it did."""
    return str(report.get("failed", ""))


def found(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """All that the sanitizers hold for errors, but for lanes of one instruction that store to the same shared address:
    in its reductions Triton does that on purpose."""
    return [one for one in _told(reports) if one["severity"] == "error"]


def _told(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Errors, and the warning that tells of a race with an atomic."""
    every = [one for report in reports for launch in report["launches"] for one in launch.get("findings", ())]
    return [
        one
        for one in every
        if (one["severity"] == "error" and (one["kind"], one["space"]) != ("lanes_collide", "shared"))
        or one["kind"] == "plain_read_beside_atomic"
    ]


def symptom(reports: Sequence[Report], results: Sequence[Any] = ()) -> str:
    """The known idea that the emulator's findings tell of; empty where they tell of none."""
    names = [_of(one) for one in _told(reports)]
    for name in SYMPTOMS:
        if name in names:
            return name
    for text in (failure(report).lower() for report in reports):
        if any(word in text for word in ("outside", "out of bounds", "beyond", "no memory", "misaligned")):
            return "out_of_bounds"
        if "barrier" in text and ("exited" in text or "diverge" in text):
            return "divergent_barrier"
        if any(word in text for word in ("deadlock", "wait", "never", "limit", "instructions", "ends")):
            return "hang"
    if any(np.isnan(np.asarray(each, float)).any() for each in results):
        return "nan"
    return ""


def _of(one: Mapping[str, Any]) -> str:
    kind = str(one["kind"])
    if kind in _KINDS:
        return _KINDS[kind]
    if kind.endswith("_race") or kind in (
        "plain_read_beside_atomic",
        "missing_warp_sync",
        "lanes_collide",
        "lost_update",
    ):
        return "shared_race" if one["space"] == "shared" else "global_race"
    if "barrier" in str(one["detector"]) and "diverg" in str(one["message"]):
        return "divergent_barrier"
    return ""


def said(reports: Sequence[Report]) -> str:
    """The first thing that went wrong, in the emulator's words."""
    for one in found(reports):
        line = f" (line {one['line']})" if one["line"] else ""
        return f"{one['kind']}{line}: {one['message']}"
    return next((failure(report) for report in reports if failure(report)), "")


def unwritten(runs: Sequence[Run], reports: Sequence[Report]) -> bool:
    """Whether all launches came to their end and left their outputs as they were."""
    return not any(map(failure, reports)) and all(
        np.array_equal(report["buffers"][name], run.buffers[name], equal_nan=True)
        for run, report in zip(runs, reports, strict=True)
        for name in run.results
    )


def clean(reports: Sequence[Report]) -> bool:
    return not found(reports) and not any(map(failure, reports))


def total(report: Report, figure: str) -> float:
    """A figure summed over a run's launches."""
    return float(sum(launch.get(figure, 0) for launch in report["launches"]))


def executed(report: Report, opcode: str) -> int:
    """Executions of the instructions whose name begins so."""
    return sum(
        times
        for launch in report["launches"]
        for name, times in launch.get("opcodes", {}).items()
        if name.startswith(opcode)
    )


def close(given: Any, truth: Any, tolerance: float) -> bool:
    """Every element within the tolerance, relative and absolute; NaN never."""
    given, truth = np.asarray(given, np.float64), np.asarray(truth, np.float64)
    return given.shape == truth.shape and bool((np.abs(given - truth) <= tolerance * (1 + np.abs(truth))).all())


def marks(
    exercise: Exercise,
    right: Mapping[str, bool | float],
    reports: Sequence[Report],
    idea: str,
    texts: Mapping[str, str] | None = None,
) -> list[Mark]:
    """A mark per criterion of `right`, in the rubric's order; those that lost points say why.

    Args:
        idea: the known idea that explains the failure; empty where none does.
        texts: feedback by criterion.
    """
    out = []
    for criterion in exercise.criteria:
        share = float(right[criterion.id])
        if share == 1:
            out.append(Mark(criterion.id, 1.0))
            continue
        feedback = exercise.feedback_of(idea) if idea else ""
        parts = [feedback, (texts or {}).get(criterion.id, ""), said(reports)[:700]]
        out.append(Mark(criterion.id, share, " ".join(part for part in parts if part), idea))
    return out
