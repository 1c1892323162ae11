"""Layouts as people write them: `(8,(4,2)):(4,(1,32))`, `Sw<3,3,3> o (8,64):(64,1)`, `logical_divide(16:1, 4:2)`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from . import algebra
from .layout import ComposedLayout, IntTuple, Layout, Swizzle
from .pasted import plain_notation

TOKEN = re.compile(r"\s*(?:(\d+)|(S(?:w(?:izzle)?)?\s*<)|([a-z_]+)|([(),:<>∘]))")
MOST = 1 << 20
"""The largest integer that may be typed."""


def parse(text: str) -> Layout | ComposedLayout:
    """The layout that a text names.

    Args:
        text: `shape:stride`, or a shape alone (dense, first mode contiguous); `A o B` composes, from right to left;
            `Sw<bits,base,shift>` is a swizzle, the leftmost of a composition; functions: coalesce(A), complement(A, n),
            composition(A, B), left_inverse(A), logical_divide(A, B), logical_product(A, B), right_inverse(A),
            zipped_divide(A, B, …), zipped_divide(A, <B, …>) or, with a tile's shape, zipped_divide(A, (4,6)). What
            CuTe prints and what its programs write is read: `S<3,4,3> o 0 o (_8,_64):(_64,_1)`,
            `Layout<Shape<_8,_4>, Stride<_4,_1>>`, `make_layout(…)`.

    Raises:
        ValueError: not such a text, or no such layout; the message says where and what is expected.
    """
    return _Reader(plain_notation(text)).layout()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[int, str]] = []
        at = 0
        while at < len(text.rstrip()):
            match = TOKEN.match(text, at)
            if not match:
                rest = text[at:].strip()
                refused = next((said for start, said in REFUSED.items() if rest.startswith(start)), EXPECTED)
                raise ValueError(f"layout {text!r}: cannot read {rest[:12]!r}; {refused}")
            token = match.group().strip()
            self.tokens.append((match.end() - len(token), "Sw<" if match.group(2) else token))
            at = match.end()
        self.at = 0

    def layout(self) -> Layout | ComposedLayout:
        made = self.composed()
        if self.at < len(self.tokens):
            raise self.error("the end")
        return made

    def composed(self) -> Layout | ComposedLayout:
        left = self.term()
        if self.peek() not in ("o", "∘"):
            if isinstance(left, Swizzle):
                raise self.error("'o' and a layout after the swizzle")
            return left
        self.next()
        right = self.composed()
        if isinstance(right, ComposedLayout):
            raise ValueError(f"layout {self.text!r}: a swizzle may only stand leftmost: it is no layout")
        if isinstance(left, ComposedLayout):
            return ComposedLayout(left.swizzle, algebra.composition(left.layout, right))
        if isinstance(left, Swizzle):
            return ComposedLayout(left, right)
        return algebra.composition(left, right)

    def term(self) -> Layout | ComposedLayout | Swizzle:
        token = self.peek()
        if token == "Sw<":
            self.next()
            numbers = [self.number()]
            for _ in range(2):
                self.expect(",")
                numbers.append(self.number())
            self.expect(">")
            return Swizzle(*numbers)
        if token in FUNCTIONS:
            return self.call()
        shape = self.int_tuple()
        if self.peek() != ":":
            return Layout(shape)
        self.next()
        return Layout(shape, self.int_tuple())

    def call(self) -> Layout:
        name = self.next()
        least, most, function = FUNCTIONS[name]
        self.expect("(")
        arguments = [self.plain(name)]
        while self.peek() == ",":
            self.next()
            first = self.at
            arguments += self.tilers(name)
            if name == "zipped_divide" and len(arguments) == 2 and self.peek() == ")":
                arguments[1:] = self.modes(arguments[1], first)
        self.expect(")")
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise ValueError(f"layout {self.text!r}: {name} takes {wanted} arguments, got {len(arguments)}")
        return function(*arguments)

    def tilers(self, name: str) -> list[Layout]:
        """One layout, or the tilers of a division by modes as CuTe writes them: `<3:3, (2,4):(1,8)>`."""
        if name != "zipped_divide" or self.peek() != "<":
            return [self.plain(name)]
        self.next()
        tilers = [self.plain(name)]
        while self.peek() == ",":
            self.next()
            tilers.append(self.plain(name))
        self.expect(">")
        return tilers

    def modes(self, tiler: Layout, first: int) -> list[Layout]:
        """To CuTe a tile's shape alone, `(4,6)` from token `first` on, is a tiler for each mode and no layout."""
        bare = all(token in "()," or token.isdigit() for _, token in self.tokens[first : self.at])
        return [Layout(part) for part in tiler.shape] if bare and isinstance(tiler.shape, tuple) else [tiler]

    def plain(self, name: str) -> Layout:
        made = self.composed()
        if isinstance(made, ComposedLayout):
            raise ValueError(
                f"layout {self.text!r}: {name} takes layouts; put the swizzle before the result, as Sw<…> o …"
            )
        return made

    def int_tuple(self) -> IntTuple:
        if self.peek() != "(":
            return self.number()
        self.next()
        parts = [self.int_tuple()]
        while self.peek() == ",":
            self.next()
            parts.append(self.int_tuple())
        self.expect(")")
        return tuple(parts)

    def number(self) -> int:
        if not self.peek().isdigit():
            raise self.error("an integer or (")
        value = int(self.next())
        if value > MOST:
            raise ValueError(f"layout {self.text!r}: {value} is more than {MOST}, the largest integer that is taken")
        return value

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.error(repr(token))
        self.at += 1

    def error(self, wanted: str) -> ValueError:
        got = repr(self.peek()) if self.peek() else "the end"
        where = self.tokens[self.at][0] if self.at < len(self.tokens) else len(self.text)
        return ValueError(f"layout {self.text!r}: expected {wanted} at character {where + 1}, got {got}; {EXPECTED}")


def _complement(layout: Layout, size: Layout | None = None) -> Layout:
    return algebra.complement(layout, 1 if size is None else size.size)


def _zipped_divide(layout: Layout, *tilers: Layout) -> Layout:
    return algebra.zipped_divide(layout, tilers)


FUNCTIONS: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "coalesce": (1, 1, algebra.coalesce),
    "complement": (1, 2, _complement),
    "composition": (2, 2, algebra.composition),
    "left_inverse": (1, 1, algebra.left_inverse),
    "logical_divide": (2, 2, algebra.logical_divide),
    "logical_product": (2, 2, algebra.logical_product),
    "right_inverse": (1, 1, algebra.right_inverse),
    "zipped_divide": (2, 9, _zipped_divide),
}
EXPECTED = "write (8,(4,2)):(4,(1,32)), Sw<3,3,3> o (8,64):(64,1), or a function of layouts: " + ", ".join(FUNCTIONS)
COORDINATES = "strides that are coordinates (1@0, E<0>), as of a TMA tensor, lead to no address"
REFUSED = {
    "-": "shapes and strides are 0 or more here: count from the other end",
    "@": COORDINATES,
    "E<": COORDINATES,
}
