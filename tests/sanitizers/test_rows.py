"""Lanes that touch memory side by side are still told apart, on both sides of a page of the detector's shadow, and
where its blocks of sixteen bytes are theirs in part."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.gpu.findings import Finding

PAGE = 4096
STORES = {
    1: "st.{space}.u8 [%at], %low;",
    2: "st.{space}.u16 [%at], %half;",
    4: "st.{space}.u32 [%at], %word;",
    8: "st.{space}.v2.u32 [%at], {{%word, %word}};",
    16: "st.{space}.v4.u32 [%at], {{%word, %word, %word, %word}};",
}
TEXT = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry rows(.param .u64 out, .param .u32 reader, .param .u32 distance)
{{
  .reg .b64 %at, %from, %more; .reg .b32 %lane, %word, %reader, %distance, %got; .reg .b16 %half, %low; .reg .pred %p;
  .shared .align 1024 .b8 rows_of[8192];
  mov.u32 %lane, %tid.x;
  add.u32 %word, %lane, 1;
  cvt.u16.u32 %half, %word;
  mov.b16 %low, %half;
  {base}
  add.u64 %at, %at, {shift};
  ld.param.u32 %reader, [reader];
  ld.param.u32 %distance, [distance];
  cvt.u64.u32 %from, %distance;
  add.u64 %from, %from, %at;
  mad.wide.u32 %at, %lane, {bytes}, %at;
  {store}
  setp.eq.u32 %p, %lane, %reader;
  {between}
  @%p ld.{space}.u8 %got, [%from];
  ret;
}}
"""
BASES = {"global": "ld.param.u64 %at, [out];", "shared": "mov.u64 %at, rows_of;"}


def found(space: str, size: int, writer: int, reader: int, between: str = "", shift: int = 0) -> tuple[Finding, ...]:
    """Of a warp whose lanes store `size` bytes each, and whose lane `reader` then reads the last of `writer`'s."""
    store = STORES[size].format(space=space)
    ptx = TEXT.format(base=BASES[space], bytes=size, store=store, space=space, between=between, shift=shift)
    memory = torch.zeros(3 * PAGE, dtype=torch.uint8)
    begin = -memory.data_ptr() % PAGE + PAGE - 16 * size  # half of the lanes are on either side
    device = gpu.EmulatedDevice("sm_90a", sanitize={"races"})
    args = [memory[begin:], reader, writer * size + size - 1]
    return gpu.Module(ptx)["rows"].launch(device, grid=1, block=32, args=args).findings


@pytest.mark.parametrize("space", BASES)
@pytest.mark.parametrize("size", STORES)
@pytest.mark.parametrize(("writer", "reader"), [(0, 31), (8, 7), (15, 16), (16, 15), (20, 3), (31, 0)])
def test_the_lanes_of_a_race_are_named(space: str, size: int, writer: int, reader: int) -> None:
    (finding,) = found(space, size, writer, reader)
    assert finding.kind == "missing_warp_sync" and finding.at and finding.other
    # Lanes that write one word together count as the first of them.
    wrote = writer - writer % (4 // size) if size < 4 else writer
    assert (finding.at.lanes, finding.other.lanes) == (1 << reader, 1 << wrote), str(finding)
    assert found(space, size, writer, reader, "bar.warp.sync 0xffffffff;") == ()


@pytest.mark.parametrize("space", BASES)
@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_lane_reads_what_it_has_written(space: str, size: int) -> None:
    for lane in (0, 15, 16, 31):
        assert found(space, size, lane, lane) == ()


@pytest.mark.parametrize("space", BASES)
@pytest.mark.parametrize(("size", "shift"), [(4, 4), (4, 8), (4, 12), (8, 8)])
@pytest.mark.parametrize(("writer", "reader"), [(0, 31), (1, 0), (2, 1), (3, 4), (16, 15), (29, 30), (30, 29), (31, 0)])
def test_the_lanes_of_a_race_in_part_of_a_block_are_named(
    space: str, size: int, shift: int, writer: int, reader: int
) -> None:
    (finding,) = found(space, size, writer, reader, shift=shift)
    assert finding.kind == "missing_warp_sync" and finding.at and finding.other
    assert (finding.at.lanes, finding.other.lanes) == (1 << reader, 1 << writer), str(finding)
    assert found(space, size, writer, reader, "bar.warp.sync 0xffffffff;", shift) == ()
