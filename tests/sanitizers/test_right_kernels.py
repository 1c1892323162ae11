"""Kernels known to be right, of nvcc, Triton, CuTe DSL and our own, have no findings under any scheduler."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.corpus import (
    cute_launches,
    scalar_launches,
    sm80_launches,
    sm90_launches,
    sm100_launches,
    triton_launches,
)
from tests.support.corpus.launch import ARCHITECTURES, Draw, Launch
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.sanitizers.mla_batch import decode

DETECTORS = {"memory", "tensor", "barriers"}
SCALAR = [
    launch
    for arch in ("sm_80", "sm_90", "sm_100a")
    for launch in (*scalar_launches.launches(arch), *sm80_launches.launches(arch))
    if launch.fails is None
]
TENSOR = [
    launch
    for module in (sm90_launches, sm100_launches, triton_launches, cute_launches)
    for launch in module.launches()
    if launch.fails is None
]
CASES = [(launch, "fair") for launch in SCALAR] + [
    (launch, scheduler) for launch in TENSOR for scheduler in ("fair", "adversarial")
]


@pytest.mark.parametrize(("launch", "scheduler"), CASES, ids=[f"{launch.name}-{name}" for launch, name in CASES])
def test_the_corpus_has_no_findings(launch: Launch, scheduler: str) -> None:
    device = gpu.EmulatedDevice(
        ARCHITECTURES[launch.target], scheduler=scheduler, seed=5, sanitize=DETECTORS, on_finding="raise"
    )
    launch.check(launch.run(device, launch.make(Draw(0))))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_our_mla_kernels_have_no_findings(arch: str, scheduler: str) -> None:
    reports, error = decode(arch, [300, 1, 0, 130], sms=4, scheduler=scheduler, seed=3, sanitize=DETECTORS)
    assert error is None
    assert len(reports) > 0
    assert [report.findings for report in reports] == [()] * len(reports)
