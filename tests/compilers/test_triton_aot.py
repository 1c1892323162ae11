"""Triton kernels compile to PTX without a GPU, and their arguments are packed as that PTX takes them."""

import struct
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from sglab.compilers import triton_aot
from sglab.compilers.child import in_child
from sglab.compilers.triton_aot import TritonProgram, compile_triton
from sglab.gpu import CompileError, LaunchError, Module
from sglab.triton import triton_kernel
from sglab.triton.packing import ParameterPlan
from sglab.triton.specialize import Bound, Specializer, language_is_interpreted

pytestmark = pytest.mark.skipif(language_is_interpreted(), reason="TRITON_INTERPRET is set: nothing can be compiled")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLAB_CACHE", str(tmp_path))


@triton_kernel
def _largest(row):  # type: ignore[no-untyped-def]
    return tl.max(row, axis=0)


@triton_kernel
def _shifted(x_ptr, out_ptr, n, shift, keep, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=-float("inf"))
    if keep:
        tl.store(out_ptr + offsets, x - _largest(x) + shift, mask=offsets < n)


@triton_kernel
def _copy_tile(source, target, row, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    target.store([row, 0], source.load([row, 0]))


@triton_kernel
def _mistaken(x_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.arange(0, 2 * BLOCK))


def compiled(kernel: Any, capability: int, *args: Any, **kwargs: Any) -> tuple[TritonProgram, ParameterPlan, Bound]:
    specializer = Specializer(kernel, capability)
    bound = specializer.bind(args, kwargs)
    specialization = specializer.specialization(bound)
    program = compile_triton(kernel, specialization, capability)
    signature = Module(program.ptx)[program.entry].signature
    return program, ParameterPlan(list(specialization.signature.values()), program.descriptors, signature), bound


@pytest.mark.parametrize(("capability", "target"), [(80, "sm_80"), (90, "sm_90a"), (100, "sm_100a")])
def test_compiles_for_any_architecture_with_helpers_inlined(capability: int, target: str) -> None:
    x = torch.randn(100)
    program, _, _ = compiled(_shifted, capability, x, x, 100, 0.5, True, BLOCK=128, num_warps=2)
    module = Module(program.ptx)
    assert (module.target, list(module), module["_shifted"].signature.reqntid) == (target, ["_shifted"], (64, 1, 1))
    assert (program.num_warps, program.num_ctas, program.scratch) == (2, 1, 0)
    assert "tt.reduce" in program.ttir
    assert "#ttg.blocked" in program.ttgir


def test_arguments_are_packed_as_the_ptx_takes_them() -> None:
    x, out = torch.randn(100), torch.empty(100)
    _, plan, bound = compiled(_shifted, 100, x, out, 100, 0.5, True, BLOCK=128)
    params = plan.pack(bound.values.values(), 0, encode=lambda encoding: b"")
    assert params == struct.pack("<QQif?xxxxxxxQQ", x.data_ptr(), out.data_ptr(), 100, 0.5, True, 0, 0)


def test_one_and_none_are_compiled_in_and_not_passed() -> None:
    x, out = torch.randn(4), torch.empty(4)
    _, plan, bound = compiled(_shifted, 100, x, out, 1, 0.5, None, BLOCK=4)
    params = plan.pack(bound.values.values(), 64, encode=lambda encoding: b"")
    assert params == struct.pack("<QQfxxxxQQ", x.data_ptr(), out.data_ptr(), 0.5, 64, 0)


def test_forms_are_distinguished_by_what_triton_specialises() -> None:
    x = torch.randn(1000)
    specializer = Specializer(_shifted, 100)

    def key(tensor: Any, n: int, **options: Any) -> str:
        return specializer.bind((tensor, tensor, n, 0.5, True), {"BLOCK": 64, **options}).key

    assert key(x, 5) == key(x, 7) == key(x[16:], 9)
    assert len({key(x, 5), key(x[1:], 5), key(x, 16), key(x, 1), key(x.half(), 5), key(x, 5, num_warps=8)}) == 6


@pytest.mark.parametrize("capability", [80, 100])
def test_tensor_descriptors_become_tensor_maps_where_they_exist(capability: int) -> None:
    x = torch.zeros(32, 64, dtype=torch.float16)
    tile = TensorDescriptor.from_tensor(x, [16, 64])
    _, plan, bound = compiled(_copy_tile, capability, tile, tile, 16, BLOCK=16)
    encodings = []

    def encode(encoding: Any) -> bytes:
        encodings.append(encoding)
        return b"m" * 128

    params = plan.pack(bound.values.values(), 0, encode)
    if capability == 80:
        assert params[:8] == x.data_ptr().to_bytes(8, "little")
        assert not encodings
    else:
        assert params[:128] == b"m" * 128
        assert struct.unpack_from("<iiqq", params, 128) == (32, 64, 64, 1)
        assert (encodings[0].global_dim, encodings[0].global_strides, encodings[0].box_dim) == (
            (64, 32),
            (128,),
            (64, 16),
        )
        assert (encodings[0].data_type, encodings[0].swizzle) == (6, 3)


def test_the_second_time_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4)
    first, _, _ = compiled(_shifted, 100, x, x, 4, 0.5, True, BLOCK=4)

    def never(*arguments: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(triton_aot, "in_child", never)
    assert compiled(_shifted, 100, x, x, 4, 0.5, True, BLOCK=4)[0] == first


def test_what_triton_refuses_is_reported_with_its_source_line() -> None:
    with pytest.raises(CompileError, match="compiling the Triton kernel _mistaken for sm_100") as caught:
        compiled(_mistaken, 100, torch.zeros(8), BLOCK=8)
    assert "tl.store(x_ptr + tl.arange(0, BLOCK), tl.arange(0, 2 * BLOCK))" in str(caught.value)


def test_a_compiler_that_crashes_is_an_error(tmp_path: Path) -> None:
    import os

    with pytest.raises(CompileError, match=r"compiling x: the compiler crashed \(SIGABRT\)"):
        in_child("compiling x", os.abort, tmp_path)


def test_options_triton_refuses_are_reported() -> None:
    x = torch.randn(4)
    with pytest.raises(LaunchError, match="num_warps must be a power of 2"):
        compiled(_shifted, 100, x, x, 4, 0.5, True, BLOCK=4, num_warps=3)
