"""Triton libraries as they are, their launches on an emulated GPU: their host code believes in a B200."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from sglab.emulator.device import EmulatedDevice
from sglab.gpu.errors import LaunchError
from sglab.triton.emulator import EmulatedLauncher
from sglab.triton.routing import canonical_grid
from sglab.triton.specialize import Specializer


class _Utils:
    @staticmethod
    def get_device_properties(device: int) -> dict[str, int]:
        return {
            "max_shared_mem": 232_448,
            "max_num_regs": 65_536,
            "multiprocessor_count": 148,
            "warpSize": 32,
            "sm_clock_rate": 1_965_000,
            "mem_clock_rate": 3_996_000,
            "mem_bus_width": 8_192,
        }


class _Driver:
    """What Triton and the libraries above it request of a driver before they launch."""

    utils = _Utils()

    def __init__(self, capability: int) -> None:
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda


def pretend(capability: int = 100) -> None:
    """Makes Triton's driver an emulated GPU's. Before a library is imported that looks at it."""
    driver.set_active(_Driver(capability))
    torch.cuda.device = lambda *_: contextlib.nullcontext()  # type: ignore[assignment, misc]
    torch.cuda.get_device_capability = lambda *_: divmod(capability, 10)  # type: ignore[assignment]
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_name = lambda *_: "NVIDIA B200"
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.get_device_properties = lambda *_: _Properties()  # type: ignore[assignment]


class _Planned:
    """A kernel that is to be launched later, for hosts that size a grid by what it takes. An emulated GPU gives out no
    registers: a kernel takes what lets an SM hold its 2,048 threads."""

    n_regs = 32
    metadata = SimpleNamespace(shared=1024)

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self._function, self._options = function, options

    def _init_handles(self) -> None:
        pass

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args: self._function.run(*args, grid=grid, warmup=False, **self._options)


class _Properties:
    name = "NVIDIA B200"
    major, minor = 10, 0
    multi_processor_count = 148
    L2_cache_size = 126 * 2**20
    total_memory = 180 * 2**30
    warp_size = 32
    shared_memory_per_block_optin = 232_448


@contextlib.contextmanager
def launches_on(device: EmulatedDevice) -> Iterator[None]:
    """Within it, every Triton kernel that is launched runs on `device`."""
    launchers: dict[int, EmulatedLauncher] = {}

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return _Planned(self, {name: one for name, one in kwargs.items() if name not in self.arg_names})
        specializer = Specializer(self, device.arch.capability)
        bound = specializer.bind(args, kwargs)
        launcher = launchers.setdefault(id(self), EmulatedLauncher(self))
        refusal = launcher.refusal(device, specializer, bound)
        if refusal:
            raise LaunchError(f"{self.__name__}: {refusal}")
        return launcher.launch(device, specializer, bound, canonical_grid(self.__name__, grid, bound.values))

    def run_first(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Autotuning measures on GPUs: the first configuration that fits is taken."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs
        refused: LaunchError | None = None
        for config in configs:
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            self.best_config = config
            try:
                return self.fn.run(*args, **{**kwargs, **config.all_kwargs()})
            except LaunchError as error:
                refused = error
                if "shared memory" not in str(error):
                    raise
        raise refused or LaunchError(f"{self.fn.__name__}: no configuration is left to try")

    with contextlib.ExitStack() as patches:
        patches.enter_context(patch.object(JITFunction, "run", run))
        patches.enter_context(patch.object(torch.Tensor, "is_cuda", True))
        for tuner in _tuners(Autotuner):
            patches.enter_context(patch.object(tuner, "run", run_first))
        yield


def _tuners(tuner: type) -> Iterator[type]:
    """The autotuner and what libraries have derived from it."""
    yield tuner
    for derived in tuner.__subclasses__():
        yield from _tuners(derived)
