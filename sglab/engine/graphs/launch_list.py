"""LaunchList: a pass's launches, bound to their tensors once, and made again by one flat loop, without a CUDA graph.

What a pass costs on the host besides its launches (modules, checks, choices, outputs, arguments) is spent while it is
recorded. As in a graph, inputs must be written where the recording read them, and outputs appear where it wrote them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sglab.engine.graphs.recorded_graph import SYNCS, GraphCaptureError, shares_memory
from sglab.gpu.listening import listening

ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
WITHOUT_LAUNCH = ("detach", "lift_fresh")


class Rooms:
    """Memory for what passes compute. The n-th tensor of every pass lies in the n-th room: lists that share rooms, the
    largest recorded first, take together no more than the largest."""

    def __init__(self) -> None:
        self._rooms: list[torch.Tensor] = []

    def place(self, number: int, like: torch.Tensor) -> torch.Tensor:
        """A contiguous tensor of the same shape and dtype in a room."""
        size = math.prod(like.shape) * like.element_size()
        room = self._rooms[number] if number < len(self._rooms) else None
        if room is None or len(room) < size or room.device != like.device:
            room = torch.empty(size, dtype=torch.uint8, device=like.device)
            self._rooms[number : number + 1] = [room]
        return room[:size].view(like.dtype).view(like.shape)


class LaunchList:
    """Launches in order. Record with `with each.capture(): …`, make them again with `replay`.

    Args:
        rooms: where results lie; other lists may share them, if none is read after another was replayed.
    """

    def __init__(self, rooms: Rooms) -> None:
        self.steps: list[Callable[[], object]] = []
        self.replays = 0
        self._rooms = rooms
        self._placed: list[torch.Tensor] = []
        self._held: list[tuple[Any, ...]] = []
        self._paused = False

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Record what runs inside, in this thread: PyTorch's operations and Triton's launches.

        Raises:
            GraphCaptureError: an operation that the host waits for, or a launch that cannot be made again.
        """
        with listening(self), _Recorder(self):
            yield

    def launch(self, name: str, run: Callable[[], torch.Tensor], reads: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Record `run` as one step, whatever it does inside."""
        self._paused = True
        try:
            out = self._result(run())
        finally:
            self._paused = False
        self.steps.append(lambda: out.copy_(run()))
        return out

    def replay(self) -> None:
        """Make every launch again."""
        with torch.inference_mode():
            for step in self.steps:
                step()
        self.replays += 1

    def spoil(self) -> None:
        """Overwrite all results: a replay that leaves one out then shows."""
        for each in self._placed:
            torch.empty(0, dtype=torch.uint8, device=each.device).set_(each.untyped_storage()).fill_(255)

    def launched(self, launch: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """A Triton kernel was launched. Its launcher takes addresses, and asks the driver about none then."""
        if self._paused:
            return
        bound = [each.data_ptr() if isinstance(each, torch.Tensor) else each for each in arguments]
        self._held.append(arguments)
        self.steps.append(functools.partial(launch, *bound))

    def passed_over(self, kernel: str) -> None:
        """A kernel was launched through Triton's own launcher."""
        if not self._paused:
            raise GraphCaptureError(f"{kernel}: its launch depends on more than its arguments. Run the pass as it is.")

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one of PyTorch's operations, and keep how it is run again."""
        name = func._schema.name.removeprefix("aten::")
        if self._paused:
            return func(*args, **kwargs)
        if name.startswith(SYNCS):
            raise GraphCaptureError(f"{name}: the host reads a value that the device computes. Compute it before.")
        out = func(*args, **kwargs)
        if name.startswith(WITHOUT_LAUNCH):
            return out
        if name in ALLOCATIONS:
            return self._result(out, copied=False)
        if func._schema.is_mutable:
            self.steps.append(functools.partial(func, *args, **kwargs))
            return out
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        results = out if isinstance(out, (tuple, list)) else (out,)
        if all(not isinstance(each, torch.Tensor) or shares_memory(each, given) for each in results):
            return out  # a view: the same memory under another name
        placed = [self._result(each) if isinstance(each, torch.Tensor) else each for each in results]
        self.steps.append(_again(func, args, kwargs, placed))
        return placed[0] if isinstance(out, torch.Tensor) else type(out)(placed)

    def _result(self, made: torch.Tensor, copied: bool = True) -> torch.Tensor:
        """A result where it is to lie."""
        if made.is_contiguous():
            placed = self._rooms.place(len(self._placed), made)
        else:
            placed = torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=made.device)
        if copied:
            placed.copy_(made)
        self._placed.append(placed)
        return placed


class _Recorder(TorchDispatchMode):
    def __init__(self, kept: LaunchList) -> None:
        super().__init__()
        self._list = kept

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._list.operation(func, args, kwargs or {})


def _again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], placed: list[Any]) -> Callable[[], object]:
    """What computes results anew where they lie: without a copy where the operation can write there."""
    if func._schema.name in ("aten::to", "aten::_to_copy"):
        return functools.partial(placed[0].copy_, args[0])
    writing = _writing(func) if len(placed) == 1 else None
    if writing is not None:
        variant, name = writing
        return functools.partial(variant, *args, **kwargs, **{name: placed[0]})

    def again() -> None:
        fresh = func(*args, **kwargs)
        for target, value in zip(placed, fresh if isinstance(fresh, (tuple, list)) else (fresh,), strict=True):
            if isinstance(target, torch.Tensor):
                target.copy_(value)

    return again


@functools.cache
def _writing(func: Any) -> tuple[Any, str] | None:
    """The form of an operation that writes into a given tensor, and that argument's name."""
    wanted = [(each.name, str(each.type)) for each in func._schema.arguments]
    for overload in func.overloadpacket.overloads():
        variant = getattr(func.overloadpacket, overload)
        out = [each.name for each in variant._schema.arguments if each.is_out]
        taken = [(each.name, str(each.type)) for each in variant._schema.arguments if not each.is_out]
        if len(out) == 1 and taken == wanted:
            return variant, out[0]
    return None
