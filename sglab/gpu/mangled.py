"""Parameter types of a C++ function, read from its mangled name.

The Itanium C++ ABI, 5.1 "External Names (a.k.a. Mangling)": https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
Only what kernels' signatures are made of; where a name uses more than that, nothing is concluded from it.
"""

from __future__ import annotations

import string
from functools import lru_cache

_BUILTIN = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
    "Dh": "__half",
    "DF16_": "_Float16",
    "DF16b": "__bf16",
}
_DIGITS = string.digits + string.ascii_uppercase
_DEEPEST = 64


class _UnknownError(Exception):
    """The name uses a part of the ABI that is not read here."""


@lru_cache(maxsize=1024)
def parameter_types(name: str) -> tuple[str, ...] | None:
    """The types of `name`'s parameters without const and volatile, as ("float*", "int"); None where it does not tell.

    Class types are spelt as the name has them, with template arguments as "<>": they are compared, never parsed.
    """
    if not name.startswith("_Z"):
        return None
    try:
        return _Reader(name).function()
    except (_UnknownError, IndexError, ValueError):
        return None


class _Reader:
    def __init__(self, name: str) -> None:
        self._text, self._at, self._depth = name, 2, 0
        self._known: list[str] = []  # what S_, S0_, … stand for
        self._arguments: list[str] = []  # of the function template: T_, T0_, …

    def function(self) -> tuple[str, ...]:
        if self._name(of_function=True):
            self._type()  # a template's return type comes first
        types = []
        while self._at < len(self._text) and self._text[self._at] not in ".$":
            types.append(self._type())
        return () if types == ["void"] else tuple(types)

    def _name(self, of_function: bool = False) -> bool:
        """A function's name; whether it ends with template arguments."""
        if self._skip("N"):
            _, templated = self._nested()
            return templated
        name = self._unscoped()
        if self._peek() != "I":
            return False
        self._known.append(name)
        self._arguments = self._template_arguments()
        return True

    def _nested(self) -> tuple[str, bool]:
        """A qualified name up to its E, and whether template arguments end it."""
        while self._peek() in "rVK":
            self._at += 1
        parts, templated = "", False
        while not self._skip("E"):
            templated = self._peek() == "I"
            if templated:
                self._arguments = self._template_arguments()
                parts += "<>"
            elif self._peek() == "S" and not self._text.startswith("St", self._at):
                parts = self._substitution()
                continue
            else:
                parts += ("::" if parts else "") + self._unscoped()
            if self._peek() != "E":
                self._known.append(parts)
        return parts, templated

    def _unscoped(self) -> str:
        std = "std::" if self._skip("St") else ""
        self._skip("L")  # internal linkage
        digits = ""
        while self._peek().isdigit():
            digits += self._next()
        if not digits or int(digits) > len(self._text) - self._at:
            raise _UnknownError
        begin, self._at = self._at, self._at + int(digits)
        while self._skip("B"):  # an ABI tag
            self._unscoped()
        return std + self._text[begin : begin + int(digits)]

    def _type(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownError
        try:
            return self._any_type()
        finally:
            self._depth -= 1

    def _any_type(self) -> str:
        for code in ("DF16_", "DF16b", "Dh"):
            if self._skip(code):
                return _BUILTIN[code]
        letter = self._peek()
        if letter in _BUILTIN:
            return _BUILTIN[self._next()]
        if letter in "PRO":
            self._at += 1
            return self._remember(self._type() + {"P": "*", "R": "&", "O": "&&"}[letter])
        if letter in "rVK":
            while self._peek() in "rVK":
                self._at += 1
            return self._remember(self._type())
        if letter == "T":
            self._at += 1
            return self._remember(self._arguments[self._number()])
        if letter == "S" and not self._text.startswith("St", self._at):
            found = self._substitution()
            return self._instance(found) if self._peek() == "I" else found
        if letter == "N":
            self._at += 1
            outer = self._arguments
            name, _ = self._nested()
            self._arguments = outer
            return self._remember(name)
        if letter.isdigit() or letter == "S":
            name = self._remember(self._unscoped())
            return self._instance(name) if self._peek() == "I" else name
        raise _UnknownError

    def _instance(self, name: str) -> str:
        self._template_arguments()
        return self._remember(name + "<>")

    def _template_arguments(self) -> list[str]:
        self._next()  # I or J
        found = []
        while not self._skip("E"):
            if self._skip("L"):
                self._type()
                end = self._text.index("E", self._at)
                found.append(self._text[self._at : end])
                self._at = end + 1
            elif self._peek() == "J":
                found += self._template_arguments()
            else:
                found.append(self._type())
        return found

    def _substitution(self) -> str:
        self._next()  # S
        if self._peek() not in _DIGITS + "_":
            raise _UnknownError  # std::string and its like
        return self._known[self._number(36)]

    def _number(self, base: int = 10) -> int:
        """What stands between S or T and the underscore: nothing is 0, 0 is 1."""
        end = self._text.index("_", self._at)
        digits, self._at = self._text[self._at : end], end + 1
        return int(digits, base) + 1 if digits else 0

    def _remember(self, kind: str) -> str:
        self._known.append(kind)
        return kind

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else "\0"

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) * found
        return found
