"""The launch interface of PTX: target, entries and their parameters, as the core's own parser reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from sglab.gpu import core
from sglab.gpu.errors import GpuError
from sglab.gpu.mangled import parameter_types

Dim3 = tuple[int, int, int]
Kind = Literal["integer", "float", "bits"]


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: its PTX type (u64, f32, b8, …), and its place in the parameter buffer in bytes.

    Attributes:
        pointee: the C++ type of what a pointer points to, such as "float"; empty where nothing says it.
    """

    name: str
    type: str
    size: int
    align: int
    offset: int
    pointee: str = ""

    @cached_property
    def kind(self) -> Kind:
        return {"s": "integer", "u": "integer", "f": "float"}.get(self.type[0], "bits")  # type: ignore[return-value]

    @cached_property
    def is_struct(self) -> bool:
        return self.size not in {1, 2, 4, 8} or (self.type == "b8" and self.size > 1)

    @cached_property
    def text(self) -> str:
        """Name and type, for messages."""
        return f"{self.name} (.{self.type}[{self.size}])" if self.is_struct else f"{self.name} (.{self.type})"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Signature:
    """An entry's parameters and launch directives; None where the PTX does not say."""

    entry: str
    parameters: tuple[Parameter, ...]
    reqntid: Dim3 | None
    maxntid: Dim3 | None
    reqnctapercluster: Dim3 | None

    @cached_property
    def params_size(self) -> int:
        return max((parameter.offset + parameter.size for parameter in self.parameters), default=0)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The parameters as messages name them. Compilers of C++ name them after the kernel, which says nothing."""
        return tuple(self._label(index, str(parameter)) for index, parameter in enumerate(self.parameters))

    def _label(self, index: int, parameter: str) -> str:
        mangled = f"{self.entry}_param_{index} "
        if self.entry.startswith("_Z") and parameter.startswith(mangled):
            return f"argument {index} {parameter.removeprefix(mangled)}"
        return f"argument {index}, {parameter}"


@dataclass(frozen=True)
class Header:
    """What PTX text declares: `.version`, `.target` (first name) and its entries by name."""

    version: str
    target: str
    entries: dict[str, Signature]


def read_header(ptx: str, name: str = "<ptx>", types: Mapping[str, Sequence[str]] | None = None) -> Header:
    """Reads the launch interface of PTX text, in time linear in its length.

    The parser is the emulator's, which passes over bodies, functions and variables here: what only a GPU knows in them
    is no error, and of entries both forms of the text hold the same.

    Args:
        ptx: the text.
        name: of the text, for messages.
        types: C++ types of entries' parameters, for entries whose (mangled) names do not tell.

    Raises:
        GpuError: the text has no .version and .target, or a parameter list or directive that makes no sense.
    """
    try:
        version, target, entries = core.read_header(ptx, name)
    except core.PtxError as error:
        raise GpuError(str(error)) from None
    signatures = [
        Signature(
            entry=entry,
            parameters=tuple(Parameter(of, kind, size, align, offset) for of, size, align, kind, offset in parameters),
            reqntid=reqntid,
            maxntid=maxntid,
            reqnctapercluster=cluster,
        )
        for entry, parameters, reqntid, maxntid, cluster in entries
    ]
    return Header(".".join(map(str, version)), target, {one.entry: _typed(one, types or {}) for one in signatures})


def _typed(signature: Signature, declared: Mapping[str, Sequence[str]]) -> Signature:
    """The signature with what its pointers point to, where C++ types are known for all parameters."""
    types = parameter_types(signature.entry) or declared.get(signature.entry)
    if types is None or len(types) != len(signature.parameters):
        return signature
    parameters = tuple(
        replace(one, pointee=kind[:-1]) if kind.endswith("*") and one.size == 8 else one
        for one, kind in zip(signature.parameters, types, strict=True)
    )
    return replace(signature, parameters=parameters)
