"""RecordedGraph: PyTorch operations on a CPU, recorded with their tensors and run again on the same addresses.

It behaves as a CUDA graph does: inputs must be written where the recording read them, outputs appear where it wrote
them, a new tensor under the old name is not seen, and a value that the host reads while recording is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SYNCS = ("_local_scalar_dense", "item", "nonzero", "equal", "is_nonzero", "unique")
"""Operations whose result the host needs: on a GPU they would wait for it, which a capture forbids."""
WITHOUT_LAUNCH = ("empty", "detach", "lift_fresh")


_recording = threading.local()


class GraphCaptureError(RuntimeError):
    """An operation that no graph can hold."""


class StalePointerError(ValueError):
    """A tensor whose address the graph does not have: its values would not be seen."""


@dataclass(frozen=True)
class Launch:
    """One recorded operation."""

    name: str
    run: Callable[[], None]
    reads: tuple[int, ...]
    """Addresses of the tensors that it is given."""
    writes: tuple[int, ...]
    """Addresses of its results."""


class RecordedGraph:
    """Launches in order. Record with `with graph.capture(): …`, run again with `replay`.

    Attributes:
        launches: what was recorded; views and empty tensors are none.
        replays: how often it was replayed.
    """

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.replays = 0
        self._recorder: Recorder | None = None

    @property
    def names(self) -> list[str]:
        """Of the launches, in order."""
        return [launch.name for launch in self.launches]

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Record what runs inside, in this thread.

        Raises:
            GraphCaptureError: an operation that the host waits for. Nothing is kept.
        """
        self.launches = []
        self._recorder = Recorder(self.launches)
        _recording.graph = self
        try:
            with self._recorder:
                yield
        except GraphCaptureError:
            self.launches = []
            raise
        finally:
            self._recorder = _recording.graph = None

    @property
    def paused(self) -> bool:
        """Whether what runs now is inside a launch, or nothing is recorded."""
        return self._recorder is None or self._recorder.is_paused

    def launch(self, name: str, run: Callable[[], torch.Tensor], reads: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Record `run` as one launch, whatever it does inside: a kernel that reads what it needs when it runs."""
        assert self._recorder is not None
        with self._recorder.paused():
            out = run()

        def again() -> None:
            out.copy_(run())

        self.launches.append(Launch(name, again, tuple(each.data_ptr() for each in reads), (out.data_ptr(),)))
        return out

    def replay(self) -> None:
        """Run every launch again, in order, on the recorded addresses."""
        with torch.inference_mode():
            for launch in self.launches:
                launch.run()
        self.replays += 1

    def check(self, **inputs: torch.Tensor) -> None:
        """Refuse inputs that the graph would not read.

        Raises:
            StalePointerError: a tensor at another address than any launch reads.
        """
        known = {address for launch in self.launches for address in launch.reads}
        for name, tensor in inputs.items():
            if tensor.data_ptr() not in known:
                raise StalePointerError(
                    f"{name}: expected a tensor at an address that the graph reads, got {tensor.data_ptr():#x}. "
                    "Copy the values into the tensor that was recorded."
                )


class Recorder(TorchDispatchMode):
    """Appends a launch for every operation that computes."""

    def __init__(self, launches: list[Launch]) -> None:
        super().__init__()
        self.launches = launches
        self.is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run without recording."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if not self.is_paused and name.startswith(SYNCS):
            remedy = "Compute it before the graph, in prepare_replay, or keep it on the device."
            raise GraphCaptureError(f"{name}: the host reads a value that the device computes. {remedy}")
        out = func(*args, **kwargs)
        if not self.is_paused and not name.startswith(WITHOUT_LAUNCH):
            self._record(func, name, args, kwargs, out)
        return out

    def _record(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        results = [each for each in tree_leaves(out) if isinstance(each, torch.Tensor)]
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        in_place = func._schema.is_mutable
        if not in_place and results and all(shares_memory(result, given) for result in results):
            return  # a view: the same memory under another name

        def again() -> None:
            fresh = func(*args, **kwargs)
            if not in_place:
                for result, value in zip(results, tree_leaves(fresh), strict=True):
                    result.copy_(value)

        addresses = tuple(each.data_ptr() for each in given)
        self.launches.append(Launch(name, again, addresses, tuple(each.data_ptr() for each in results)))


def as_launch(name: str, run: Callable[[], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """`run`, which reads `x`: as one launch of the graph that this thread records, if it records one."""
    graph: RecordedGraph | None = getattr(_recording, "graph", None)
    return run() if graph is None or graph.paused else graph.launch(name, run, (x,))


def shares_memory(result: torch.Tensor, given: list[torch.Tensor]) -> bool:
    """Whether a result lies in an argument's memory. Operations such as reshape may give a view or a copy."""
    address = result.untyped_storage().data_ptr()
    return address != 0 and any(each.untyped_storage().data_ptr() == address for each in given)
