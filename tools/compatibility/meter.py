"""The device that a case runs on: an emulated GPU that adds up what its launches were."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sglab.emulator.device import EmulatedDevice, Scheduler
from sglab.gpu.arguments import Allocation
from sglab.gpu.device import Launch
from sglab.gpu.fault import KernelError


class Meter(EmulatedDevice):
    """An EmulatedDevice that counts.

    Attributes:
        launches, warp_instructions: of all launches that ended.
        seconds: what they took of a core, so that other work on the machine counts little.
        found: findings by kind.
        reachable: gives tensors that kernels may touch without being passed them: by addresses in memory.
    """

    def __init__(self, arch: str, sanitize: bool, scheduler: Scheduler = "fair") -> None:
        super().__init__(arch, sanitize=sanitize, scheduler=scheduler)
        self.launches = 0
        self.warp_instructions = 0
        self.seconds = 0.0
        self.found: Counter[str] = Counter()
        self.reachable: Callable[[], Iterable[Any]] = tuple

    def run(self, launch: Launch) -> Any:
        others = [Allocation(one.data_ptr(), one.nbytes(), "tensor") for one in self.reachable()]
        if others:
            launch = replace(launch, spans=(*launch.spans, *others))
        begin = time.process_time()
        try:
            report = super().run(launch)
        except KernelError as error:
            self._find(error.findings)
            raise
        self.count(1, report.warp_instructions, time.process_time() - begin)
        self._find(report.findings)
        return report

    def count(self, launches: int, warp_instructions: int, seconds: float) -> None:
        """Adds what ran elsewhere: in a program of its own."""
        self.launches += launches
        self.warp_instructions += warp_instructions
        self.seconds += seconds

    def _find(self, findings: Any) -> None:
        self.found.update(finding.kind for finding in findings)
