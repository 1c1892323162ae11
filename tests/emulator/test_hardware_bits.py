"""Bits that an H200 gave where emulation easily goes wrong in silence: subnormals, saturation, 24 bits."""

import struct
from itertools import product

import numpy as np
import pytest

from tests.support.emulator.launching import launch

FLUSHING = "add.ftz.f32 %f9, %f8, %f8; mul.ftz.f32 %f9, %f9, %f8;"
"""Instructions that flush, between the operands and what must not: the host's modes are put back."""
LESS, MORE = 0x8009D33A1E9951F5, 0x80000000000C3729
INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
LETTER = {8: "h", 16: "h", 32: "r", 64: "d"}


def word(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def double(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def result(body: str) -> int:
    """What 32 equal lanes leave in %d0."""
    text = (
        ".visible .entry k(.param .u64 out) { .reg .pred %p<3>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;"
        ".reg .f32 %f<10>; .reg .b64 %to; .reg .b32 %t;\n"
        "mov.f32 %f8, 0f00000007; mov.u32 %t, %tid.x; ld.param.u64 %to, [out]; mad.wide.u32 %to, %t, 8, %to;\n"
        f"mov.b64 %d0, 0;\n{body}\nst.global.b64 [%to], %d0; ret; }}"
    )
    out = np.zeros(32, np.uint64)
    launch(text, [out])
    assert (out == out[0]).all()
    return int(out[0])


def into(register: str, value: int) -> str:
    bits = {"h": 16, "r": 32, "d": 64}[register[1]]
    return f"mov.b{bits} {register}, {value:#x};"


@pytest.mark.parametrize(("op", "expected"), [("min", LESS), ("max", MORE)])
def test_f64_subnormals_outlive_f32_flushing(op: str, expected: int) -> None:
    body = f"{into('%d1', LESS)} {into('%d2', MORE)} {FLUSHING} {op}.f64 %d0, %d1, %d2;"
    assert result(body) == expected


@pytest.mark.parametrize(("flush", "between"), list(product(("", ".ftz"), ("", FLUSHING))))
@pytest.mark.parametrize("kind", ["b32", "u32", "s32", "f32", "b64", "f64"])
def test_slct_reads_the_sign_of_a_subnormal_unless_it_flushes(kind: str, flush: str, between: str) -> None:
    at = "r" if kind.endswith("32") else "d"
    body = f"{into(f'%{at}1', 11)} {into(f'%{at}2', 22)} mov.f32 %f1, 0f80000001; {between}"
    body += f"slct{flush}.{kind}.f32 %{at}0, %{at}1, %{at}2, %f1;" + ("cvt.u64.u32 %d0, %r0;" if at == "r" else "")
    assert result(body) == (11 if flush else 22)


@pytest.mark.parametrize(("mode", "kind"), list(product(("rn", "rz", "rm", "rp"), INTEGERS)))
def test_integers_saturate_into_an_f64_between_zero_and_one(mode: str, kind: str) -> None:
    bits = int(kind[1:])
    letter = LETTER[bits]
    for value, expected in ((7, 1.0), (1, 1.0), (0, 0.0), *([(-3, 0.0)] if kind[0] == "s" else [])):
        body = into(f"%{letter}1", value % (1 << max(bits, 16)))
        assert result(f"{body} cvt.{mode}.sat.f64.{kind} %d0, %{letter}1;") == double(expected), (value, expected)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("mul24.lo.s32 %r0, %r1, %r2;", 0x003FD7C2),
        ("mul24.lo.u32 %r0, %r1, %r2;", 0x3D3FD7C2),
        ("mad24.lo.s32 %r0, %r1, %r2, %r3;", 0x003FD7C9),
        ("mul24.hi.s32 %r0, %r1, %r2;", 0x0000003F),
    ],
)
def test_24_bits_are_sign_extended(instruction: str, expected: int) -> None:
    body = f"{into('%r1', 0x7FFFFFFF)} {into('%r2', 0xC0283E)} {into('%r3', 7)} {instruction} cvt.u64.u32 %d0, %r0;"
    assert result(body) == expected


@pytest.mark.parametrize("flush", ["", ".ftz"])
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (2.0**126, 2.0**127, 0.0),
        (-(2.0**126), 2.0**127, -0.0),
        (1.5, -1.5 * 2.0**126, -0.0),
        (2.0**126, 2.0**126, 1.0),
        (float("inf"), 2.0**127, float("nan")),
    ],
)
def test_an_approximate_quotient_by_2_126_and_more_is_zero(a: float, b: float, expected: float, flush: str) -> None:
    body = f"mov.f32 %f1, 0f{word(a):08X}; mov.f32 %f2, 0f{word(b):08X}; div.approx{flush}.f32 %f0, %f1, %f2;"
    found = result(body + "mov.b32 %r0, %f0; cvt.u64.u32 %d0, %r0;")
    if np.isnan(expected):
        assert found & 0x7FFFFFFF > 0x7F800000
    else:
        assert found == word(expected)


@pytest.mark.parametrize(
    ("op", "operand", "expected"),
    [
        ("rcp", 0x000FFFFFFFFFFFFF, float("inf")),
        ("rcp", 0x800FFFFFFFFFFFFF, float("-inf")),
        ("rcp", double(1.5 * 2.0**1023), 0.0),
        ("rcp", double(-1.5 * 2.0**1023), -0.0),
        ("rcp", double(4.0), 0.25),
        ("rsqrt", 0x000FFFFFFFFFFFFF, float("inf")),
        ("rsqrt", 0x800FFFFFFFFFFFFF, float("-inf")),
        ("rsqrt", double(4.0), 0.5),
    ],
)
def test_approximate_f64_flushes_operands_and_results(op: str, operand: int, expected: float) -> None:
    assert result(f"{into('%d1', operand)} {op}.approx.ftz.f64 %d0, %d1;") == double(expected)


@pytest.mark.parametrize("mask", ["1", "0x1"])
def test_an_immediate_multicast_mask_holds_in_every_lane(mask: str) -> None:
    """A copy issued by lane 9 alone."""
    body = """{ .shared .align 16 .b8 to[16]; .shared .align 8 .b64 full; .reg .pred %q, %w;
    setp.ne.u32 %q, %t, 9; @%q bra DONE;
    mbarrier.init.shared.b64 [full], 1; mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [to], [from], 16, [full], MASK;
    W: mbarrier.try_wait.parity.shared.b64 %w, [full], 0; @!%w bra W;
    DONE: bar.sync 0; ld.shared.b64 %d0, [to+8]; }"""
    text = ".global .align 16 .b64 from[2] = {5, 77};\n"
    out = np.zeros(32, np.uint64)
    launch(
        text + ".visible .entry k(.param .u64 out) { .reg .b64 %d<2>; .reg .b64 %to; .reg .b32 %t;"
        "mov.u32 %t, %tid.x; ld.param.u64 %to, [out]; mad.wide.u32 %to, %t, 8, %to;\n"
        + body.replace("MASK", mask)
        + "st.global.b64 [%to], %d0; ret; }",
        [out],
    )
    assert (out == 77).all()
