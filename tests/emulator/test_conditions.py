"""Breakpoints that ask for values in a lane's registers."""

from __future__ import annotations

import pytest
import torch

from sglab import gpu
from sglab.emulator.session import Session
from sglab.gpu.errors import SessionError

PTX = """
.version 8.8
.target sm_90a
.address_size 64
.entry counts(.param .u64 out) {
  .reg .b32 %r<4>; .reg .s32 %s<2>; .reg .u16 %h<2>; .reg .b64 %rd<3>; .reg .f32 %f<3>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  sub.s32 %s1, %r1, 40;
  cvt.u16.u32 %h1, %r1;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  mov.u32 %r2, 0;
  setp.eq.u32 %p2, %r1, 70;
again:
  add.u32 %r2, %r2, 1;
  cvt.rn.f32.u32 %f1, %r2;
  div.rn.f32 %f2, 0f00000000, 0f00000000;
  @%p2 mov.f32 %f1, %f2;
  st.global.f32 [%rd2], %f1;
  setp.lt.u32 %p1, %r2, 5;
  @%p1 bra again;
  st.global.u32 [%rd2], %s1;
  @%p2 st.global.u32 [%rd2], %r1;
  st.global.u16 [%rd2], %h1;
  ret;
}
"""


@pytest.fixture
def session() -> Session:
    kernel = gpu.Module(PTX, "counts.ptx")["counts"]
    return kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=96, args=[torch.zeros(96)])


def stops(session: Session, opcode: str, when: str) -> list[tuple[int, int]]:
    """(warp, how often the loop had begun) of each stop."""
    session.break_at(opcode=opcode, when=when)
    found = []
    while (stop := session.run()).reason == "breakpoint":
        assert stop.at is not None
        found.append(stop.at.warp)
    return [(warp, found.count(warp)) for warp in sorted(set(found))]


@pytest.mark.parametrize(
    ("opcode", "when", "expected"),
    [
        ("st.global.f32", "%r2 == 3", [(0, 1), (1, 1), (2, 1)]),
        ("st.global.f32", "%r1 == 37", [(1, 5)]),
        ("st.global.f32", "%r1 == 37 and %r2 >= 0x4", [(1, 2)]),
        ("st.global.f32", "%r1 == 37 && %r2 > 5", []),
        ("st.global.f32", "lane == 5 and %r1 == 37", [(1, 5)]),
        ("st.global.f32", "lane == 6 and %r1 == 37", []),  # one lane for all of it
        ("st.global.f32", "%f1 == nan", [(2, 5)]),
        ("st.global.f32", "%f1 <= 1.5", [(0, 1), (1, 1), (2, 1)]),
        ("st.global.f32", "%s1 < -39", [(0, 5)]),
        ("st.global.f32", "%s1 == 0xffffffd8", [(0, 5)]),  # the bits of -40
        ("st.global.f32", "%h1 == 37", [(1, 5)]),
        ("st.global.f32", "%h1 == 65573", []),  # no 16 bits are, though its lower ones are 37
        ("st.global.f32", "%h1 >= 70 and %h1 < 70000 and %r1 < 0x100000005", [(2, 5)]),
        ("st.global.f32", "%p2 == 1", [(2, 5)]),
        ("bra", "%r2 != 5", [(0, 4), (1, 4), (2, 4)]),
    ],
)
def test_a_breakpoint_stops_only_where_a_lane_holds_such_values(
    session: Session, opcode: str, when: str, expected: list[tuple[int, int]]
) -> None:
    assert stops(session, opcode, when) == expected


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("%f1 > 3", [(0, 2), (1, 2), (2, 2)]),
        ("%f1 >= 3.5", [(0, 2), (1, 2), (2, 2)]),
        ("%f1 == 3", [(0, 1), (1, 1), (2, 1)]),
        ("%f1 == 0x40400000", [(0, 1), (1, 1), (2, 1)]),  # bits stay bits
    ],
)
def test_a_float_that_is_declared_as_bits_is_compared_as_a_float(when: str, expected: list[tuple[int, int]]) -> None:
    kernel = gpu.Module(PTX.replace(".reg .f32 %f", ".reg .b32 %f"), "counts.ptx")["counts"]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=96, args=[torch.zeros(96)])
    assert stops(session, "st.global.f32", when) == expected


def test_it_is_met_backwards_as_well(session: Session) -> None:
    session.break_at(opcode="st.global.f32", when="%r1 == 37 and %r2 == 2")
    forward = session.run()
    session.run()
    back = session.run_back()
    assert (back.position, back.at and back.at.warp) == (forward.position, 1)
    assert session.registers(1)["%r2"].values[5] == 2
    assert session.breakpoints[0].when == "%r1 == 37 and %r2 == 2"


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("r1 = 3", "compare registers or the lane with numbers"),
        ("", "compare registers or the lane with numbers"),
        ("%r1 == x", "compare registers or the lane with numbers"),
        ("lane == 0.5", "whole number"),
        ("%r9 == 3", "%r9 holds no value at any of these instructions"),
        ("%rd3 == 3", "%rd3 holds no value"),
        ("%s1 == 0.5", "compare it with a whole number"),
    ],
)
def test_what_is_no_condition_is_refused_by_name(session: Session, when: str, said: str) -> None:
    with pytest.raises(SessionError, match=said):
        session.break_at(opcode="st.global.f32", when=when)
    assert session.breakpoints == ()
