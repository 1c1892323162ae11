"""Questions of notebook 09: on launches of the reader's own kernels."""

from __future__ import annotations

from sglab.gpu import KernelError
from sglab.stepping import KernelLaunch

from .question import Question


def line_that_stores(launch: KernelLaunch) -> Question:
    """The source line whose store is executed first."""

    def truth() -> int:
        code = launch.kernel.code
        return next(line for pc in code.find(opcode="st.global") if (line := (code.source(pc) or ("", 0))[1]))

    return Question(
        truth=truth,
        because="{truth}: the compiler keeps for every instruction the line that it came from.",
        hint="session.run_to(opcode='st.global').at.instruction.source says file and line.",
    )


def kinds_found(launch: KernelLaunch) -> Question:
    """What kinds of findings the sanitizers have, over the whole launch."""

    def truth() -> set[str]:
        report = launch.run()
        return {finding.kind for finding in report.findings}

    return Question(
        truth=truth,
        because="{truth}: a warp reads what another may not have written yet. A GPU often happens to get it right.",
        hint="{finding.kind for finding in launch.run().findings}.",
    )


def warp_and_lane_of_fault(launch: KernelLaunch) -> Question:
    """Who touches memory that is not the tensor's."""

    def truth() -> list[int]:
        try:
            launch.run()
        except KernelError as error:
            return [] if error.fault is None else [error.fault.warp, error.fault.lane]
        return []

    return Question(
        truth=truth,
        because="{truth}: the first thread whose element lies behind the end.",
        hint="Read the error's last line, or run session.run() and look at session.fault.",
    )
