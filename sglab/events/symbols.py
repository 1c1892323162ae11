"""Names of variables as their authors wrote them, from the symbols of C++."""

from __future__ import annotations

import re

_LOCAL = re.compile(r"(?<=E)[1-9]\d*")
_NESTED = re.compile(r"_Z(?:NK?|L)*")
_LENGTH = re.compile(r"[1-9]\d*")
_END = re.compile(r"E?(_\d+_?|__\d+_)?$")


def plain_name(symbol: str) -> str:
    """The last identifier of a mangled C++ name: "smem" of "_ZZ4axpyPfE4smem"; other names as they are."""
    if not symbol.startswith("_Z"):
        return symbol
    # A variable of a function comes after the E that ends the function. Digits elsewhere may belong to a type's name.
    for local in _LOCAL.finditer(symbol):
        if (name := _identifier(symbol, local)) and _END.match(symbol, local.end() + len(name)):
            return name
    prefix = _NESTED.match(symbol)
    at = prefix.end() if prefix else 0
    last = ""
    while (length := _LENGTH.match(symbol, at)) and (name := _identifier(symbol, length)):
        last, at = name, length.end() + len(name)
    return last if last and _END.match(symbol, at) else symbol


def _identifier(symbol: str, length: re.Match[str]) -> str:
    """As many characters after a length as it says, where they are a name."""
    size = int(length[0])
    name = symbol[length.end() : length.end() + size]
    return name if len(name) == size and name.isidentifier() else ""
