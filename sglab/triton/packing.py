"""A Triton launch's values as the parameter buffer of its compiled PTX."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sglab.gpu.errors import GpuError
from sglab.gpu.signature import Signature
from sglab.gpu.tensor_map import TiledEncoding

_CODES = {
    "i1": "?",
    "u1": "?",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "fp16": "e",
    "fp32": "f",
    "f32": "f",
    "fp64": "d",
}
_POINTER, _MAP = "Q", "128s"
# Numbers of PTX's tensormap element types that differ from the driver's CUtensorMapDataType.
_DATA_TYPES = {8: 10, 9: 8, 10: 9}
_TF32 = 11
_L2_PROMOTION_128B = 2

Encode = Callable[[TiledEncoding], bytes]


class ParameterPlan:
    """How one compiled form of a kernel takes its arguments.

    Args:
        types: Triton's type of every parameter, nested for tuples; "constexpr" where nothing is passed.
        descriptors: for each tensor descriptor, how Triton lays out its tensor map; empty where it takes descriptors
            apart.
        signature: of the PTX entry; two addresses of scratch memory follow the arguments there.

    Raises:
        GpuError: the PTX does not take what the types say.
    """

    def __init__(self, types: Sequence[Any], descriptors: Sequence[Mapping[str, Any]], signature: Signature) -> None:
        self._types, self._descriptors = tuple(types), tuple(descriptors)
        codes = [*self._codes(), _POINTER, _POINTER]
        sizes = [struct.calcsize("<" + code) for code in codes]
        if sizes != [parameter.size for parameter in signature.parameters]:
            listed = ", ".join(map(str, signature.parameters))
            raise GpuError(f"{signature.entry}: Triton passes arguments of {sizes} bytes; the PTX takes {listed}")
        self._struct = struct.Struct(_with_padding(codes, sizes, signature))

    def pack(self, values: Iterable[Any], scratch: int, encode: Encode) -> bytes:
        """values: one per parameter of the Python function; scratch: address of the launch's scratch memory, or 0."""
        return self._struct.pack(*self._numbers(values, encode), scratch, 0)

    def pack_again(self, numbers: Iterable[Any], scratch: int) -> bytes:
        """numbers: as `numbers` gave them, with other addresses in their places."""
        return self._struct.pack(*numbers, scratch, 0)

    def numbers(self, values: Iterable[Any]) -> tuple[list[Any], list[int]]:
        """What plain values and tensors are passed as, and where among that there are addresses of tensors."""
        places = [i for i, kind in enumerate(_flat(self._types)) if kind[0] == "*"]
        return list(self._numbers(values, _no_maps)), places

    def _codes(self) -> Iterator[str]:
        described = iter(self._descriptors)
        for kind in _flat(self._types):
            if kind.startswith("*"):
                yield _POINTER
            elif kind.startswith("tensordesc"):
                rank = kind.partition("[")[2].partition("]")[0].count(",") + 1  # a Gluon layout follows the shape
                yield from [_MAP] if next(described, None) else [_POINTER, *"q" * (2 * rank), "?", "?"]
                yield from "i" * rank + "q" * rank
            elif kind in _CODES:
                yield _CODES[kind]
            else:
                raise GpuError(f"arguments of Triton's type {kind} cannot be passed to a kernel; pass a tensor of one")

    def _numbers(self, values: Iterable[Any], encode: Encode) -> Iterator[Any]:
        described = iter(self._descriptors)
        for kind, value in _pairs(self._types, values):
            if kind[0] == "*":
                yield value.data_ptr()
            elif kind[0] == "t":
                layout = next(described, None)
                yield from _taken_apart(value) if layout is None else [encode(_encoding(value, layout))]
                yield from value.shape
                yield from value.strides
            else:
                yield value


def _no_maps(encoding: TiledEncoding) -> bytes:
    raise GpuError(f"a tensor map of {encoding.global_dim} is neither a plain value nor a tensor")


def _flat(types: Iterable[Any]) -> Iterator[str]:
    for kind in types:
        if isinstance(kind, tuple):
            yield from _flat(kind)
        elif kind != "constexpr":
            yield kind


def _pairs(types: Iterable[Any], values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for kind, value in zip(types, values, strict=True):
        if isinstance(kind, tuple):
            yield from _pairs(kind, value)
        elif kind != "constexpr":
            yield kind, value


def _taken_apart(descriptor: Any) -> Iterator[Any]:
    """Before sm_90 a descriptor is a pointer with sizes; Triton passes the sizes twice."""
    yield descriptor.base.data_ptr()
    yield from descriptor.shape
    yield from descriptor.strides
    yield descriptor.padding == "nan"
    yield descriptor.round_f32_to_tf32


def _encoding(descriptor: Any, layout: Mapping[str, Any]) -> TiledEncoding:
    shape = list(descriptor.shape)
    if layout["fp4_padded"]:
        shape[-1] *= 2
    kind = _TF32 if descriptor.round_f32_to_tf32 else layout["elem_type"]
    return TiledEncoding(
        data_type=_DATA_TYPES.get(kind, kind),
        address=descriptor.base.data_ptr(),
        global_dim=tuple(reversed(shape)),
        global_strides=tuple(stride * layout["elem_size"] for stride in reversed(descriptor.strides[:-1])),
        box_dim=tuple(reversed(layout["block_size"])),
        element_strides=(1,) * len(shape),
        interleave=0,
        swizzle=layout["swizzle"],
        l2_promotion=_L2_PROMOTION_128B,
        oob_fill=int(descriptor.padding == "nan"),
    )


def _with_padding(codes: Sequence[str], sizes: Sequence[int], signature: Signature) -> str:
    text, end = "<", 0
    for code, size, parameter in zip(codes, sizes, signature.parameters, strict=True):
        text += "x" * (parameter.offset - end) + code
        end = parameter.offset + size
    return text
