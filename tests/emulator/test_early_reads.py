"""A plain launch warns of operations that no thread had waited for when their CTA ended."""

import numpy as np
import pytest

from tests.support.emulator.launching import launch

KERNEL = """
.shared .align 128 .b8 bytes[4096];
.shared .align 8 .b64 full;
.entry k(.param .u64 source) {{
  .reg .b64 %from, %matrix; .reg .b32 %tid, %to; .reg .pred %first, %done; .reg .f32 %d<4>;
  ld.param.u64 %from, [source];
  mov.u32 %tid, %tid.x; setp.eq.u32 %first, %tid, 0; mov.u32 %to, bytes;
  @%first mbarrier.init.shared.b64 [full], 1;
  bar.sync 0;
  {body}
  ret;
}}"""

OPERATIONS = {
    "cp.async": ("cp.async.ca.shared.global [%to], [%from], 16; cp.async.commit_group;", "cp.async.wait_group 0;"),
    "bulk": (
        "@%first mbarrier.arrive.expect_tx.shared.b64 _, [full], 64;"
        "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bytes], [%from], 64, [full];",
        "WAIT: mbarrier.try_wait.parity.shared.b64 %done, [full], 0; @!%done bra WAIT;",
    ),
    "wgmma": (
        "mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;"
        "shr.u32 %to, %to, 4; cvt.u64.u32 %matrix, %to; wgmma.fence.sync.aligned;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %matrix, %matrix, 1, 1, 1, 0, 0;"
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_nobody_waited_for_is_a_warning(name: str) -> None:
    issue, wait = OPERATIONS[name]
    source = np.zeros(64, np.uint8)
    header = ".version 8.8\n.target sm_90a\n.address_size 64\n"
    for body, expected in ((issue, ["never_waited_for"]), (issue + wait, [])):
        report = launch(header + KERNEL.format(body=body), [source], block=(128, 1, 1))
        assert [row[1] for row in report.warnings] == expected
        assert all(row[11] >= 1 for row in report.warnings)
