"""Pointers of hand-written PTX have no types: a tensor that contradicts all accesses is refused, any that may be meant
is not."""

from __future__ import annotations

import pytest
import torch

import sglab
from sglab import gpu
from sglab.gpu.pointer_accesses import float_pointers

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
COPY = """
.visible .entry copy(.param .u64 x, .param .u64 out, .param .u32 n) {{
  .reg .b64 %d<8>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .f64 %e<8>; .reg .b16 %h<8>; .reg .pred %p<4>;
  ld.param.u64 %d1, [x];
  ld.param.u64 %d2, [out];
  ld.param.u32 %r3, [n];
  cvta.to.global.u64 %d3, %d1;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, %r3;
  @%p1 bra DONE;
  mul.wide.u32 %d4, %r1, 4;  // a comment; with a semicolon
  add.u64 %d5, %d3, %d4;
  {load}
  add.u64 %d6, %d2, %d4;
  {store}
DONE: ret;
}}
"""
FLOAT = COPY.format(load="ld.global.nc.f32 %f1, [%d5];", store="st.global.f32 [%d6], %f1;")
BITS = COPY.format(load="ld.global.b32 %r4, [%d5];", store="st.global.b32 [%d6], %r4;")


@pytest.mark.parametrize(
    "load, store, expected",
    [
        ("ld.global.f32 %f1, [%d5];", "st.global.f32 [%d6], %f1;", {"x": "float32", "out": "float32"}),
        (
            "ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%d5];",
            "red.global.add.f32 [%d6+4], %f1;",
            {"x": "float32", "out": "float32"},
        ),
        (
            "ld.global.L2::128B.f64 %e1, [%d5];",
            "atom.global.add.f64 %e2, [%d6], %e1;",
            {"x": "float64", "out": "float64"},
        ),
        ("ld.global.b32 %r4, [%d5];", "st.global.f32 [%d6], 0f00000000;", {"out": "float32"}),
        ("ld.global.f32 %f1, [%d5]; ld.global.b32 %r4, [%d5];", "", {}),
        ("add.u64 %d5, %d5, %d2; ld.global.f32 %f1, [%d5];", "st.global.f32 [%d6], %f1;", {}),
        ("ld.global.f32 %f1, [%d5];", "st.global.u64 [%d6], %d3;", {}),  # what x leads to is read by others
        ("cp.async.ca.shared.global [%r1], [%d5], 4;", "st.global.f32 [%d6], 0f00000000;", {"out": "float32"}),
    ],
)
def test_what_all_accesses_agree_on(load: str, store: str, expected: dict[str, str]) -> None:
    assert float_pointers(HEAD + COPY.format(load=load, store=store), "copy") == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_another_type_is_refused_with_a_remedy(dtype: torch.dtype) -> None:
    x, out = torch.zeros(32, dtype=dtype), torch.zeros(32)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(gpu.LaunchError, match=rf"argument 0, x .*as float32 alone, .* bytes of {name} .*torch.float32"):
        sglab.step(sglab.ptx(HEAD + FLOAT)[1, 32], x, out, 32)
    with pytest.raises(gpu.LaunchError, match="argument 1, out"):
        sglab.ptx(HEAD + FLOAT)[1, 32](out, x, 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.uint8, torch.complex64])
def test_what_may_be_meant_runs(dtype: torch.dtype) -> None:
    x, out = torch.arange(128, dtype=torch.uint8).view(dtype), torch.zeros(32)
    sglab.ptx(HEAD + FLOAT)[1, 32](x, out, 32)
    assert bytes(out.view(torch.uint8).tolist()) == bytes(range(128))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64])
def test_bits_may_be_of_anything(dtype: torch.dtype) -> None:
    x, out = torch.arange(128, dtype=torch.uint8).view(dtype), torch.zeros(128, dtype=torch.uint8).view(dtype)
    sglab.ptx(HEAD + BITS)[1, 32](x, out, 32)
    assert bytes(out.view(torch.uint8).tolist()) == bytes(range(128))


def test_calls_and_unknown_entries_say_nothing() -> None:
    assert float_pointers(HEAD + FLOAT, "other") == {}
    assert float_pointers(HEAD + FLOAT.replace("DONE: ret;", "DONE: call.uni other, (%d1); ret;"), "copy") == {}
    assert float_pointers(HEAD + FLOAT[: FLOAT.rindex("}")], "copy") == {}
