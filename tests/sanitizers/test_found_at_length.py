"""Relaxed operations that find what very many others left, and the fence behind them, which learns all of it."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator import EmulatedDevice

KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 flag, .param .u64 data, .param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<5>;
    ld.param.u64 %d1, [flag]; ld.param.u64 %d2, [data]; ld.param.u64 %d3, [out];
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, 0;
    @%p1 bra FIND;
LEAVE:
    setp.ne.u32 %p2, %r1, 32; @%p2 ret;
    st.global.u32 [%d2], 7;
LEAVE_MORE:
    red.release.gpu.global.add.u32 [%d1], 1;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 300; @%p2 bra LEAVE_MORE;
    ret;
FIND:
    setp.ne.u32 %p2, %r1, 0; @%p2 ret;
FIND_MORE:
    atom.relaxed.gpu.global.add.u32 %r3, [%d1], 0;
    setp.lt.u32 %p2, %r3, 300; @%p2 bra FIND_MORE;
    FENCE
    ld.global.u32 %r4, [%d2]; st.global.u32 [%d3], %r4;
    ret;
}
"""


@pytest.mark.parametrize(("fence", "kinds"), [("fence.acq_rel.gpu;", set()), ("", {"weak_synchronisation"})])
def test_a_fence_learns_what_hundreds_left(fence: str, kinds: set[str]) -> None:
    device = EmulatedDevice("sm_90a", sanitize=True)
    flag, data, out = (torch.zeros(1, dtype=torch.int32) for _ in range(3))
    kernel = gpu.load(KERNEL.replace("FENCE", fence))["k"]
    report = device.run(kernel.prepare(device, gpu.LaunchConfig((1,), 64), args=[flag, data, out]))
    assert out.item() == 7 and {finding.kind for finding in report.findings} == kinds
