"""Deletes each synchronisation instruction of our MLA kernels, one at a time, and reports what notices that it is gone.

As a script: python -m tests.support.sanitizers.deletions [sm_90a|sm_100a] prints a table (half a minute each)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from sglab.kernels import ptx
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.sanitizers.mla_batch import NAMES, Batch, attend

KERNELS = Path(__file__).parents[3] / "csrc" / "kernels"
SYNCHRONISES = re.compile(
    r"\s*((?:bar|barrier|mbarrier|fence|membar|griddepcontrol|wgmma\.(?:fence|commit_group|wait_group)|"
    r"cp\.async\.(?:bulk\.)?(?:commit_group|wait_group)|"
    r"tcgen05\.(?:fence|wait|commit|alloc|relinquish_alloc_permit|dealloc))[\w.:]*)"
)


@dataclass(frozen=True)
class Deletion:
    """One instruction of a kernel's PTX, to be taken out.

    line: of the PTX, from 1 on; source: the line of the kernel's own .cu file that it comes from
    """

    arch: str
    line: int
    opcode: str
    source: int

    def __str__(self) -> str:
        return f"{self.opcode} (mla_decode.cu:{self.source})"

    def __call__(self, text: str) -> str:
        """The PTX without it. A wait for an mbarrier returns immediately."""
        lines = text.splitlines()
        wait = re.match(r"\s*mbarrier\.(?:try|test)_wait\S* (\w+),", lines[self.line - 1])
        lines[self.line - 1] = f"setp.eq.u32 {wait[1]}, 0, 0;" if wait else ""
        return "\n".join(lines)


@cache
def deletions(arch: str) -> tuple[Deletion, ...]:
    """Of the float16 kernel."""
    name = NAMES[arch]
    inside, source, found = False, 0, []
    for number, line in enumerate(ptx.text(name).splitlines(), 1):
        if ".entry" in line:
            inside = f"{name}_f16" in line
        if not inside:
            continue
        # The innermost place in the kernel's own file, not in a wrapper's: file 1.
        places = re.findall(r"(?:\.loc|inlined_at)\s+(\d+) (\d+) \d+", line)
        source = next((int(row) for file, row in places if file == "1"), source)
        if match := SYNCHRONISES.match(line):
            found.append(Deletion(arch, number, match[1], source))
    return tuple(found)


def at_source(arch: str, text: str) -> tuple[Deletion, ...]:
    """Those that come from lines of the kernel's source with this text in them."""
    lines = (KERNELS / arch.removesuffix("a").replace("_", "") / "mla_decode.cu").read_text("utf-8").splitlines()
    return tuple(one for one in deletions(arch) if text in lines[one.source - 1])


@dataclass(frozen=True)
class Outcome:
    """What came of a deletion: kinds of findings, the fault that ended the launch, whether results are wrong."""

    findings: frozenset[str] = frozenset()
    fault: str = ""
    wrong: bool = False

    def __bool__(self) -> bool:
        return bool(self.findings or self.fault or self.wrong)

    def __or__(self, other: Outcome) -> Outcome:
        return Outcome(self.findings | other.findings, self.fault or other.fault, self.wrong or other.wrong)

    def __str__(self) -> str:
        words = sorted(self.findings) + ([self.fault] if self.fault else []) + (["wrong"] if self.wrong else [])
        return ", ".join(words) or "nothing"


def batches() -> tuple[Batch, ...]:
    """Enough work for every ring to go round, every tail to be cut, and references to move."""
    return (Batch([520, 100, 0, 300], q_scale=8.0), Batch([1, 129, 1, 40, 1, 1], q_scale=8.0, page=32))


@cache
def right_results(arch: str) -> tuple[tuple[torch.Tensor, ...], ...]:
    return tuple(_run(arch, batch, None)[1] for batch in batches())


def _run(
    arch: str, batch: Batch, change: Callable[[str], str] | None, **options: object
) -> tuple[Outcome, tuple[torch.Tensor, ...]]:
    # Right launches take far fewer instructions: what takes more, hangs.
    reports, error, results = attend(arch, batch, change, preceded=True, sms=2, max_instructions=2_000_000, **options)
    kinds = [finding.kind for report in reports for finding in report.findings]
    fault = ""
    if error is not None:
        fault = error.fault.kind if error.fault else "error"
        kinds += [finding.kind for finding in error.findings if finding.detector != "launch"]
    return Outcome(frozenset(kinds), fault), results


def outcome(deletion: Deletion, schedulers: tuple[str, ...] = SCHEDULERS) -> Outcome:
    """Up to the first launch in which a sanitizer finds something, or that fails."""
    noticed = Outcome()
    for scheduler in schedulers:
        for batch, right in zip(batches(), right_results(deletion.arch), strict=True):
            found, results = _run(deletion.arch, batch, deletion, scheduler=scheduler, seed=1, sanitize=True)
            same = all(torch.equal(a, b) for a, b in zip(results, right, strict=False))
            noticed |= Outcome(found.findings, found.fault, not found.fault and not same)
            if noticed.findings or noticed.fault:
                return noticed
    return noticed


def table(arch: str) -> Iterator[str]:
    for deletion in deletions(arch):
        yield f"{deletion.line:6} {deletion!s:90} {outcome(deletion)}"


if __name__ == "__main__":
    for arch in sys.argv[1:] or NAMES:
        for row in table(arch):
            print(row, flush=True)
