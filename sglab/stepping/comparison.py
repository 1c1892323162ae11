"""What two launches left in the same tensors: where it differs, and who stored it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.session import Session
from sglab.emulator.state import Place
from sglab.gpu.errors import LaunchError
from sglab.stepping.first_store import Span, addresses
from sglab.stepping.trace import Trace, trace_both, trace_one

if TYPE_CHECKING:
    from torch import Tensor

    from sglab.triton.interpreter import InterpretedStore


@dataclass(frozen=True)
class Difference:
    """A tensor that is not the same.

    Attributes:
        where: booleans of the tensor's shape: which elements differ.
        count, total: how many do, of how many.
        tile: per dimension, the first and the last index with a difference.
        largest: the largest |a - b|; infinite where only one of them is finite.
        left, right: what `a` and `b` left in it.
    """

    tensor: str
    count: int
    total: int
    tile: tuple[tuple[int, int], ...]
    largest: float
    where: Tensor = field(repr=False)
    left: Tensor = field(repr=False)
    right: Tensor = field(repr=False)

    @classmethod
    def between(cls, name: str, left: Tensor, right: Tensor, rtol: float, atol: float) -> Difference | None:
        """How two tensors of one shape differ; None if they do not."""
        import torch

        a, b = left.to(torch.float64), right.to(torch.float64)
        error = (a - b).abs()
        # int64 beyond 2^53 has no float64 of its own
        same = (left == right) | (a.isnan() & b.isnan())
        where = ~(same | (error <= atol + rtol * b.abs()) & a.isfinite() & b.isfinite())
        if not where.any():
            return None
        indices = where.nonzero()
        tile = tuple((int(low), int(high)) for low, high in zip(indices.amin(0), indices.amax(0), strict=True))
        largest = float(error[where].nan_to_num(torch.inf, torch.inf).max())
        return cls(name, len(indices), where.numel(), tile, largest, where, left, right)

    def element(self, flat: int) -> tuple[tuple[int, ...], Any, Any]:
        """Index and both values of an element."""
        # That of torch imports sympy, which takes a second.
        index = tuple(int(each) for each in np.unravel_index(flat, tuple(self.where.shape)))
        return index, self.left[index].item(), self.right[index].item()

    def first_byte(self, flat: int) -> int:
        """The first byte of an element that is not the same."""
        import torch

        left, right = (each.reshape(-1)[flat : flat + 1].view(torch.uint8) for each in (self.left, self.right))
        return int((left != right).nonzero()[0, 0])

    def __str__(self) -> str:
        tile = ", ".join(f"{low}:{high + 1}" for low, high in self.tile)
        return f"{self.tensor}[{tile}]: {self.count:,} of {self.total:,} elements differ, by at most {self.largest:.3g}"


@dataclass(frozen=True)
class Store:
    """A store to one element, the last of its launch.

    Attributes:
        place: who executed which instruction; of an asynchronous copy, who issued it.
        position: of the instruction in the launch; of a copy, when it took effect.
    """

    place: Place
    position: int
    launch: CapturedLaunch = field(repr=False, compare=False)

    @classmethod
    def last(cls, launch: CapturedLaunch, tensor: Tensor, flat: int) -> Store | None:
        """The last store to an element; None if the launch never writes it."""
        session = CapturedLaunch.session(launch)
        address = int(addresses(tensor)[flat])
        session.watch(Span(address, tensor.element_size()))
        found = None
        while (stop := session.run()).reason == "breakpoint":
            found = stop
        # A copy may leave the bytes as they were.
        writer = session.last_writer("global", address)
        if writer is not None and writer.operation:
            session.return_to(writer.order[0])
            return cls(Place(writer.cta, writer.warp, writer.instruction, writer.lanes), session.now, launch)
        if found is None or found.at is None:
            return None
        return cls(found.at, found.position, launch)

    def open(self) -> Session:
        """A session of the launch that stands at the store, for the debugger: KernelDebugger(store.open())."""
        session = CapturedLaunch.session(self.launch)
        session.seek(self.position)
        return session

    def __str__(self) -> str:
        instruction = self.place.instruction
        cta = self.launch.geometry.coordinates(self.place.cta)
        source = "".join(f", {place}" for place in instruction.places)
        return f"CTA {cta} warp {self.place.warp}, PTX line {instruction.ptx_line} `{instruction.text}`{source}"


@dataclass(frozen=True)
class Parting:
    """The differing element that the first launch wrote first.

    Attributes:
        index: in the tensor.
        left, right: its value after `a` and after `b`.
        a, b: the stores that left these values; None where a launch cannot be stepped or did not write. Under Triton's
            interpreter: program and source line, without a session.
        address: of the first of its bytes that is not the same.
    """

    tensor: str
    index: tuple[int, ...]
    left: float | int | bool
    right: float | int | bool
    a: Store | None
    b: Store | InterpretedStore | None
    address: int

    def trace(self, most: int = 200) -> Trace:
        """The way back from the stores to the instruction at which the launches part, with what it reads on both sides.
        Both launches are run again, on what the tensors hold now, and leave them so.

        Args:
            most: steps at most.

        Returns:
            the steps; where only `a` can be stepped (b is a GPU, a function or the interpreter), the instructions of
            `a` that made its value.

        Raises:
            LaunchError: `a` cannot be stepped or did not write the element.
        """
        if most < 1:
            raise LaunchError(f"most: expected 1 or more steps; got {most}")
        if self.a is None:
            raise LaunchError(
                f"{self.tensor}{list(self.index)}: a did not write it, so there is no way back; swap a and b"
            )
        here = self.a.launch, self.a.position
        if isinstance(self.b, Store):
            return trace_both(here, (self.b.launch, self.b.position), self.address, most)
        return trace_one(here, self.address, most)

    @property
    def told(self) -> str:
        """Where, and by which stores."""
        lines = [f"they part at {self.tensor}{list(self.index)}: a has {self.left}, b has {self.right}"]
        lines += [f"  {name} stored it: {store}" for name, store in (("a", self.a), ("b", self.b)) if store is not None]
        return "\n".join(lines)

    def __str__(self) -> str:
        if self.a is None:
            return self.told
        hint = "  .parting.trace() goes back to the instruction that parts them; .parting.a.open() stands at the store"
        return f"{self.told}\n{hint}"


@dataclass(frozen=True)
class Comparison:
    """What `sglab.compare` found.

    Attributes:
        a, b: names of what ran.
        differences: the tensors that are not the same.
        parting: where they part; None if nothing differs.
    """

    a: str
    b: str
    differences: tuple[Difference, ...]
    parting: Parting | None

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    @property
    def told(self) -> str:
        """What differs and where they part, without what to write in Python next."""
        return self._told("" if self.parting is None else self.parting.told)

    def __str__(self) -> str:
        return self._told(str(self.parting))

    def _told(self, parting: str) -> str:
        if self.equal:
            return f"{self.a} and {self.b} leave the same"
        return "\n".join([f"a: {self.a}, b: {self.b}", *map(str, self.differences), parting])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows where a cell ends with it."""
        printer.text(str(self))
