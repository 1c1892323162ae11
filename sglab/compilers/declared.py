"""Kernels' parameters as CUDA C++ source declares them: names, and types where mangled names have none (extern "C")."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_KERNEL = re.compile(r"__global__\b(?P<between>[^;{}]*?)\b(?P<name>[A-Za-z_]\w*)\s*\(")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|typename)\b")
_PARAMETER = re.compile(r"(?P<type>.*[\s*&>])(?P<name>[A-Za-z_]\w*)\s*(?P<array>(?:\[[^\]]*\])*)", re.DOTALL)
_ATTRIBUTES = {"__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__attribute__", "alignas"}


@dataclass(frozen=True)
class Declared:
    """One parameter: its type without qualifiers, such as "float*", and its name."""

    type: str
    name: str


def declared_kernels(source: str) -> dict[str, tuple[Declared, ...]]:
    """The parameters of every `__global__` function, by its name. One that is declared with different parameters, or
    whose parameters cannot be read without the preprocessor, is left out."""
    text = _NOISE.sub(" ", source)
    found: dict[str, tuple[Declared, ...] | None] = {}
    for match in _KERNEL.finditer(text):
        name, begin = _name(text, match)
        inside = _enclosed(text, begin)
        parameters = None if inside is None else _parameters(inside)
        found[name] = parameters if found.get(name, parameters) == parameters else None
    return {name: parameters for name, parameters in found.items() if parameters is not None}


def _name(text: str, match: re.Match[str]) -> tuple[str, int]:
    """The function's name, past attributes that look like calls, and where its parameters begin."""
    name, begin = match["name"], match.end()
    while name in _ATTRIBUTES and (inside := _enclosed(text, begin)) is not None:
        further = re.compile(r"[^;{}()]*?\b([A-Za-z_]\w*)\s*\(").match(text, begin + len(inside) + 1)
        if further is None:
            break
        name, begin = further[1], further.end()
    return name, begin


def _enclosed(text: str, begin: int) -> str | None:
    """What stands between the parenthesis before `begin` and the one that closes it."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at]
    return None


def _parameters(text: str) -> tuple[Declared, ...] | None:
    parts = [part.partition("=")[0].strip() for part in _split(text)]
    if parts in ([""], ["void"]):
        return ()
    matches = [_PARAMETER.fullmatch(part) for part in parts]
    if "#" in text or not all(matches):
        return None
    return tuple(Declared(_type(one["type"], one["array"]), one["name"]) for one in matches if one)


def _split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"<": 1, "(": 1, "[": 1, "{": 1, ">": -1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]


def _type(text: str, array: str) -> str:
    words = " ".join(_QUALIFIERS.sub(" ", text).split())
    return re.sub(r"\s*([*&])\s*", r"\1", words) + "*" * (array.count("[") > 0)
