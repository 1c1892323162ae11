"""What loads and stores move, whatever their opcode says."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator.moved_elements import Moved, MovedElements, elements_of_tensors

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>;
.shared .align 16 .b8 s[1024];
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r9, %tid.x;
mov.u32 %r10, s; shl.b32 %r9, %r9, 2; add.u32 %r10, %r10, %r9;
"""


def first_shared(lines: list[str], dtype: Any = torch.float16) -> Moved:
    """Of the first access to shared memory in a kernel with these lines."""
    text = HEAD + "\n".join(lines) + "\nret;\n}\n"
    data = torch.zeros(256, dtype=dtype)
    kernel = gpu.Module(text)["k"]
    log = kernel.record(gpu.EmulatedDevice("sm_100a"), grid=1, block=32, args=[data])
    moved = MovedElements(kernel.code.kernel, log, elements_of_tensors([data]))
    pc = next(one.pc for one in kernel.code if ".shared" in one.opcode or "ldmatrix" in one.opcode)
    return moved.of(pc)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["ld.shared.b32 %r1, [%r10];", "add.f16x2 %r2, %r1, %r1;"], "f16"),
        (["ld.shared.u32 %r1, [%r10];", "mov.b32 {%rs1, %rs2}, %r1;", "cvt.f32.f16 %r2, %rs1;"], "f16"),
        (["ld.shared.u16 %rs1, [%r10];", "mov.b32 %r1, {0, %rs1};", "add.f32 %r2, %r1, %r1;"], "bf16"),
        (["ld.shared.b32 %r1, [%r10];", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", "max.f32 %r3, %r2, %r2;"], "f32"),
        (["ld.shared.u32 %r1, [%r10];", "cvt.rn.f32.s32 %r2, %r1;"], "s32"),
        (["ld.shared.u16 %rs1, [%r10];", "cvt.rn.f32.u16 %r2, %rs1;"], "u16"),
        (["ld.shared.v2.b32 {%r1, %r2}, [s];", "setp.lt.u32 %p1, %r1, %r2;"], "u32"),
        (["st.shared.f32 [%r10], %r9;"], "f32"),
        (["red.shared.add.u32 [%r10], 1;"], "u32"),
        (["ld.shared.b16 %rs1, [%r10];", "cvt.rn.f16x2.e4m3x2 %r1, %rs1;"], "e4m3"),
    ],
)
def test_instructions_that_compute_say_it(lines: list[str], expected: str) -> None:
    found = first_shared(lines)
    assert (found.element, found.computed) == (expected, True)


@pytest.mark.parametrize(
    ("a", "expected"), [("f16.f16", "f16"), ("bf16.bf16", "bf16"), ("s8.s8", "s8"), ("e4m3.e4m3", "e4m3")]
)
def test_matrix_products_say_it(a: str, expected: str) -> None:
    integer = expected == "s8"
    shape, d = ("m16n8k16" if expected in ("f16", "bf16") else "m16n8k32"), ("s32" if integer else "f32")
    sums = "{%r11, %r12, %r13, %r14}"
    product = f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{d} {sums}, {{%r1, %r2, %r3, %r4}}, {{%r1, %r2}}, {sums};"
    load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [s];"
    assert first_shared([load, product]).element == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.float32])
def test_what_is_only_moved_is_what_its_tensor_holds(dtype: Any) -> None:
    found = first_shared(["ld.global.b32 %r1, [%rd1];", "st.shared.b32 [%r10], %r1;"], dtype)
    names = {torch.float16: "f16", torch.bfloat16: "bf16", torch.int32: "s32", torch.float32: "f32"}
    assert (found.element, found.computed) == (names[dtype], False)


def test_bits_that_floats_and_integers_use_are_nothing_in_particular() -> None:
    lines = ["ld.shared.b32 %r1, [%r10];", "add.f32 %r2, %r1, %r1;", "setp.lt.s32 %p1, %r1, 0;"]
    assert first_shared(lines).element == ""
    assert first_shared(["ld.shared.b32 %r1, [%r10];", "xor.b32 %r2, %r1, %r1;"]).element == ""
