"""Scripts written for a GPU, as Triton's tutorials are: their tensors on the host, their launches on an emulated GPU,
and what they compare kept as checks."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from triton._C.libtriton import nvidia

from tools.compatibility.case import Check
from tools.compatibility.meter import Meter
from tools.compatibility.triton_host import launches_on, pretend


class _OnHost(TorchFunctionMode):
    """Where "cuda" is said, memory of the host is meant: the emulated GPU reads it, as a GPU does all of its memory."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, weakref.ref[torch.Tensor]] = {}

    def memory(self) -> list[torch.UntypedStorage]:
        """Of the tensors that live."""
        alive = [tensor for one in self._made.values() if (tensor := one()) is not None]
        self._made = {id(tensor): weakref.ref(tensor) for tensor in alive}
        return [tensor.untyped_storage() for tensor in alive if type(tensor) is torch.Tensor]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: _host(value) if name == "device" else value for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = (args[0], *map(_host, args[1:]))
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            self._made[id(result)] = weakref.ref(result)
        return result


def _host(value: Any) -> Any:
    named = value if isinstance(value, str) else value.type if isinstance(value, torch.device) else ""
    return "cpu" if named.split(":")[0] == "cuda" else value


@contextlib.contextmanager
def script_on(meter: Meter, capability: int, widened: Sequence[str] = ()) -> Iterator[list[Check]]:
    """Within it, scripts run as on a GPU, and what they compare is put into the list; nothing is timed.

    Args:
        widened: functions of torch.nn.functional that compute in float64.
    """
    from torch.testing._comparison import default_tolerances

    checks: list[Check] = []

    def assert_close(actual: Any, expected: Any, *, rtol: Any = None, atol: Any = None, **_: Any) -> None:
        if rtol is None or atol is None:
            rtol, atol = default_tolerances(actual, expected)
        checks.append(Check(actual.detach().clone(), expected.detach().clone(), rtol, atol))

    def allclose(one: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, **_: Any) -> bool:
        checks.append(Check(one.detach().clone(), other.detach().clone(), rtol, atol))
        return True

    pretend(capability)
    with contextlib.ExitStack() as patches:
        patches.enter_context(patch.object(torch.testing, "assert_close", assert_close))
        patches.enter_context(patch.object(torch, "allclose", allclose))
        patches.enter_context(patch.object(triton.testing, "do_bench", lambda *_, **__: 1.0))
        patches.enter_context(patch.object(triton.testing.Mark, "run", lambda *_, **__: None))
        patches.enter_context(patch.object(nvidia.cublas, "CublasLt", lambda *_: None))  # a peer to compare speed with
        patches.enter_context(contextlib.redirect_stdout(None))
        patches.enter_context(launches_on(meter))
        for name in widened:
            patches.enter_context(patch.object(functional, name, _widened(getattr(functional, name))))
        host = patches.enter_context(_OnHost())
        patches.enter_context(patch.object(meter, "reachable", host.memory))
        yield checks


def _widened(function: Callable[..., Any]) -> Callable[..., Any]:
    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) else value

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(wide, args), **{name: wide(value) for name, value in kwargs.items()})

    return call


def loaded(path: Path) -> ModuleType:
    """Runs a script as a module; those beside it can be imported."""
    name = f"tutorial_{path.stem.replace('-', '_').replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # kernels read their source through it
    with patch.object(sys, "path", [str(path.parent), *sys.path]):
        spec.loader.exec_module(module)
    return module
