"""Findings: what device, report, error and session say of them."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu

PAST_END = """
.version 8.8
.target sm_90a
.address_size 64
.entry past_end(.param .u64 out, .param .u32 n) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.lo.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 	[%rd3], %r2;
  ret;
}
"""


def device(**options: Any) -> gpu.EmulatedDevice:
    return gpu.EmulatedDevice("sm_90a", **options)


def test_a_fault_is_a_finding_with_the_nearest_allocation() -> None:
    kernel = gpu.Module(PAST_END, "past_end.ptx")["past_end"]
    out = torch.zeros(32, dtype=torch.int32)
    with pytest.raises(gpu.KernelError) as caught:
        kernel.launch(device(sanitize=True), grid=1, block=32, args=[out, 2])
    (finding,) = caught.value.findings
    assert (finding.detector, finding.kind, finding.severity) == ("launch", "out_of_bounds", "error")
    assert finding.at is not None
    assert (finding.at.cta, finding.at.warp, finding.at.lanes) == ((0, 0, 0), 0, 1 << 16)
    assert PAST_END.splitlines()[finding.ptx_line - 1].strip().startswith("st.global")
    assert "past the end of 'argument 0, out" in finding.message
    assert f"PTX line {finding.ptx_line} `st.global.u32 [%rd3], %r2;`" in str(finding)
    assert "lane 16" in str(finding)


def test_a_launch_without_sanitizers_has_no_findings() -> None:
    kernel = gpu.Module(PAST_END, "past_end.ptx")["past_end"]
    out = torch.zeros(32, dtype=torch.int32)
    assert kernel.launch(device(), grid=1, block=32, args=[out, 1]).findings == ()
    assert kernel.launch(device(sanitize=True), grid=1, block=32, args=[out, 1]).findings == ()
    with pytest.raises(gpu.KernelError) as caught:
        kernel.launch(device(), grid=1, block=32, args=[out, 2])
    assert caught.value.findings == ()


def test_a_session_has_the_findings_of_its_past() -> None:
    kernel = gpu.Module(PAST_END, "past_end.ptx")["past_end"]
    session = kernel.session(device(sanitize={"memory"}), grid=1, block=32, args=[torch.zeros(32).int(), 2])
    with pytest.raises(gpu.KernelError):
        session.run()
    assert [finding.kind for finding in session.findings] == ["out_of_bounds"]
    position = session.findings[0].position
    assert position == session.now
    session.back()
    assert session.findings == ()
    with pytest.raises(gpu.KernelError) as caught:
        session.run()
    assert [finding.position for finding in caught.value.findings] == [position]


def test_the_detectors_are_known_by_name() -> None:
    assert device(sanitize=True).sanitize == ("memory", "races", "tensor", "barriers")
    assert device(sanitize={"tensor", "memory"}).sanitize == ("memory", "tensor")
    with pytest.raises(gpu.LaunchError, match="some of memory, races, tensor, barriers; got speed"):
        device(sanitize={"speed"})
    with pytest.raises(gpu.LaunchError, match="'collect' or 'raise'"):
        device(sanitize=True, on_finding="ignore")


GARBAGE = """
.version 8.8
.target sm_90a
.address_size 64
.entry garbage(.param .u64 out, .param .u64 in) {
  .shared .b32 words[64];
  .reg .b32 %r<6>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, words;
  shl.b32 %r3, %r1, 2;
  add.u32 %r2, %r2, %r3;
  ld.shared.u32 %r4, [%r2];
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3;
  add.s64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd1], %r4;
  ld.global.u32 %r5, [%rd2];
  st.global.u32 [%rd1], %r5;
  ret;
}
"""


def garbage(**options: Any) -> tuple[gpu.Kernel, gpu.EmulatedDevice, list[Any]]:
    kernel = gpu.Module(GARBAGE, "garbage.ptx")["garbage"]
    return kernel, device(sanitize={"memory"}, **options), [torch.empty(64).int(), torch.empty(64).int()]


def test_the_same_at_the_same_instructions_is_one_finding() -> None:
    kernel, emulated, arguments = garbage()
    (finding,) = kernel.launch(emulated, grid=3, block=64, args=arguments).findings
    assert (finding.kind, finding.space, finding.nbytes, finding.count) == ("uninitialised_read", "shared", 4, 6)
    assert finding.at is not None and finding.other is not None
    assert finding.at.instruction.opcode == "ld.shared.u32"
    assert finding.other.instruction.text == "st.global.u32 [%rd1], %r4;"
    assert str(finding).endswith("6 times")


def test_a_tensor_counts_as_initialised_unless_it_is_marked() -> None:
    kernel, emulated, arguments = garbage()
    emulated.mark_uninitialized(arguments[1])
    found = kernel.launch(emulated, grid=1, block=32, args=arguments).findings
    assert [(finding.space, finding.count) for finding in found] == [("shared", 1), ("global", 1)]
    assert found[1].address == arguments[1].data_ptr()
    # Written by the launch before, out is initialised now.
    emulated.mark_uninitialized(arguments[0])
    kernel.launch(emulated, grid=1, block=32, args=arguments)
    found = kernel.launch(emulated, grid=1, block=32, args=[arguments[1], arguments[0]]).findings
    assert [finding.space for finding in found] == ["shared"]
    with pytest.raises(gpu.LaunchError, match="expected a contiguous CPU tensor"):
        emulated.mark_uninitialized(torch.empty(4, 4).t())


def test_marks_end_with_the_memory_that_they_are_of() -> None:
    """What is allocated there next is another tensor, which nobody has marked."""
    kernel, emulated, (out, _) = garbage()
    memory = np.zeros(64, np.int32)

    def spaces() -> list[str]:
        args = [out, torch.from_numpy(memory)]
        return [finding.space for finding in kernel.launch(emulated, grid=1, block=32, args=args).findings]

    tensor = torch.from_numpy(memory)
    view = tensor[:]
    emulated.mark_uninitialized(tensor)
    del tensor
    assert spaces() == ["shared", "global"], "a view still uses it"
    del view
    assert spaces() == ["shared"]


def test_the_first_finding_may_end_the_launch() -> None:
    kernel, emulated, arguments = garbage(on_finding="raise")
    with pytest.raises(gpu.KernelError, match="uninitialised_read: 4 bytes of shared memory") as caught:
        kernel.launch(emulated, grid=1, block=64, args=arguments)
    assert len(caught.value.findings) == 1


def test_a_session_goes_back_and_forth_over_a_finding() -> None:
    kernel, emulated, arguments = garbage()
    session = kernel.session(emulated, grid=1, block=64, args=arguments)
    session.run()
    (finding,) = session.findings
    assert finding.count == 2
    assert finding.other is not None and finding.position == finding.other.position
    session.seek(finding.position + 1)
    assert [one.count for one in session.findings] == [1]
    session.back()
    assert session.findings == ()
    session.run()
    assert session.findings == (finding,)
    # Another order of the warps: what is found is reported again.
    session.seek(0)
    session.step(warp=1, count=15)
    (other,) = session.findings
    assert (other.warp, other.count) == (1, 1)
    session.run()
    assert [one.count for one in session.findings] == [2]


SPIN = """
.version 8.8
.target sm_90a
.address_size 64
.entry spin(.param .u64 lock) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [lock];
AGAIN:
  ld.volatile.global.u32 %r1, [%rd1+8];
  setp.ne.u32 %p1, %r1, 1;
  @%p1 bra AGAIN;
  ret;
}
"""


def test_a_launch_without_end_names_its_loop_and_what_it_polls() -> None:
    kernel = gpu.Module(SPIN, "spin.ptx")["spin"]
    lock = torch.tensor([0, 0, 42], dtype=torch.int32)
    with pytest.raises(gpu.KernelError, match="more than its limit of 10,000") as caught:
        kernel.launch(device(max_instructions=10_000), grid=1, block=32, args=[lock])
    message = str(caught.value)
    assert caught.value.fault is not None and caught.value.fault.kind == "livelock"
    assert "the loop of PTX lines 9 to 11 ran" in message
    assert "it polls 4 bytes of global memory" in message
    assert "byte 8 of 'argument 0, lock" in message and "which hold 42" in message
