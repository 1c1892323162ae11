"""Findings: what device, report, error and session say of them."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu  # noqa: E402

BEHIND = """
.version 8.8
.target sm_90a
.address_size 64
.entry behind(.param .u64 out, .param .u32 n) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.lo.u32 %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
}
"""


def device(**options: Any) -> gpu.EmulatedDevice:
    return gpu.EmulatedDevice("sm_90a", **options)


def test_a_fault_is_a_finding_with_the_nearest_allocation() -> None:
    kernel = gpu.Module(BEHIND, "behind.ptx")["behind"]
    out = torch.zeros(32, dtype=torch.int32)
    with pytest.raises(gpu.KernelError) as caught:
        kernel.launch(device(sanitize=True), grid=1, block=32, args=[out, 2])
    (finding,) = caught.value.findings
    assert (finding.detector, finding.kind, finding.severity) == ("launch", "out_of_bounds", "error")
    assert finding.at is not None
    assert (finding.at.cta, finding.at.warp, finding.at.lanes) == ((0, 0, 0), 0, 1 << 16)
    assert BEHIND.splitlines()[finding.ptx_line - 1].strip().startswith("st.global")
    assert "behind the end of 'argument 0, out" in finding.message
    assert f"PTX line {finding.ptx_line} `st.global.u32 [%rd3], %r2;`" in str(finding)
    assert "lane 16" in str(finding)


def test_a_launch_without_sanitizers_has_no_findings() -> None:
    kernel = gpu.Module(BEHIND, "behind.ptx")["behind"]
    out = torch.zeros(32, dtype=torch.int32)
    assert kernel.launch(device(), grid=1, block=32, args=[out, 1]).findings == ()
    assert kernel.launch(device(sanitize=True), grid=1, block=32, args=[out, 1]).findings == ()
    with pytest.raises(gpu.KernelError) as caught:
        kernel.launch(device(), grid=1, block=32, args=[out, 2])
    assert caught.value.findings == ()


def test_a_session_has_the_findings_of_its_past() -> None:
    kernel = gpu.Module(BEHIND, "behind.ptx")["behind"]
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
