"""Kernel parameters that are C structs: a dataclass lists the members, in order, each with its C type."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from sglab.gpu.signature import Parameter
from sglab.gpu.tensor_map import TensorMap

Pointer = Annotated[Any, "u64"]
"""A tensor, gpu.Strided, or None: a null pointer."""
Int32 = Annotated[int, "u32"]
Int64 = Annotated[int, "u64"]
Float32 = Annotated[float, "f32"]

_SIZES = {"u32": 4, "u64": 8, "f32": 4}
_TENSOR_MAP_BYTES, _TENSOR_MAP_ALIGN = 128, 64


class Struct:
    """Base of dataclasses that say what a struct parameter holds; an instance is passed as the argument.

    Members are annotated Pointer, Int32, Int64, Float32 or TensorMap (a CUtensorMap) and are laid out as in C.

        @dataclass(frozen=True)
        class Params(gpu.Struct):
            q: gpu.TensorMap
            seq_lens: gpu.Pointer
            batch: gpu.Int32
    """

    def members(self) -> tuple[tuple[Parameter, Any], ...]:
        """Each member's place in the struct and its value."""
        return tuple((member, getattr(self, member.name)) for member in layout(type(self)))


_layouts: dict[type, tuple[Parameter, ...]] = {}
_struct_bytes: dict[type, int] = {}


def layout(struct: type[Struct]) -> tuple[Parameter, ...]:
    """Where the members of a struct are, as if each were a parameter."""
    if struct not in _layouts:
        _layouts[struct] = _laid_out(struct)
    return _layouts[struct]


def _laid_out(struct: type[Struct]) -> tuple[Parameter, ...]:
    hints = get_type_hints(struct, include_extras=True)
    members: list[Parameter] = []
    end = 0
    for name in (field.name for field in fields(struct)):  # type: ignore[arg-type]
        type_, size, align = _c_type(hints[name])
        offset = -(-end // align) * align
        members.append(Parameter(name, type_, size, align, offset))
        end = offset + size
    return tuple(members)


def size(struct: type[Struct]) -> int:
    """Bytes of a struct, padded to its alignment."""
    if struct not in _struct_bytes:
        members = layout(struct)
        align = max((member.align for member in members), default=1)
        _struct_bytes[struct] = max(
            (-(-(member.offset + member.size) // align) * align for member in members), default=0
        )
    return _struct_bytes[struct]


def _c_type(hint: Any) -> tuple[str, int, int]:
    """(PTX type, size, alignment) of an annotation."""
    if hint is TensorMap:
        return "b8", _TENSOR_MAP_BYTES, _TENSOR_MAP_ALIGN
    if get_origin(hint) is Annotated and (name := get_args(hint)[1]) in _SIZES:
        return name, _SIZES[name], _SIZES[name]
    raise TypeError(f"a member of a struct parameter must be Pointer, Int32, Int64, Float32 or TensorMap; got {hint}")
