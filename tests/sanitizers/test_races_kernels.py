"""Kernels known to be right have no race under any scheduler; take a fence or a wait out of one, and it has."""

import contextlib
import re
from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.gpu.findings import Finding
from sglab.kernels import ptx
from sglab.kernels.mla import mla_decode_sm90, mla_decode_sm100
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

CORPUS = [
    launch
    for launch in (
        *scalar_launches.launches("sm_90"),
        *sm80_launches.launches("sm_80"),
        *sm90_launches.launches(),
        *sm100_launches.launches(),
        *triton_launches.launches(),
        *cute_launches.launches(),
    )
    if launch.fails is None
]
IDIOMS = {"plain_read_beside_atomic", "unwaited_tensor_load"}
"""Races by the ISA's letter, and warnings: a compare-and-swap loop starts with a plain load; tensor memory is released
once the registers loaded from it have been used."""

SM90 = "mla_decode_sm90"


class Watched(gpu.EmulatedDevice):
    """Keeps the races of all its launches, those that failed included."""

    def __init__(self, arch: str, **options: Any) -> None:
        super().__init__(arch, sanitize={"races"}, **options)
        self.races: list[Finding] = []

    def run(self, launch: Any) -> Any:
        try:
            report = super().run(launch)
        except gpu.KernelError as error:
            self.races += [finding for finding in error.findings if finding.detector == "races"]
            raise
        self.races += report.findings
        return report


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("launch", CORPUS, ids=lambda launch: launch.name)
def test_the_corpus_has_no_race(launch: Launch, scheduler: str) -> None:
    device = Watched(ARCHITECTURES[launch.target], scheduler=scheduler, seed=3)
    launch.run(device, launch.make(Draw(3)))
    errors = [str(race) for race in device.races if race.kind not in IDIOMS]
    assert errors == []


def attend(operator: Any, device: gpu.EmulatedDevice, **options: Any) -> None:
    """Three requests, one of no token, in pages of 64."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(3, 64, 576, generator=generator).half()
    kv_cache = torch.randn(8, 64, 576, generator=generator).half()
    page_table = torch.tensor([[3, 1, 6, 0, 4], [0, 0, 0, 0, 0], [2, 5, 0, 0, 0]], dtype=torch.int32)
    lengths = torch.tensor([300, 0, 65], dtype=torch.int32)
    q_nope, q_pe = q[..., :512].contiguous(), q[..., 512:].contiguous()
    operator(device, q_nope, q_pe, kv_cache, lengths, page_table, sm_scale=192**-0.5, **options)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_our_mla_kernels_have_no_race(scheduler: str) -> None:
    for operator, arch, options in (
        (mla_decode_sm90, "sm_90a", {}),
        (mla_decode_sm100, "sm_100a", {"max_splits": 2, "scheduler": "persistent"}),
    ):
        for seed in range(2):
            device = Watched(arch, sms=4, scheduler=scheduler, seed=seed)
            attend(operator, device, **options)
            assert [str(race) for race in device.races] == []


@cache
def sm90_lines() -> tuple[list[str], range]:
    """The PTX, and which of its lines are the f16 kernel."""
    lines = ptx.text(SM90).splitlines()
    entries = [number for number, line in enumerate(lines) if ".entry" in line]
    first = next(number for number in entries if f"{SM90}_f16" in lines[number])
    return lines, range(first, min((number for number in entries if number > first), default=len(lines)))


def sm90_mutants(instruction: str) -> list[int]:
    lines, kernel = sm90_lines()
    return [number for number in kernel if re.match(rf"\s*{re.escape(instruction)}", lines[number])]


FOR_PTXAS = sm90_mutants("wgmma.wait_group")[0]
"""Odd attention's wait before it rescales O: only S, which that does not touch, is under way."""
MUTANTS = [
    (kind, number)
    for kind in ("fence.proxy.async", "bar.sync", "wgmma.wait_group")
    for number in sm90_mutants(kind)
    if number != FOR_PTXAS
]


@pytest.mark.parametrize(("instruction", "number"), MUTANTS)
def test_the_sm90_mla_kernel_needs_each_fence_and_wait(
    instruction: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it some launches still give right results, and some hang: the race is found either way."""
    lines, _ = sm90_lines()
    mutant = gpu.Module("\n".join([*lines[:number], *lines[number + 1 :]]), "mutant.ptx")
    original = ptx.module
    monkeypatch.setattr(ptx, "module", lambda name: mutant if name == SM90 else original(name))
    device = Watched("sm_90a", sms=2, max_instructions=400_000)
    with contextlib.suppress(gpu.KernelError):
        attend(mla_decode_sm90, device)
    assert device.races
    if instruction == "fence.proxy.async":
        assert {race.kind for race in device.races} == {"missing_proxy_fence"}
