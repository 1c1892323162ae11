"""The sanitizers see what wmma.load and wmma.store move, and what st.bulk clears."""

from __future__ import annotations

import pytest
import torch

from sglab import gpu

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .f32 %f<9>;
  .shared .align 128 .b8 tile[1024];
  ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r2, tile;
  setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r0, 0; mov.u64 %d5, 1024;
"""
F32 = "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}"
ZEROS = "".join(f"mov.f32 %f{n}, 0f00000000;" for n in range(8))
STORE = f"wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r2], {F32};"
LOAD = f"wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {F32}, [%r2];"
KEEP = f"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d0], {F32};"
CLEAR = "@%p1 st.bulk.weak.shared::cta [%r2], %d5, 0;"
READ = "shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r2; ld.shared.b32 %r4, [%r3]; st.global.b32 [%d0], %r4;"


def findings(body: str, *, sanitize: set[str], block: int = 32) -> set[str]:
    device = gpu.EmulatedDevice("sm_100a", sms=1, sanitize=sanitize)
    out = torch.zeros(1024, dtype=torch.float32)
    report = gpu.Module(HEAD + body + "\nret;\n}\n")["k"].launch(device, grid=1, block=block, args=[out])
    return {one.kind for one in report.findings}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (ZEROS + STORE + LOAD + KEEP, set()),
        (LOAD + KEEP, {"uninitialised_read"}),
        (CLEAR + "bar.sync 0;" + LOAD + KEEP, set()),
        (CLEAR + "bar.sync 0;" + READ, set()),
        (READ, {"uninitialised_read"}),
        ("mov.u64 %d5, 64;" + CLEAR + "bar.sync 0;" + LOAD + KEEP, {"uninitialised_read"}),  # the rest was not written
        (ZEROS + STORE + "bar.sync 0;" + READ, set()),
    ],
)
def test_what_is_initialised(body: str, found: set[str]) -> None:
    seen = findings(body, sanitize={"memory"})
    assert bool(seen) == bool(found), seen


@pytest.mark.parametrize(
    ("body", "races"),
    [
        (
            "@%p0 bra WRITE; bra READ; WRITE: "
            + (ZEROS + STORE)
            + "bar.sync 0; bra END; READ: bar.sync 0;"
            + (READ + "END:"),
            False,
        ),
        ("@%p0 bra WRITE; bra READ; WRITE: " + ZEROS + STORE + "bra END; READ: " + READ + "END:", True),
        (CLEAR + "bar.sync 0;" + READ, False),
        (CLEAR + READ, True),
    ],
)  # fmt: skip
def test_what_is_ordered(body: str, races: bool) -> None:
    seen = findings(body, sanitize={"races"}, block=64)
    assert bool(seen) == races, seen
