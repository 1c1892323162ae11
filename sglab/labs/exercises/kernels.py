"""Exercises in which kernels are written: CUDA C++ for a given launch, or Python that launches kernels of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sglab.labs.lab import STARTERS, Exercise, Mark, Outcome
from sglab.labs.launches import build, capture, emulate
from sglab.labs.sandbox import COMPILING, EMULATING, LAUNCHING, Bench, Ended


@dataclass(frozen=True)
class Run:
    """One run of a submission's kernels.

    Attributes:
        name: for the judge.
        buffers: what memory holds at first, by name.
        results: buffers that are judged.
        launch: of a CudaExercise, the launch but for its PTX: entry, grid, block, args, smem.
        args: of a HostExercise, names of buffers and plain values.
        options: of the emulation: pages, banks, timed, scheduler, sms, sanitize.
        truth: for the judge alone; it never leaves the grader.
    """

    name: str
    buffers: dict[str, Any]
    results: tuple[str, ...]
    launch: dict[str, Any] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    truth: Any = None


Judge = Callable[[Exercise, Sequence[Run], list[dict[str, Any]]], list[Mark]]


@dataclass(frozen=True)
class KernelExercise(Exercise):
    """What both kinds share.

    Attributes:
        arch: of the emulated GPU.
        runs: from random numbers; the first is the one that a report shows.
        judged: the marks, from the runs and what the emulator said of each.
        ranked: whether the first run's modelled time counts, once all marks are full.
    """

    arch: str = "sm_90a"
    runs: Callable[[np.random.Generator], list[Run]] = field(default=lambda random: [])
    judged: Judge = field(default=lambda *_: [])
    ranked: bool = False

    def _emulated(
        self,
        bench: Bench,
        runs: Sequence[Run],
        launches: list[list[dict[str, Any]]],
        extra: Any,
        judged: Judge | None = None,
    ) -> Outcome:
        reports, ended = [], None
        for index, (run, mine) in enumerate(zip(runs, launches, strict=True)):
            payload = {
                "arch": self.arch,
                "buffers": {**extra[index], **run.buffers},  # a temporary never takes an input's place
                "launches": mine,
                "results": list(run.results),
                "timeline": index == 0,
                **run.options,
            }
            ended = bench.run(emulate.PROGRAM, payload, EMULATING)
            if ended.failed:
                return self.nothing(f"on the emulator: {ended.failed}", enforced=ended.enforced)
            reports.append(ended.result)
        assert ended is not None
        marks = tuple((judged or self.judged)(self, runs, reports))
        timeline = str(reports[0].get("timeline", ""))
        printed = "".join(str(launch.get("output", "")) for launch in reports[0]["launches"])[:4000]
        times = [launch.get("modelled_ns") for launch in reports[0]["launches"]]
        full = all(mark.share == 1 for mark in marks)
        rank = sum(times) if self.ranked and full and all(time is not None for time in times) else None
        return Outcome(marks, printed, ended.enforced, timeline, rank)


@dataclass(frozen=True)
class CudaExercise(KernelExercise):
    """CUDA C++ in one file; the lab says how it is launched. nvcc and the emulator run in processes of their own.

    Attributes:
        options: for nvcc.
        given: a kernel that the student has to beat, a file beside the starters; `judged` finds what the emulator says
            of it on the first run as reports[0]["given"].
    """

    options: tuple[str, ...] = ()
    given: str = ""

    def judge(self, source: str, seed: int, bench: Bench, student_seed: int) -> Outcome:
        payload = {"source": source, "file": self.file, "arch": self.arch, "options": list(self.options)}
        ended = bench.run(build.PROGRAM, payload, COMPILING)
        failed = _failed(ended)
        if failed:
            return self.nothing(failed, printed=ended.text[:4000], enforced=ended.enforced)
        ptx = str(ended.result["ptx"])
        runs = self.runs(np.random.default_rng(seed))
        launches = [[{"ptx": ptx, "name": self.file, **run.launch}] for run in runs]
        outcome_of = self.judged
        if self.given:
            outcome_of = self._against(self._of_given(bench, runs[0]))
        return self._emulated(bench, runs, launches, [{}] * len(runs), outcome_of)

    def _of_given(self, bench: Bench, run: Run) -> Any:
        """The report of the given kernel. It is ours; its process has the same inputs, and no truth either."""
        source = (STARTERS / self.given).read_text("utf-8")
        payload = {"source": source, "file": self.given, "arch": self.arch, "options": list(self.options)}
        ptx = bench.run(build.PROGRAM, payload, COMPILING).result["ptx"]
        launches = [{"ptx": ptx, "name": self.given, **run.launch}]
        wanted = {"arch": self.arch, "buffers": run.buffers, "launches": launches, "results": [], **run.options}
        return bench.run(emulate.PROGRAM, wanted, EMULATING).result

    def _against(self, given: Any) -> Judge:
        def judged(exercise: Exercise, runs: Sequence[Run], reports: list[dict[str, Any]]) -> list[Mark]:
            reports[0]["given"] = given
            return self.judged(exercise, runs, reports)

        return judged


@dataclass(frozen=True)
class HostExercise(KernelExercise):
    """Python with kernels of its own, in Triton or through sglab.cuda. Its function is called with tensors of zeros
    and random numbers of its own; the launches that it makes run again on the grader's values.

    Attributes:
        function: of the file.
    """

    arch: str = "sm_100a"
    function: str = ""

    def judge(self, source: str, seed: int, bench: Bench, student_seed: int) -> Outcome:
        runs = self.runs(np.random.default_rng(seed))
        launches, extra = [], []
        for run in runs:
            payload = {
                "source": source,
                "file": self.file,
                "function": self.function,
                "args": [_unseen(run, each) for each in run.args],
            }
            ended = bench.run(capture.PROGRAM, payload, LAUNCHING)
            failed = _failed(ended)
            if failed:
                outside = "out_of_bounds" if "past the end" in failed and self.feedback_of("out_of_bounds") else ""
                return self.nothing(failed, outside, printed=ended.text[:4000], enforced=ended.enforced)
            launches.append(list(ended.result["launches"]))
            extra.append(capture.memory_of(ended.result, {}))
        return self._emulated(bench, runs, launches, extra)


def _unseen(run: Run, argument: Any) -> Any:
    """An argument as the submission's own process sees it: floating point is made up, integers are the grader's."""
    if not isinstance(argument, str):
        return argument
    array = run.buffers[argument]
    if array.dtype.kind == "f":
        array = np.random.default_rng(len(array)).standard_normal(array.shape).astype(array.dtype)
    return {"name": argument, "array": array}


def _failed(ended: Ended) -> str:
    """Why there is nothing to emulate; empty where there is."""
    if ended.failed:
        return ended.failed
    result = ended.result
    if not isinstance(result, dict) or not isinstance(result.get("error"), str):
        return "its answer is no message"
    return str(result["error"])[:3000]
