"""The launch interface of PTX: target, entries and their parameters, read from the text without compiling it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from sglab.gpu.errors import GpuError
from sglab.gpu.mangled import parameter_types

Dim3 = tuple[int, int, int]
Kind = Literal["integer", "float", "bits"]

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d{1,10})\s+)?\.(?P<type>\w+)\s+"
    r"(?:\.ptr\s*(?:\.(?:global|shared|const|local)\s+)?(?:\.align\s+\d{1,10}\s+)?)?"
    r"(?P<name>[\w$%]+)\s*(?:\[\s*(?P<count>\d{1,10})\s*\])?"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LANDMARK = re.compile(r"\.(entry|version|target)\b")
_PRAGMA = re.compile(r"[^;{}]*?\.pragma\s*\"[^\"]*\"(?:\s*,\s*\"[^\"]*\")*\s*;")
"""A directive of an entry that ends in a semicolon, unlike the others."""
_NAME = re.compile(r"\s*([\w$%]+)\s*")
_VERSION = re.compile(r"\s*(\d{1,4}\.\d{1,4})\b")
PARAMETER_BYTES = 32_764
"""Of one kernel's parameters, the most that CUDA passes (CUDA 12.1 and later, sm_70 on)."""
NAME_LETTERS = 16_384
"""Of an entry's name, the most that is read; the longest mangled names of CUTLASS have some 3,000."""
DIRECTIVE_LETTERS = 4_096
"""Between an entry's parameters and its body, the most that is read: launch directives take some hundred."""


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

    Args:
        ptx: the text.
        name: of the text, for messages.
        types: C++ types of entries' parameters, for entries whose (mangled) names do not tell.

    Raises:
        GpuError: the text has no .version and .target, or a parameter list or directive that makes no sense.
    """
    text = _COMMENT.sub(" ", ptx)
    version = target = ""
    entries: dict[str, Signature] = {}
    depth = seen = 0
    for found in _LANDMARK.finditer(text):
        word, at = found[1], found.end()
        depth += text.count("{", seen, at) - text.count("}", seen, at)
        seen = at
        if word == "version" and not version:
            version = _matched(_VERSION, text, at)
        elif word == "target" and not target:
            target = _matched(_NAME, text, at)
        elif word == "entry" and depth == 0:
            signature = _entry(text, at, name)
            if signature is not None:
                entries[signature.entry] = _typed(signature, types or {})
    if not version or not target:
        raise GpuError(f"{name} is not PTX: it has no .version and .target directives")
    return Header(version, target, entries)


def _matched(pattern: re.Pattern[str], text: str, at: int) -> str:
    found = pattern.match(text, at)
    return found[1] if found else ""


def _entry(text: str, at: int, name: str) -> Signature | None:
    """The entry whose name follows at `at`; None of a declaration, which has no body."""
    found = _NAME.match(text, at, at + NAME_LETTERS)
    if found is None or found.end() == at + NAME_LETTERS:
        raise GpuError(f"{name}: .entry is followed by no name of at most {NAME_LETTERS} letters")
    entry, at, parameters = found[1], found.end(), ""
    where = f"{name}, entry {entry[:80]}"
    if text.startswith("(", at):
        close = text.find(")", at)
        if close < 0:
            raise GpuError(f"{where}: its parameter list has no end")
        parameters, at = text[at + 1 : close], close + 1
    start, reach = at, at + DIRECTIVE_LETTERS
    while pragma := _PRAGMA.match(text, at, reach):
        at = pragma.end()
    body, semicolon = text.find("{", at, reach), text.find(";", at, reach)
    if body < 0 and semicolon < 0:
        raise GpuError(f"{where}: neither a body nor a semicolon follows within {DIRECTIVE_LETTERS} letters")
    if body < 0 or 0 <= semicolon < body:
        return None
    directives = text[start:body]
    return Signature(
        entry=entry,
        parameters=_parameters(parameters, where),
        reqntid=_dim3(directives, "reqntid", where),
        maxntid=_dim3(directives, "maxntid", where),
        reqnctapercluster=_dim3(directives, "reqnctapercluster", where),
    )


def _parameters(text: str, where: str) -> tuple[Parameter, ...]:
    parameters: list[Parameter] = []
    end = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _PARAM.fullmatch(part)
        element = _SIZES.get(found["type"].lstrip("sufb")) if found else None
        if not found or element is None:
            raise GpuError(f"{where}: cannot read the parameter '{part[:200]}'")
        size = element * _number(found["count"] or "1")
        align = int(found["align"] or element)
        if align < 1 or align & (align - 1) or align > 128:
            raise GpuError(f"{where}: .align of {found['name'][:80]} must be a power of two up to 128; got {align}")
        offset = -(-end // align) * align
        end = offset + size
        if end > PARAMETER_BYTES:
            raise GpuError(
                f"{where}: its parameters take {end} bytes with {found['name'][:80]}; a kernel gets at most "
                f"{PARAMETER_BYTES}. Pass a pointer"
            )
        parameters.append(Parameter(found["name"], found["type"], size, align, offset))
    return tuple(parameters)


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


def _number(digits: str) -> int:
    """As PTX reads it: a leading 0 makes it octal."""
    octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & {"8", "9"}
    return int(digits, 8 if octal else 10)


def _dim3(text: str, directive: str, where: str) -> Dim3 | None:
    found = re.search(rf"\.{directive}\b([\s\d,]*)", text)
    if found is None:
        return None
    sizes = found[1].replace(",", " ").split()
    if not 1 <= len(sizes) <= 3 or any(len(size) > 10 for size in sizes):
        raise GpuError(f"{where}: .{directive} must have 1 to 3 sizes; got '{found[1].strip()[:80]}'")
    x, y, z = (*map(_number, sizes), 1, 1)[:3]
    return x, y, z
