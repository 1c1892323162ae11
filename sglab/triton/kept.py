"""Launches that need no second look: calls that get the same compiled kernel as one before.

Triton's own launcher binds, specialises and hashes the arguments at every call, and before it `choose` looks for
tensors in each of them. Here a call is recognised by less: the kinds of its arguments, each tensor's dtype and whether
its address is a multiple of 16, each other value itself. That is finer than Triton's specialisation, so two calls with
one key get one kernel. On a GPU only calls that are new take notice of SGLAB_TRITON.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from sglab.gpu.launch_record import LaunchRecord
from sglab.triton.routing import ON_GPU, canonical_grid

MOST = 1024
"""Calls remembered per kernel, and grids per call; then all are forgotten."""
CPU = "cpu"
_PLAIN = frozenset({int, bool, float, str, type(None)})
_ABSENT = object()


class Layout(NamedTuple):
    """Where among a call's values there are tensors, and where floats."""

    tensors: tuple[int, ...]
    floats: tuple[int, ...]


class Kept:
    """A compiled kernel, and the values of the parameters after the positional ones."""

    def __init__(self, name: str, compiled: Any, rest: tuple[Any, ...]) -> None:
        self._name, self._compiled, self.rest = name, compiled, rest
        self._grids: dict[tuple[Any, ...], tuple[Callable[..., None], LaunchRecord]] = {}

    def on(self, grid: tuple[Any, ...]) -> tuple[Callable[..., None], LaunchRecord]:
        """What launches the kernel on a grid, given all values, and the record of that."""
        found = self._grids.get(grid)
        if found is None:
            sizes = canonical_grid(self._name, grid, {})
            if len(self._grids) >= MOST:
                self._grids.clear()
            record = LaunchRecord(self._name, "cuda", ON_GPU, sizes, self._compiled)
            found = self._grids[grid] = (self._compiled[sizes], record)
        return found


class KeptLaunches:
    """A kernel's calls."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._kept: dict[Hashable, Kept] = {}

    def get(self, key: Hashable) -> Kept | None:
        """What such a call launched; None: there was none, or a global that was compiled in has changed."""
        found = self._kept.get(key)
        if found is not None and self._kernel.used_global_vals and self._outdated():
            return None  # Triton's launcher says what is wrong
        return found

    def keep(self, key: Hashable, compiled: Any, values: tuple[Any, ...], positional: int) -> None:
        """Remember what a call launched.

        Args:
            values: of all parameters, in order; the first `positional` were passed by position.
        """
        if len(self._kept) >= MOST:
            self._kept.clear()
        self._kept[key] = Kept(self._kernel.__name__, compiled, values[positional:])

    def _outdated(self) -> bool:
        used = self._kernel.used_global_vals.items()
        return any(namespace.get(name, _ABSENT) != value for (name, _), (value, namespace) in used)


_layouts: dict[tuple[tuple[type, ...], int], Layout | None] = {}


def call_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, ...] | None:
    """What decides the compiled form of a launch: first the number of the current GPU, or CPU where the tensors are
    there; None: it must be looked at.

    That is so where tensors are on the CPU and on a GPU, or passed by name, where there is none, and where an argument
    is more than a tensor or a plain value.
    """
    facts: list[Any] = [*args, *kwargs.values()]
    kinds = tuple(map(type, facts))
    layout = tensor_layout(kinds, len(args))
    if layout is None:
        return None
    on_gpu = facts[layout.tensors[0]].is_cuda
    for i in layout.tensors:
        tensor = facts[i]
        if tensor.is_cuda != on_gpu or not (on_gpu or tensor.is_cpu):
            return None
        facts[i] = (tensor.dtype, tensor.data_ptr() & 15 == 0)
    for i in layout.floats:
        facts[i] = facts[i] or repr(facts[i])  # 0.0 and -0.0 are equal
    place = _current_device() if on_gpu else CPU
    return (place, kinds, tuple(kwargs), tuple(facts))  # `kinds`, for 1, True and 1.0 are equal


def tensor_layout(kinds: tuple[type, ...], positional: int) -> Layout | None:
    """Of the values of a call, the first `positional` of which were passed by position."""
    key = (kinds, positional)
    layout = _layouts.get(key, _ABSENT)
    if layout is _ABSENT:
        layout = _layouts[key] = _layout(kinds, positional)
    return layout  # type: ignore[return-value]


def _layout(kinds: tuple[type, ...], positional: int) -> Layout | None:
    import torch

    tensors = tuple(i for i, kind in enumerate(kinds) if issubclass(kind, torch.Tensor))
    others = {kind for i, kind in enumerate(kinds) if i not in tensors}
    if not tensors or tensors[-1] >= positional or not others <= _PLAIN:
        return None
    return Layout(tensors, tuple(i for i, kind in enumerate(kinds) if kind is float))


def _current_device() -> int:
    import torch

    return torch.cuda.current_device()
