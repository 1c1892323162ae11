"""Tensor maps: how TMA sees a tensor. Described here, encoded by the device that is going to use them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sglab.gpu.errors import LaunchError

Swizzle = Literal[0, 32, 64, 128]
Fill = Literal["zero", "nan"]

# CUtensorMapDataType by torch's name of a dtype. Floats of 8 bits travel as bytes.
_DATA_TYPES = {
    "uint8": 0,
    "int8": 0,
    "bool": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "uint16": 1,
    "int16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "tfloat32": 11,
}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}


@dataclass(frozen=True)
class TiledEncoding:
    """The arguments of cuTensorMapEncodeTiled: sizes innermost first, strides in bytes without the innermost."""

    data_type: int
    address: int
    global_dim: tuple[int, ...]
    global_strides: tuple[int, ...]
    box_dim: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int
    swizzle: int
    l2_promotion: int
    oob_fill: int

    def at(self, address: int) -> TiledEncoding:
        """Of a tensor like this one that begins elsewhere, at a multiple of 16 bytes."""
        other = object.__new__(TiledEncoding)
        other.__dict__.update(self.__dict__, address=address)
        return other


@dataclass(frozen=True)
class TensorMap:
    """A tiled tensor map over a tensor. Pass it where a kernel takes a `const __grid_constant__ CUtensorMap`.

    Attributes:
        tensor: 1 to 5 dimensions, the last one contiguous, the address and the other strides multiples of 16 bytes.
        box: elements per copy along each dimension of `tensor`, in its order, 1 to 256 each.
        swizzle: 0 (none), 32, 64 or 128 bytes; the box's last dimension may span no more than that.
        fill: what out-of-bounds elements read as.
        l2_promotion: 0, 64, 128 or 256 bytes; a hint.
        element_strides: take every n-th element along a dimension.
        tf32: a float32 tensor is rounded to TF32 as it is copied.
    """

    tensor: Any
    box: Sequence[int]
    swizzle: Swizzle = 0
    fill: Fill = "zero"
    l2_promotion: int = 0
    element_strides: Sequence[int] | None = None
    tf32: bool = False
    encoding: TiledEncoding = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", _encode(self))


_MOST = 1024
_known: dict[Hashable, TiledEncoding] = {}
"""What maps that were found right look like, by all that they depend on but the address; at most _MOST."""


def _encode(m: TensorMap) -> TiledEncoding:
    tensor, own = m.tensor, m.element_strides and tuple(m.element_strides)
    form = (tensor.dtype, tensor.shape, tensor.stride(), tuple(m.box), m.swizzle, m.fill, m.l2_promotion, own, m.tf32)
    address = tensor.data_ptr()
    known = _known.get(form)
    if known is not None and address % 16 == 0:
        return known.at(address)
    encoding = _encoded(m)
    if len(_known) >= _MOST:
        _known.clear()
    _known[form] = encoding
    return encoding


def _encoded(m: TensorMap) -> TiledEncoding:
    tensor, rank = m.tensor, m.tensor.dim()
    element_strides = tuple(m.element_strides or (1,) * rank)
    dtype = "tfloat32" if m.tf32 else str(tensor.dtype).removeprefix("torch.")
    strides = _byte_strides(tensor)
    _check(m, strides, element_strides, dtype)
    return TiledEncoding(
        data_type=_DATA_TYPES[dtype],
        address=tensor.data_ptr(),
        global_dim=tuple(reversed(tensor.shape)),
        global_strides=tuple(reversed(strides[:-1])),
        box_dim=tuple(reversed(tuple(m.box))),
        element_strides=tuple(reversed(element_strides)),
        interleave=0,
        swizzle=_SWIZZLES[m.swizzle],
        l2_promotion=_PROMOTIONS[m.l2_promotion],
        oob_fill=int(m.fill == "nan"),
    )


def _byte_strides(tensor: Any) -> list[int]:
    """Strides in bytes. A dimension of size 1 may carry any stride; it gets the one a contiguous tensor would have."""
    strides: list[int] = []
    packed = tensor.element_size()
    for length, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        strides.append(packed if length == 1 else stride * tensor.element_size())
        packed = -(-strides[-1] * length // 16) * 16
    return strides[::-1]


def _check(m: TensorMap, strides: list[int], element_strides: tuple[int, ...], dtype: str) -> None:
    tensor, rank = m.tensor, len(strides)
    if not 1 <= rank <= 5:
        _refuse("tensor", f"must have 1 to 5 dimensions; got shape {tuple(tensor.shape)}")
    if dtype not in _DATA_TYPES or (m.tf32 and str(tensor.dtype) != "torch.float32"):
        _refuse("tensor", f"has a dtype that TMA cannot copy{' as TF32' if m.tf32 else ''}: {tensor.dtype}")
    if 0 in tensor.shape:
        _refuse("tensor", f"is empty: shape {tuple(tensor.shape)}")
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        _refuse("tensor", f"must be contiguous in its last dimension; its strides are {tensor.stride()}")
    if tensor.data_ptr() % 16:
        _refuse("tensor", f"must start at a multiple of 16 bytes; got {tensor.data_ptr():#x}. Clone it")
    for axis, stride in enumerate(strides[:-1]):
        if stride % 16:
            _refuse("tensor", f"has a stride of {stride} bytes in dimension {axis}; TMA needs multiples of 16")
    if len(m.box) != rank or not all(1 <= length <= 256 for length in m.box):
        _refuse("box", f"must be {rank} lengths of 1 to 256, one per dimension of the tensor; got {tuple(m.box)}")
    if len(element_strides) != rank or not all(1 <= stride <= 8 for stride in element_strides):
        _refuse("element_strides", f"must be {rank} numbers from 1 to 8; got {element_strides}")
    if m.swizzle not in _SWIZZLES:
        _refuse("swizzle", f"must be 0, 32, 64 or 128 bytes; got {m.swizzle!r}")
    if m.l2_promotion not in _PROMOTIONS:
        _refuse("l2_promotion", f"must be 0, 64, 128 or 256 bytes; got {m.l2_promotion!r}")
    if m.fill not in {"zero", "nan"} or (m.fill == "nan" and not tensor.dtype.is_floating_point):
        _refuse("fill", f"must be 'zero', or 'nan' for floating-point tensors; got {m.fill!r} for {tensor.dtype}")
    span = m.box[-1] * tensor.element_size()
    if span % 16:
        _refuse("box", f"spans {span} bytes in its last dimension; TMA needs multiples of 16")
    if m.swizzle and span > m.swizzle:
        _refuse("box", f"spans {span} bytes in its last dimension; swizzle {m.swizzle} allows {m.swizzle}")


def _refuse(argument: str, text: str) -> Any:
    raise LaunchError(f"tensor map: {argument} {text}")
