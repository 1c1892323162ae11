"""tcgen05.alloc writes the address of what it has allocated for its whole warp: other warps must meet it first."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.gpu.findings import Finding
from tests.support.emulator.schedulers import SCHEDULERS

TEXT = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry allocates()
{{
  .reg .b32 %thread, %columns, %found; .reg .pred %p;
  .shared .align 16 .b32 place; .shared .align 16 .b32 other;
  mov.u32 %thread, %tid.x;
  setp.ge.u32 %p, %thread, 32;
  @%p bra OTHER;
  {before}
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 32;
  ld.shared.u32 %columns, [place];
  {between}
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %columns, 32;
  ret;
OTHER:
  {between}
  ld.shared.u32 %found, [place];
  ret;
}}
"""


def found(between: str, accesses: int, scheduler: str) -> tuple[Finding, ...]:
    return launched("st.shared.u32 [other], 1; " * accesses, between, scheduler)


def launched(before: str, between: str, scheduler: str) -> tuple[Finding, ...]:
    ptx = TEXT.format(between=between, before=before)
    device = gpu.EmulatedDevice("sm_100a", sanitize={"races"}, scheduler=scheduler)
    return gpu.Module(ptx)["allocates"].launch(device, grid=1, block=64, args=[]).findings


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("accesses", [0, 1, 2])
def test_another_warp_must_meet_it_before_it_reads_the_address(accesses: int, scheduler: str) -> None:
    (finding,) = found("", accesses, scheduler)
    assert finding.kind.endswith("_race"), str(finding)
    assert finding.at and finding.other and {finding.at.warp, finding.other.warp} == {0, 1}
    assert found("bar.sync 0;", accesses, scheduler) == ()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("lane", [0, 5, 31])
@pytest.mark.parametrize(
    "alone", ["st.shared.u32 [place], 1;", "fence.mbarrier_init.release.cluster;", "fence.acq_rel.cta;"]
)
def test_all_lanes_that_allocate_have_the_address(alone: str, lane: int, scheduler: str) -> None:
    """Whatever a lane has done alone before."""
    before = f"mov.u32 %found, %laneid; setp.ne.u32 %p, %found, {lane}; @%p bra MET; {alone} MET:"
    assert launched(before, "bar.sync 0;", scheduler) == ()
