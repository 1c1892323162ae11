"""Programmatic dependent launches: what overlaps the launch before it waits before it touches the same memory."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu

HEAD = """
.version 8.8
.target sm_90a
.address_size 64
.entry kernel(.param .u64 data, .param .u64 other) {
  .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .pred %p;
  .shared .align 16 .b8 row[512];
  .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [other];
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd3, %r1, 4, %rd1;
  mad.wide.u32 %rd4, %r1, 4, %rd2;
"""
STORE, LOAD, WAIT = "st.global.u32 [%rd3], %r1;", "ld.global.u32 %r2, [%rd3];", "griddepcontrol.wait;"
STORE_OTHER, LOAD_OTHER = "st.global.u32 [%rd4], %r1;", "ld.global.u32 %r2, [%rd4];"
ONE_WAITS = "setp.ne.u32 %p, %r1, 0;\n@%p bra met;\ngriddepcontrol.wait;\nmet:"
COPY = """
  setp.ne.u32 %p, %r1, 0;
  @%p bra done;
  mbarrier.init.shared.b64 [full], 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [full], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [row], [%rd1], 256, [full];
"""
DONE = """
wait:
  mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
  @!%p bra wait;
done:
"""


def kernel(*lines: str) -> gpu.Kernel:
    return gpu.Module(HEAD + "\n".join(lines) + "\nret;\n}\n", "grids.ptx")["kernel"]


def found(first: tuple[str, ...], second: tuple[str, ...], overlaps: bool = True) -> list[str]:
    device = gpu.EmulatedDevice("sm_90a", sanitize=True)
    args = [torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)]
    assert kernel(*first).launch(device, grid=1, block=64, args=args).findings == ()
    report = kernel(*second).launch(device, grid=1, block=64, args=args, overlaps=overlaps)
    return [finding.kind for finding in report.findings]


MISSING = ["missing_griddepcontrol_wait"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((STORE,), (LOAD,)),
        ((STORE,), (STORE,)),
        ((LOAD,), (STORE,)),
        ((STORE,), (LOAD, WAIT)),
        ((STORE,), (COPY, DONE)),
        ((STORE,), (COPY, WAIT, DONE)),  # issued before the wait
        ((STORE,), (ONE_WAITS, LOAD)),  # the other warp has not met the one that waited
    ],
)
def test_what_comes_before_the_wait_is_found(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    assert found(first, second) == MISSING


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((STORE,), (WAIT, LOAD)),
        ((LOAD,), (LOAD,)),
        ((STORE,), (STORE_OTHER, LOAD_OTHER)),
        ((STORE,), (WAIT, COPY, DONE)),
        ((STORE,), (ONE_WAITS, "bar.sync 0;", LOAD)),
    ],
)
def test_what_is_ordered_or_touches_other_memory_is_not(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    assert found(first, second) == []


@pytest.mark.parametrize("bytes_before", [0, 1, 2, 3])
@pytest.mark.parametrize("bytes_after", [0, 1, 2, 3])
def test_bytes_of_one_word_are_told_apart(bytes_before: int, bytes_after: int) -> None:
    """Where single bytes were stored, where all of the word was read, and where both was done."""
    store, load = f"st.global.u8 [%rd3+{bytes_before}], %r1;", f"ld.global.u8 %r2, [%rd3+{bytes_after}];"
    expected = MISSING if bytes_before == bytes_after else []
    assert found((store,), (load,)) == found((LOAD, store), (load,)) == expected
    assert found((LOAD, store), (f"st.global.u8 [%rd3+{bytes_after}], %r1;",)) == MISSING


def test_a_device_forgets_what_earlier_launches_touched() -> None:
    """The memory of their detectors is used again."""
    device = gpu.EmulatedDevice("sm_90a", sanitize=True)
    launch = {"grid": 1, "block": 64, "args": [torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)]}
    for _ in range(3):
        for lines, expected in [((STORE,), []), ((LOAD_OTHER,), []), ((LOAD,), []), ((STORE,), MISSING)]:
            report = kernel(*lines).launch(device, **launch, overlaps=True)
            assert [finding.kind for finding in report.findings] == expected
        kernel(LOAD_OTHER).launch(device, **launch)


def test_a_launch_that_does_not_overlap_needs_no_wait() -> None:
    assert found((STORE,), (LOAD,), overlaps=False) == []


def test_only_the_launch_before_counts_and_a_session_counts_once() -> None:
    device = gpu.EmulatedDevice("sm_90a", sanitize={"races"})
    data = torch.zeros(64, dtype=torch.int32)
    launch = {"grid": 1, "block": 64, "args": [data, torch.zeros(64, dtype=torch.int32)]}
    kernel(STORE).launch(device, **launch)
    session = kernel(LOAD).session(device, **launch, overlaps=True)
    session.run()
    session.seek(0)
    session.run()
    (finding,) = session.findings
    assert finding.kind == "missing_griddepcontrol_wait" and finding.space == "global"
    assert finding.address == data.data_ptr() and "that the launch before it writes" in str(finding)
    assert [each.kind for each in kernel(LOAD).launch(device, **launch, overlaps=True).findings] == []
