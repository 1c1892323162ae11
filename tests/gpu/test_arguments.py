"""Python values become a parameter buffer, each checked against the parameter it goes to."""

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab.gpu import LaunchError, Strided, TensorMap
from sglab.gpu.arguments import Packed, Packer
from sglab.gpu.signature import Signature, read_header


def signature(*parameters: str) -> Signature:
    listed = ", ".join(f".param {p}" for p in parameters)
    return read_header(f".version 9.0\n.target sm_100a\n.entry k({listed})\n{{\n}}\n").entries["k"]


def pack(parameters: list[str], *values: Any, extra: Any = ()) -> Packed:
    return Packer(signature(*parameters), "cpu", lambda encoding: b"m" * 128).pack(values, extra)


def test_every_kind_of_value_lands_at_its_offset() -> None:
    x = torch.randn(3, 4)
    kinds = [".u64 p", ".u32 n", ".f32 s", ".u8 c", ".f64 d", ".align 4 .b8 t[12]", ".u64 none"]
    packed = pack(kinds, x, -2, 0.5, 255, 2, struct.pack("<iii", 1, 2, 3), None)
    assert packed.params == struct.pack("<QifBxxxxxxxdiiixxxxQ", x.data_ptr(), -2, 0.5, 255, 2.0, 1, 2, 3, 0)
    assert [(a.address, a.nbytes) for a in packed.allocations] == [(x.data_ptr(), 48)]


def test_numpy_scalars_and_ctypes_structures() -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))

    packed = pack([".s32 n", ".f32 s", ".align 4 .b8 p[8]"], np.int64(-7), np.float32(1.5), Pair(3, 0.25))
    assert packed.params == struct.pack("<ifif", -7, 1.5, 3, 0.25)


def test_a_tensor_map_fills_its_parameter_and_counts_as_memory() -> None:
    x = torch.zeros(8, 64, dtype=torch.float16)
    packed = pack([".u32 n", ".align 64 .b8 map[128]"], 1, TensorMap(x, (8, 64), swizzle=128))
    assert packed.params[64:] == b"m" * 128
    assert packed.allocations[0].address == x.data_ptr()


def test_overlapping_tensors_are_one_allocation() -> None:
    pool = torch.zeros(100)
    packed = pack([".u64 a", ".u64 b", ".u64 c"], pool[10:20], pool[15:30], pool[50:60])
    assert [(a.address - pool.data_ptr(), a.nbytes) for a in packed.allocations] == [(40, 80), (200, 40)]
    assert "argument 0" in packed.allocations[0].name
    assert "argument 1" in packed.allocations[0].name


def test_strided_tensors_must_be_meant() -> None:
    x = torch.zeros(4, 6)[:, :3]
    with pytest.raises(LaunchError, match=r"k, argument 0, p \(.u64\): expected a contiguous tensor, got shape"):
        pack([".u64 p"], x)
    assert pack([".u64 p"], Strided(x)).allocations[0].nbytes == (3 * 6 + 3) * 4


