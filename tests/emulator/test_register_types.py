"""Which registers hold floats, whatever their declaration says."""

import re

import pytest

from sglab import gpu
from sglab.emulator.register_types import float_types
from sglab.kernels import ptx

REGISTERS = ".reg .pred %p<9>;.reg .b16 %rs<9>;.reg .b32 %r<9>;.reg .b64 %rd<9>;.shared .b8 s[64];"


def statements(lines: list[str]) -> list[tuple[str, list[list[str]]]]:
    """Of a kernel with these lines."""
    body = "\n".join([REGISTERS, *lines, "ret;"])
    text = f".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .b8 p[16])\n{{\n{body}\n}}\n"
    return gpu.Module(text)["k"].code.kernel.statements()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["max.f32 \t%r3, %r1, %r2;"], {"%r1": "f32", "%r2": "f32", "%r3": "f32"}),
        (["@%p1 fma.rn.f64 %rd1, %rd2, %rd2, %rd3;"], {"%rd1": "f64", "%rd2": "f64", "%rd3": "f64"}),
        (["ld.global.f32 %r1, [%rd1+4];", "st.shared.f32 [%r2], %r1;"], {"%r1": "f32"}),
        (["setp.lt.f32 %p1, %r1, %r2;"], {"%r1": "f32", "%r2": "f32"}),
        (["cvt.rn.f32.s32 %r1, %r2;"], {"%r1": "f32"}),
        (["cvt.rzi.s32.f32 %r1, %r2;"], {}),
        (["cvt.rn.bf16x2.f32 %r1, %r2, %r3;"], {}),
        (["cvt.rn.bf16.f32 %rs1, %r2;"], {"%rs1": "bf16"}),
        (["add.f32 %r1, %r1, %r1;", "add.s32 %r1, %r1, 1;"], {}),
        (
            ["ld.global.b32 { %r1 }, [ %rd1 + 0 ];", "mov.u32 %r2, %r1;", "ex2.approx.f32 %r3, %r2;"],
            {"%r1", "%r2", "%r3"},
        ),
        (["shfl.sync.bfly.b32 %r2|%p1, %r1, %r5, 31, -1;", "add.f32 %r3, %r1, %r2;"], {"%r1", "%r2", "%r3"}),
        (["redux.sync.max.f32 %r2, %r1, %r8;"], {"%r1": "f32", "%r2": "f32"}),
        (["mov.b32 %r1, {%rs1, %rs2};", "add.f16 %rs1, %rs1, %rs2;"], {"%rs1": "f16", "%rs2": "f16"}),
        (["ld.param.u32 %r1, [p+8];", "mov.b32 %r2, %r1;", "mul.f32 %r3, %r3, %r2;"], {"%r1", "%r2", "%r3"}),
        (["ld.param.s32 %r1, [p+8];", "mov.b32 %r2, %r1;", "mul.f32 %r3, %r3, %r2;"], {"%r3"}),
        (["add.s32 %r1, %r2, %r3;", "and.b32 %r4, %r4, 1;"], {}),
    ],
)
def test_types(lines: list[str], expected: object) -> None:
    found = float_types(statements(lines))
    assert (found if isinstance(expected, dict) else set(found)) == expected


@pytest.mark.parametrize(("name", "entry"), [("mla_decode_sm100", "f16"), ("mla_decode_sm90", "bf16")])
def test_nvccs_names_agree(name: str, entry: str) -> None:
    """nvcc calls registers of floats %f, and those that hold a float's bits for a shuffle %r."""
    code = ptx.module(name)[f"{name}_{entry}"].code
    texts = [instruction.text for instruction in code]
    found = float_types(code.kernel.statements())
    named = set(re.findall(r"%f\d+", " ".join(texts)))
    assert len(named) > 500
    assert named <= set(found)
    for register in set(found) - named:
        assert any(re.match(rf"(mov|shfl)[\w.]*\s.*{register}\b", text) for text in texts), register


def test_a_float_whose_bits_integers_look_at_stays_one() -> None:
    """nvcc's logf takes the exponent out of the bits: what it loaded was a float all the same."""
    lines = ["ld.global.f32 %r1, [%rd1];", "mul.f32 %r2, %r1, %r1;", "mov.b32 %r3, %r2;", "add.s32 %r4, %r3, 1;"]
    assert set(float_types(statements(lines))) == {"%r1", "%r2"}


def test_fragments_of_wmma_are_of_several_types() -> None:
    lines = [
        "wmma.load.a.sync.aligned.row.m16n16k16.bf16 {%r1, %r2, %r3, %r4}, [%rd1], %r5;",
    ]
    assert float_types(statements(lines)) == {}
