"""An exercise of a notebook: a faulty kernel to mend, judged by launches on fresh inputs and by the sanitizers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from sglab.compilers.source import SourceFinder
from sglab.gpu import GpuError, Kernel, KernelError
from sglab.gpu.errors import MissingDependencyError
from sglab.stepping import cuda

from .launches.build import HEADERS
from .question import Verdict, sentence

SCHEDULERS = ("fair", "random", "adversarial", "in_order")
RIGHT = 1e-3
"""Largest error that float32's rounding explains here."""


class Launch(Protocol):
    """A launch on tensors of its own."""

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice."""

    def error(self) -> float:
        """How far the result is from float64's, at worst."""


@dataclass(frozen=True)
class MendQuestion:
    """A kernel to mend: its source is compiled, run under every scheduler on fresh inputs, and sanitized.

    Attributes:
        name: the kernel's entry.
        cases: inputs, as `launch` takes them and as the reader gets to read them.
        launch: makes a launch of a case, a seed and the mended kernel.
        feedback: what to add for a mend that fails in a known way: by kind of finding, or "wrong" for a wrong result.
    """

    name: str
    cases: Mapping[str, Any]
    launch: Callable[[Any, int, Kernel], Launch]
    feedback: Mapping[str, str] = field(default_factory=dict)

    def check(self, given: Any = ...) -> Verdict:
        """Judge CUDA C++."""
        if given is ...:
            return Verdict(None, "Replace the ... by the mended source, a text, and run the cell again.")
        if not isinstance(given, str):
            return Verdict(
                False, f"The answer is the kernel's source as a text; this is of type {type(given).__name__}."
            )
        try:
            module = cuda(given, "sm_90a", include=[folder for folder in HEADERS if folder.is_dir()]).module("sm_90a")
            kernel = module[self.name]
        except MissingDependencyError as error:
            return Verdict(None, f"It cannot be compiled here: {error}.")
        except (GpuError, KeyError) as error:
            return Verdict(False, f"nvcc or the loader refuses it: {str(error)[:600]}")
        for case, inputs in self.cases.items():
            for scheduler in SCHEDULERS:
                fault = self._fault(self.launch(inputs, int(torch.randint(1 << 30, ())), kernel), scheduler)
                if fault is not None:
                    return Verdict(False, f"{case}, scheduler {scheduler}: {fault}")
        runs = len(self.cases) * len(SCHEDULERS)
        return Verdict(True, f"{runs} launches on fresh inputs: right under every scheduler, and no findings.")

    def _fault(self, launch: Launch, scheduler: str) -> str | None:
        """What is wrong with a launch."""
        try:
            findings = launch.run(scheduler=scheduler, sanitize=True).findings
        except KernelError as error:
            kinds = [finding.kind for finding in error.findings]
            return self._told(sentence(str(error).splitlines()[0]), *kinds)
        if not launch.error() <= RIGHT:
            kinds = [finding.kind for finding in findings]
            return self._told(f"the error is {launch.error():.1e}.", *kinds, "wrong")
        if findings:
            return self._told(sentence(f"right, but {findings[0].kind}: {findings[0].message}"), findings[0].kind)
        return None

    def _told(self, text: str, *kinds: str) -> str:
        """With the first feedback that is for one of these kinds."""
        more = next((told for kind, told in self.feedback.items() if kind in kinds), "")
        return f"{text} {more}".rstrip()


def kernel_source(path: str, name: str, headers: tuple[str, ...]) -> str:
    """One kernel of a lesson's file as a text of its own, with its comment.

    Args:
        path: of the file, from the repository's root.
        name: the kernel's entry.
        headers: what it includes, such as "barrier.cuh".

    Raises:
        ValueError: the file has no such kernel.
    """
    text = SourceFinder().find(path).text or ""
    start = r'(//[^\n]*\n)+extern "C" __global__ void (__launch_bounds__\(\d+\)\s+)?'
    found = re.search(rf"{start}{re.escape(name)}\(.*?\n}}\n", text, re.DOTALL)
    if found is None:
        raise ValueError(f"name: expected a kernel of {path}; got {name!r}")
    includes = "".join(f'#include "{header}"\n' for header in headers)
    return f"{includes}\n{found[0]}"
