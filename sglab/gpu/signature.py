"""The launch interface of PTX: target, entries and their parameters, read from the text without compiling it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sglab.gpu.errors import GpuError

Dim3 = tuple[int, int, int]
Kind = Literal["integer", "float", "bits"]

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_ENTRY = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?([^{;]*)\{", re.MULTILINE
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?:\.ptr\s*(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$%]+)\s*(?:\[\s*(?P<count>\d+)\s*\])?"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: its PTX type (u64, f32, b8, …), and its place in the parameter buffer in bytes."""

    name: str
    type: str
    size: int
    align: int
    offset: int

    @cached_property
    def kind(self) -> Kind:
        return {"s": "integer", "u": "integer", "f": "float"}.get(self.type[0], "bits")  # type: ignore[return-value]

    @cached_property
    def is_struct(self) -> bool:
        return self.size not in {1, 2, 4, 8} or (self.type == "b8" and self.size > 1)

    def __str__(self) -> str:
        return f"{self.name} (.{self.type}[{self.size}])" if self.is_struct else f"{self.name} (.{self.type})"


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
        """The parameters as messages name them."""
        return tuple(f"argument {index}, {parameter}" for index, parameter in enumerate(self.parameters))


@dataclass(frozen=True)
class Header:
    """What PTX text declares: `.version`, `.target` (first name) and its entries by name."""

    version: str
    target: str
    entries: dict[str, Signature]


def read_header(ptx: str, name: str = "<ptx>") -> Header:
    """Reads the launch interface of PTX text.

    raises GpuError: the text has no .version and .target, or a parameter list that makes no sense
    """
    version = re.search(r"^\s*\.version\s+([\d.]+)", ptx, re.MULTILINE)
    target = re.search(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
    if not version or not target:
        raise GpuError(f"{name} is not PTX: it has no .version and .target directives")
    entries = {found[1]: _signature(found[1], found[2] or "", found[3], name) for found in _ENTRY.finditer(ptx)}
    return Header(version[1], target[1], entries)


def _signature(entry: str, parameters: str, directives: str, name: str) -> Signature:
    text = _COMMENT.sub("", directives)
    return Signature(
        entry=entry,
        parameters=_parameters(_COMMENT.sub("", parameters), f"{name}, entry {entry}"),
        reqntid=_dim3(text, "reqntid"),
        maxntid=_dim3(text, "maxntid"),
        reqnctapercluster=_dim3(text, "reqnctapercluster"),
    )


def _parameters(text: str, where: str) -> tuple[Parameter, ...]:
    parameters: list[Parameter] = []
    end = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _PARAM.fullmatch(part)
        element = _SIZES.get(found["type"].lstrip("sufb")) if found else None
        if not found or element is None:
            raise GpuError(f"{where}: cannot read the parameter '{part}'")
        size = element * int(found["count"] or 1)
        align = int(found["align"] or element)
        offset = -(-end // align) * align
        parameters.append(Parameter(found["name"], found["type"], size, align, offset))
        end = offset + size
    return tuple(parameters)


def _dim3(text: str, directive: str) -> Dim3 | None:
    found = re.search(rf"\.{directive}\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", text)
    return (int(found[1]), int(found[2] or 1), int(found[3] or 1)) if found else None
