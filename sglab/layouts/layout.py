"""CuTe's layouts: a shape and a stride of the same nesting, a function from coordinates to integers; and swizzles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"
"""An integer, or a tuple of such, nested as deep as one likes."""


def leaves(value: IntTuple) -> Iterator[int]:
    """Its integers from left to right."""
    if isinstance(value, int):
        yield value
    else:
        for each in value:
            yield from leaves(each)


def size_of(shape: IntTuple) -> int:
    """How many coordinates a shape has."""
    return prod(leaves(shape))


def text_of(value: IntTuple) -> str:
    """As CuTe prints it: `(8,(4,2))`."""
    return str(value) if isinstance(value, int) else f"({','.join(map(text_of, value))})"


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether both are nested in the same way."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(congruent, a, b))


def compact_strides(shape: IntTuple, first: int = 1) -> IntTuple:
    """Strides of a dense layout whose first mode is contiguous."""
    if isinstance(shape, int):
        return first
    made: list[IntTuple] = []
    for each in shape:
        made.append(compact_strides(each, first))
        first *= size_of(each)
    return tuple(made)


def coordinate(index: int, shape: IntTuple) -> IntTuple:
    """The natural coordinate of a linear index; the first mode is the fastest."""
    if isinstance(shape, int):
        return index
    made = []
    for each in shape:
        size = size_of(each)
        made.append(coordinate(index % size, each))
        index //= size
    return tuple(made)


def offset_of(at: IntTuple, shape: IntTuple, stride: IntTuple) -> int:
    """The offset of a coordinate, which may give any mode as one index."""
    if isinstance(shape, int) or isinstance(stride, int):
        if not (isinstance(at, int) and isinstance(shape, int) and isinstance(stride, int)):
            raise ValueError(f"coordinate {text_of(at)} does not fit the shape {text_of(shape)}: use as many modes")
        return at * stride
    if isinstance(at, int):
        at = coordinate(at, shape)
        assert not isinstance(at, int)
    if len(at) != len(shape):
        raise ValueError(f"coordinate {text_of(at)} has {len(at)} modes, the shape {text_of(shape)} has {len(shape)}")
    return sum(map(offset_of, at, shape, stride))


@dataclass(frozen=True)
class Layout:
    """A function from coordinates of `shape` to integers: the sum of coordinate times stride.

    Attributes:
        shape: positive integers, nested.
        stride: integers, not negative, nested as `shape`. Default: dense, first mode contiguous.

    Raises:
        ValueError: shape and stride are nested differently, a shape below 1, a stride below 0.
    """

    shape: IntTuple
    stride: IntTuple = -1

    def __post_init__(self) -> None:
        if self.stride == -1:
            object.__setattr__(self, "stride", compact_strides(self.shape))
        if not congruent(self.shape, self.stride):
            raise ValueError(
                f"shape {text_of(self.shape)} and stride {text_of(self.stride)} are nested differently: give every "
                "part of the shape its own stride"
            )
        if min(leaves(self.shape), default=0) < 1:
            raise ValueError(f"shape {text_of(self.shape)}: expected integers of at least 1; drop empty modes")
        if min(leaves(self.stride), default=0) < 0:
            raise ValueError(f"stride {text_of(self.stride)}: expected integers of at least 0")

    @property
    def size(self) -> int:
        return size_of(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the largest offset."""
        return 1 + sum((s - 1) * d for s, d in self.modes())

    @property
    def rank(self) -> int:
        return 1 if isinstance(self.shape, int) else len(self.shape)

    def modes(self) -> list[tuple[int, int]]:
        """(shape, stride) of every leaf, from left to right."""
        return list(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def __getitem__(self, mode: int) -> Layout:
        """The layout of one mode."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            if mode:
                raise IndexError(f"{self} has one mode, asked for mode {mode}")
            return self
        return Layout(self.shape[mode], self.stride[mode])

    def __call__(self, at: IntTuple) -> int:
        """The offset of a linear index or a coordinate."""
        if isinstance(at, int) and not isinstance(self.shape, int):
            at = coordinate(at, self.shape)
        return offset_of(at, self.shape, self.stride)

    def __str__(self) -> str:
        return f"{text_of(self.shape)}:{text_of(self.stride)}"


def make_layout(*layouts: Layout) -> Layout:
    """One layout with these as its modes."""
    return Layout(tuple(each.shape for each in layouts), tuple(each.stride for each in layouts))


@dataclass(frozen=True)
class Swizzle:
    """`Sw<bits, base, shift>`: `bits` bits of an offset from bit `base` on ^= those `shift` bits further up.

    Raises:
        ValueError: a number below 0, or source and target overlap.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if min(self.bits, self.base, self.shift) < 0 or self.bits + self.base + self.shift > 40:
            raise ValueError(f"{self}: expected three numbers of at least 0 whose sum is at most 40")
        if self.shift < self.bits:
            raise ValueError(f"{self}: expected a shift of at least the number of bits, or source and target overlap")

    def __call__(self, offset: int) -> int:
        mask = (1 << self.bits) - 1 << self.base + self.shift
        return offset ^ (offset & mask) >> self.shift

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True)
class ComposedLayout:
    """A swizzle after a layout: `swizzle o layout`. As a function, `swizzle(layout(at))`."""

    swizzle: Swizzle
    layout: Layout

    @property
    def shape(self) -> IntTuple:
        return self.layout.shape

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def cosize(self) -> int:
        return 1 + max(self(i) for i in range(self.size))

    def __call__(self, at: IntTuple) -> int:
        return self.swizzle(self.layout(at))

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.layout}"
