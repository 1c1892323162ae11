"""Layouts as programs write and print them, brought into the notation that `parse` reads: C++ types, `make_layout`
calls, CuTe's static integers and what it prints of a swizzled tensor."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"\bcute(?:::|\.)")
_OF_BYTES = re.compile(
    r"<\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*>\s*o\s*\w+_ptr(?:<[^<>]*>)?\[(8|16|32|64)b\]\([^()]*\)\s*o\b"
)
"""A swizzle that CuTe prints before a pointer permutes the bytes of addresses, not the numbers of elements."""
_STATIC = re.compile(r"\b(?:Int|C|constant)<\s*(?:\w+\s*,\s*)?(\d+)\s*>(?:\{\})?|(?<!\w)_(\d+)(?:\{\})?")
_NO_OFFSET = re.compile(r"(>\s*o)\s*0\s*o\b")
_TUPLE = re.compile(r"\b(?:Shape|Stride|tuple)\s*<([^<>]*)>(?:\{\})?")
_TYPE = re.compile(r"\bLayout\s*<([^<>]*)>(?:\{\})?")
_CALL = re.compile(r"\bmake_(?:shape|stride)\s*(?=\()")
_MAKE = re.compile(r"\bmake_layout\s*\(")


def plain_notation(text: str) -> str:
    """`Layout<Shape<_8,_4>,Stride<_4,_1>>`, `make_layout((8,4), stride=(4,1))` and `S<3,4,3> o 0 o (_8,_64):(_64,_1)`
    as `(8,4):(4,1)` and `S<3,4,3> o (8,64):(64,1)`; `Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)`, whose swizzle
    is of bytes, as `Sw<3,3,3> o (8,64):(64,1)`. Other text stays as it is."""
    text = _OF_BYTES.sub(_of_elements, _PREFIX.sub("", text.strip().removesuffix(";")))
    text = _NO_OFFSET.sub(r"\1", _STATIC.sub(lambda found: found.group(1) or found.group(2), text))
    before = ""
    while before != text:
        before, text = text, _TUPLE.sub(r"(\1)", text)
    text = _TYPE.sub(lambda found: _pair(found.group(1)), _CALL.sub("", text))
    while (found := _MAKE.search(text)) and (end := _closing(text, found.end())) is not None:
        text = text[: found.start()] + _pair(text[found.end() : end]) + text[end + 1 :]
    return text


def _of_elements(found: re.Match[str]) -> str:
    bits, base, shift, width = (int(number) for number in found.groups())
    less = width.bit_length() - 4  # log2 of an element's bytes
    return f"<{bits},{base - less},{shift}> o" if base >= less else found.group()


def _pair(arguments: str) -> str:
    """Shape and stride, or a shape alone."""
    depth = 0
    for at, letter in enumerate(arguments):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            stride = re.sub(r"^\s*stride\s*=", "", arguments[at + 1 :])
            return f"{arguments[:at].strip()}:{stride.strip()}"
    return arguments.strip()


def _closing(text: str, at: int) -> int | None:
    """Where the parenthesis ends that is open at a place."""
    depth = 1
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    return None
