"""A plain launch warns of registers that are read before a wait for what fills them; tcgen05.ld.red."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import launch

LOAD = """.version 8.8
.target sm_103a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 from) {{
  .reg .b32 %r<40>; .reg .b64 %d<9>; .reg .pred %p;
  .shared .align 4 .b32 slot;
  mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; ld.param.u64 %d1, [from];
  mul.wide.u32 %d2, %r0, 16; add.s64 %d1, %d1, %d2;
  mul.wide.u32 %d2, %r0, 32; add.s64 %d0, %d0, %d2;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  bar.sync 0;
  ld.shared.u32 %r1, [slot];
  ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d1];
  tcgen05.st.sync.aligned.32x32b.x4.b32 [%r1], {{%r10, %r11, %r12, %r13}};
  tcgen05.wait::st.sync.aligned;
  {body}
  st.global.v4.b32 [%d0], {{%r20, %r21, %r22, %r23}};
  st.global.b32 [%d0+16], %r24;
  tcgen05.wait::ld.sync.aligned;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
  ret;
}}"""
PLAIN = "mov.u32 %r24, 0; tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r20, %r21, %r22, %r23}, [%r1];"
WAIT = "tcgen05.wait::ld.sync.aligned;"
COPIED = "mov.b32 %r30, %r20; mov.b32 %r20, %r30;"


def kinds(report: _core.LaunchReport) -> list[str]:
    return [row[1] for row in report.warnings]


def run(body: str, source: np.ndarray) -> tuple[np.ndarray, _core.LaunchReport]:
    out = np.zeros((32, 8), np.uint32)
    return out, launch(LOAD.format(body=body), [out, source])


@pytest.mark.parametrize(
    ("body", "warned"),
    [
        (PLAIN, ["tmem_load_read_early"]),
        (PLAIN + WAIT, []),
        (PLAIN + COPIED + WAIT, []),  # compilers move copies up
        (PLAIN + COPIED, ["tmem_load_read_early"]),
        (PLAIN + "add.u32 %r20, %r20, 0;" + WAIT, ["tmem_load_read_early"]),
        (PLAIN + "mov.u32 %r31, %r0;" + WAIT, []),
    ],
)
def test_a_load_from_tensor_memory_needs_its_wait(body: str, warned: list[str]) -> None:
    source = np.random.default_rng().integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    out, report = run(body, source)
    assert kinds(report) == warned
    np.testing.assert_array_equal(out[:, :4], source)


WGMMA = """.version 8.8
.target sm_90a
.address_size 64
.shared .align 128 .b8 bytes[4096];
.visible .entry k(.param .u64 out) {{
  .reg .b64 %out, %matrix; .reg .b32 %to, %r<9>; .reg .f32 %d<4>;
  ld.param.u64 %out, [out]; mov.u32 %to, bytes;
  mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;
  shr.u32 %to, %to, 4; cvt.u64.u32 %matrix, %to; wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, %matrix, %matrix, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  {body}
  st.global.f32 [%out], %d0;
  wgmma.wait_group.sync.aligned 0;
  ret;
}}"""


@pytest.mark.parametrize(("wait", "warned"), [("", ["wgmma_read_early"]), ("wgmma.wait_group.sync.aligned 0;", [])])
def test_accumulators_need_their_wait(wait: str, warned: list[str]) -> None:
    out = np.zeros(1, np.float32)
    report = launch(WGMMA.format(body=wait), [out], block=(128, 1, 1))
    assert kinds(report) == warned
    assert np.isnan(out[0]) == bool(warned)


REDUCED = [(op, kind, options) for op in ("min", "max") for kind, options in (
    ("u32", ""), ("s32", ""), ("f32", ""), ("f32", ".NaN"), ("f32", ".abs"), ("f32", ".abs.NaN"),
)]  # fmt: skip


@pytest.mark.parametrize(("op", "kind", "options"), REDUCED)
def test_a_load_reduces_what_each_thread_gets(op: str, kind: str, options: str) -> None:
    rng = np.random.default_rng()
    source = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    source[rng.integers(0, 32, 8), rng.integers(0, 4, 8)] = 0x7FC00001
    source[:2, :2], source[:2, 2:] = 0x80000000, 0  # both zeros
    body = f"tcgen05.ld.red.sync.aligned.32x32b.x4.{op}{options}.{kind} {{%r20, %r21, %r22, %r23}}, %r24, [%r1];" + WAIT
    out, _ = run(body, source)
    np.testing.assert_array_equal(out[:, :4], source)
    for row, got in zip(source, out[:, 4], strict=True):
        if kind != "f32":
            values = row.view(np.int32) if kind == "s32" else row
            assert got == (values.min() if op == "min" else values.max()).astype(np.int64) % (1 << 32)
            continue
        bits = row & np.uint32(0x7FFFFFFF) if "abs" in options else row
        values = bits.view(np.float32)
        numbers = bits[~np.isnan(values)]
        if len(numbers) == 0 or ("NaN" in options and len(numbers) < 4):
            assert got == 0x7FFFFFFF
            continue
        # As integers floats are ordered but for the sign; -0 is less than +0.
        order = np.where(numbers >> 31, -(numbers & 0x7FFFFFFF).astype(np.int64) - 1, numbers.astype(np.int64))
        assert got == numbers[order.argmin() if op == "min" else order.argmax()]
