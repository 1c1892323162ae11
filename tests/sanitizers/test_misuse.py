"""Memory that was never written, barriers and tensor memory misused: each fault of the catalogue is found and named;
right kernels have none."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.sanitizers.misuse_catalogue import FAULTS, Fault

CASES = [(fault, scheduler) for fault in FAULTS for scheduler in fault.schedulers]


@pytest.mark.parametrize(("fault", "scheduler"), CASES, ids=[f"{fault.name}-{name}" for fault, name in CASES])
def test_a_fault_is_found_and_named(fault: Fault, scheduler: str) -> None:
    findings, error = fault.launch(fault.name, scheduler)
    assert (error is not None) == fault.fails, error
    found = [finding for finding in findings if finding.kind == fault.kind]
    assert found, findings
    for finding, parties in ((finding, (finding.at, finding.other)) for finding in found):
        for party, name, warp in zip(parties, ("at", "other"), fault.warps, strict=True):
            if not fault.lines(name):
                assert party is None or name == "at", str(finding)
                continue
            assert party is not None and party.source is not None, str(finding)
            assert party.source[1] in fault.lines(name), str(finding)
            assert warp is None or party.warp == warp, str(finding)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_without_the_fault_nothing_is_found(fault: Fault, scheduler: str) -> None:
    for seed in range(3):
        findings, error = fault.launch(f"{fault.name}_right", scheduler, seed)
        assert findings == () and error is None, "\n".join(map(str, findings))


def test_a_deadlock_is_a_circle_of_who_waits_for_whom() -> None:
    fault = next(fault for fault in FAULTS if fault.name == "crossed_waits")
    _, error = fault.launch(fault.name)
    cycle = error.cycle
    assert {(wait.warp, wait.kind, wait.phase) for wait in cycle} == {(0, "mbarrier", 0), (1, "mbarrier", 0)}
    assert [wait.next for wait in cycle] == [1, 0]
    assert all("32 of 32 arrivals missing" in wait.waits for wait in cycle)
    first, second = cycle
    assert first.object != second.object
    for wait in cycle:
        assert wait.source_line in fault.lines("at")
    assert "which closes the circle" in str(error)


OWN_LANES = """.version 8.8
.target sm_90a
.address_size 64
.entry own_lanes() {
  .reg .pred %p<2>; .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra MEET;
  bar.sync 1, 64;
  bar.warp.sync 0xffffffff;
  ret;
MEET:
  bar.warp.sync 0xffffffff;
  bar.sync 1, 64;
  ret;
}"""


def test_a_warp_that_waits_for_its_own_lanes_does_not_wait_for_itself() -> None:
    """Lane 0 waits for the others, they wait at a barrier for its arrival."""
    device = gpu.EmulatedDevice("sm_90a", sanitize=True)
    with pytest.raises(gpu.KernelError, match="deadlock") as caught:
        gpu.Module(OWN_LANES)["own_lanes"].launch(device, grid=1, block=32, args=[])
    told = str(caught.value).split("who waits for whom:")[1]
    assert "that is for other lanes of its own, 0xfffffffe, to end" in told
    assert "that is for other lanes of its own, 0x1, to end" in told
    assert "for CTA (0, 0, 0) warp 0 to end" not in told


def test_a_chain_may_end_where_no_party_is_left() -> None:
    fault = next(fault for fault in FAULTS if fault.name == "nobody_left")
    _, error = fault.launch(fault.name)
    (wait,) = error.cycle
    assert (wait.kind, wait.object, wait.warp, wait.next) == ("barrier", 1, 0, None)
    assert "32 of 64 threads have arrived" in wait.waits
    assert "nothing is left that could end that" in str(error)


def test_a_named_barrier_has_no_place_in_memory() -> None:
    fault = next(fault for fault in FAULTS if fault.name == "barrier_arrived_twice")
    findings, _ = fault.launch(fault.name)
    (finding,) = [finding for finding in findings if finding.kind == fault.kind]
    assert finding.space == ""


@pytest.mark.parametrize(
    ("name", "severity"),
    [("bytes_announced_in_vain", "warning"), ("bytes_that_never_come", "error"), ("bytes_not_expected", "error")],
)
def test_bytes_that_are_announced_and_never_awaited_are_a_warning(name: str, severity: str) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    findings, _ = fault.launch(name)
    assert {finding.severity for finding in findings if finding.kind == fault.kind} == {severity}