def test_extra_tensors_may_be_touched_without_being_arguments() -> None:
    x = torch.zeros(5)
    assert pack([], extra=[x]).allocations[0].nbytes == 20


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (
            ".u32 n",
            torch.zeros(1),
            r"argument 0, n \(.u32\): expected a number, for the kernel takes n \(.u32\) by value; got a tensor",
        ),
        (".u32 n", 1 << 32, "expected an integer of 32 bits .* got 4294967296"),
        (".u8 n", -129, r"expected an integer of 8 bits \(-128 to 255\), got -129"),
        (".u32 n", 0.5, "expected an integer, got the float 0.5"),
        (".f32 n", 1e60, r"1e\+60 is beyond a 32-bit float"),
        (".u64 n", "text", "expected a tensor, an integer, a float or bytes, got str"),
        (".align 8 .b8 s[24]", b"1234", r"s \(.b8\[24\]\): expected 24 bytes, got 4"),
        (".align 8 .b8 s[24]", 7, "expected bytes of this size, got int"),
        (".u64 n", torch.zeros(1, device="meta"), r"expected a tensor on cpu, got one on meta; use .to\('cpu'\)"),
    ],
)
def test_what_does_not_fit_is_refused(parameter: str, value: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        pack([parameter], value)


def test_the_number_of_arguments_must_match() -> None:
    with pytest.raises(LaunchError, match=r"k: takes 2 arguments \(a \(.u64\), n \(.u32\)\); got 1"):
        pack([".u64 a", ".u32 n"], torch.zeros(1))


def test_a_tensor_map_encodes_sizes_innermost_first() -> None:
    x = torch.zeros(5, 8, 64, dtype=torch.bfloat16)[:, :6]
    e = TensorMap(x, (2, 3, 32), swizzle=64, fill="nan", l2_promotion=128).encoding
    assert e.global_dim == (64, 6, 5)
    assert e.global_strides == (128, 1024)
    assert e.box_dim == (32, 3, 2)
    assert (e.data_type, e.swizzle, e.oob_fill, e.l2_promotion) == (9, 2, 1, 2)


def test_a_form_that_was_found_right_is_checked_where_it_differs() -> None:
    values = torch.zeros(3 * 64 + 1)
    first, second, odd = values[:64], values[64:128], values[129:]
    assert TensorMap(first, (64,)).encoding.address == first.data_ptr()
    assert TensorMap(second, (64,)).encoding.address == second.data_ptr()
    with pytest.raises(LaunchError, match="multiple of 16 bytes"):
        TensorMap(odd, (64,))
    with pytest.raises(LaunchError, match="swizzle 32 allows 32"):
        TensorMap(first, (64,), swizzle=32)


def test_a_dimension_of_one_may_have_any_stride() -> None:
    x = torch.zeros(1, 64).as_strided((1, 64), (3, 1))
    assert TensorMap(x, (1, 64)).encoding.global_strides == (256,)


@pytest.mark.parametrize(
    ("tensor", "options", "message"),
    [
        (torch.zeros(4, 8), {"box": (4,)}, "box must be 2 lengths of 1 to 256"),
        (torch.zeros(4, 8), {"box": (4, 257)}, "box must be 2 lengths of 1 to 256"),
        (torch.zeros(4, 8), {"box": (4, 3)}, "box spans 12 bytes in its last dimension"),
        (torch.zeros(4, 64), {"box": (4, 64), "swizzle": 128}, "box spans 256 bytes .* swizzle 128 allows 128"),
        (torch.zeros(4, 8), {"box": (4, 8), "swizzle": 16}, "swizzle must be 0, 32, 64 or 128 bytes; got 16"),
        (torch.zeros(4, 6), {"box": (4, 4)}, "stride of 24 bytes in dimension 0"),
        (torch.zeros(8, 4).T, {"box": (4, 8)}, "must be contiguous in its last dimension"),
        (torch.zeros(65)[1:], {"box": (64,)}, "must start at a multiple of 16 bytes"),
        (torch.zeros(0, 8), {"box": (1, 8)}, "is empty"),
        (torch.zeros(4, 8, dtype=torch.int32), {"box": (4, 8), "fill": "nan"}, "fill must be 'zero'"),
        (torch.zeros(4, 8, dtype=torch.complex64), {"box": (4, 8)}, "dtype that TMA cannot copy"),
    ],
)
def test_wrong_tensor_maps_are_refused(tensor: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=f"tensor map: .*{message}"):
        TensorMap(tensor, **options)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (".u64 p", np.zeros(4), r"got a numpy array of shape \(4,\). Pass torch.from_numpy\(array\)"),
        (".u64 p", np.zeros(1, np.int64), r"got a numpy array of shape \(1,\)"),
        (".u64 p", Strided(3), "gpu.Strided holds a tensor; got one of int"),
        (".u64 p", torch.zeros(2, dtype=torch.complex64).conj(), r"is_conj\(\)\). Pass .resolve_conj\(\)"),
        (".u64 p", torch.zeros(2, dtype=torch.complex64).conj().imag, r"is_neg\(\)\). Pass .resolve_neg\(\)"),
        (".f32 s", 10**400, "an integer of 1329 bits is beyond any float"),
    ],
)
def test_what_looks_like_a_value_but_is_none(parameter: str, value: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        pack([parameter], value)


def test_a_numpy_array_is_the_bytes_of_a_struct() -> None:
    packed = pack([".align 4 .b8 s[12]"], np.array([1, 2, 3], np.int32))
    assert packed.params == struct.pack("<iii", 1, 2, 3)


@pytest.mark.parametrize(("name", "values"), [("args", None), ("args", "ab"), ("extra", 3)])
def test_arguments_come_as_a_list(name: str, values: Any) -> None:
    packer = Packer(signature(".u64 p"), "cpu", lambda encoding: b"")
    with pytest.raises(LaunchError, match=f"{name} must be a list of values"):
        packer.pack(**{"arguments": [None], **({"extra": values} if name == "extra" else {"arguments": values})})


def test_an_extra_that_is_no_tensor() -> None:
    with pytest.raises(LaunchError, match="extra tensor 0: expected a tensor, got int"):
        pack([], extra=[3])
