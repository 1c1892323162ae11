"""The `triton_kernel` decorator: Triton's own launch syntax, on the machine that the tensors call for."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable
from typing import Any, overload

from sglab.emulator.device import EmulatedDevice, default_device
from sglab.gpu.core import NoEmulatorError
from sglab.gpu.errors import missing
from sglab.gpu.launch_record import LaunchRecord
from sglab.gpu.progress import say_once
from sglab.triton.emulator import EmulatedLauncher, Repeatable
from sglab.triton.interpreter import interpret
from sglab.triton.kept import CPU, MOST, KeptLaunches, call_key
from sglab.triton.routing import ENVIRONMENT, canonical_grid, choose, wish
from sglab.triton.specialize import Specializer


@overload
def triton_kernel(function: Callable) -> Any: ...
@overload
def triton_kernel(**options: Any) -> Callable[[Callable], Any]: ...
def triton_kernel(function: Callable | None = None, **options: Any) -> Any:
    """Makes a Triton kernel, or a helper that kernels call, out of a Python function. Used like `triton.jit`.

    The result is a `triton.JITFunction`: `kernel[grid](*arguments, **options)` launches it. CUDA tensors run on their
    GPU; CPU tensors run on the emulator, or under Triton's interpreter where the emulator cannot, which is said.
    `route="cuda" | "emulator" | "interpreter"`, or the environment variable SGLAB_TRITON, insists on one of them.
    `device=EmulatedDevice(...)` chooses the emulated GPU. A launch returns a LaunchRecord, also kept as
    `kernel.last_launch`.

    Args:
        options: those of `triton.jit` (do_not_specialize, noinline, …).

    Raises:
        MissingDependencyError: Triton is not installed.
    """
    if function is None:
        return lambda inner: triton_kernel(inner, **options)
    return _kernel_class()(function, **options)


@functools.cache
def _kernel_class() -> type:
    """TritonKernel, a subclass of Triton's JITFunction: other kernels may call it, and Triton can compile it."""
    try:
        from triton.runtime.jit import JITFunction
    except ImportError:
        raise missing("triton", "kernels", "A Triton kernel") from None

    class TritonKernel(JITFunction):  # type: ignore[misc]
        last_launch: LaunchRecord | None = None

        def run(
            self,
            *args: Any,
            grid: Any,
            warmup: bool,
            route: str | None = None,
            device: EmulatedDevice | None = None,
            **kwargs: Any,
        ) -> Any:
            if warmup:
                return super().run(*args, grid=grid, warmup=True, **kwargs)
            key = None if self.pre_run_hooks else call_key(args, kwargs)
            if key is not None and key[0] == CPU:
                key = (*key, route, os.environ.get(ENVIRONMENT), device.arch.capability if device else 100)
                if (again := self._again(key, args, grid, device)) is not None:
                    return again
            elif route or device:
                key = None
            elif key is not None and type(grid) is tuple and (kept := self._kept_launches.get(key)) is not None:
                launch, record = kept.on(grid)
                launch(*args, *kept.rest)
                self.last_launch = record
                return record
            specializer = self._specializer(device.arch.capability if device else 100)
            bound = specializer.bind(args, kwargs)

            def refusal() -> str | None:
                try:
                    return self._launcher.refusal(device or default_device(), specializer, bound)
                except NoEmulatorError as error:
                    return str(error)

            chosen, reason = choose(self.__name__, bound.values, route, refusal)
            sizes = canonical_grid(self.__name__, grid, bound.values)
            report = None
            if chosen == "cuda":
                report = super().run(*args, grid=sizes, warmup=False, **kwargs)
                if key is not None and report is not None:
                    self._kept_launches.keep(key, report, tuple(bound.values.values()), len(args))
            elif chosen == "emulator":
                report = self._launcher.launch(device or default_device(), specializer, bound, sizes)
                if key is not None:
                    call = self._launcher.repeatable(device or default_device(), specializer, bound, len(args))
                    if len(self._repeatable) >= MOST:
                        self._repeatable.clear()
                    self._repeatable[key] = (call, reason)
            else:
                if wish(self.__name__, route)[0] is None:
                    say_once(f"{self.__name__} runs under Triton's interpreter, not on the emulator: {reason}")
                remark = interpret(self, sizes, bound.values)
                reason = f"{reason}; {remark}" if remark else reason
            self.last_launch = LaunchRecord(self.__name__, chosen, reason, sizes, report)
            return self.last_launch

        def _again(
            self, key: Hashable, args: tuple[Any, ...], grid: Any, device: EmulatedDevice | None
        ) -> LaunchRecord | None:
            """Launches a call on the emulator that is like one before; None: there was none."""
            found = self._repeatable.get(key)
            if found is None:
                return None
            call, reason = found
            self._launcher.check_globals()
            sizes = canonical_grid(self.__name__, grid, call.values(args) if callable(grid) else {})
            device = device or default_device()
            report = None if 0 in sizes else device.run(call.on(device, args, sizes))
            self.last_launch = LaunchRecord(self.__name__, "emulator", reason, sizes, report)
            return self.last_launch

        @property
        def last_route(self) -> str | None:
            """Route of the last launch; None before the first."""
            return self.last_launch.route if self.last_launch else None

        @functools.cached_property
        def _kept_launches(self) -> KeptLaunches:
            return KeptLaunches(self)

        @functools.cached_property
        def _repeatable(self) -> dict[Hashable, tuple[Repeatable, str]]:
            """Calls on the emulator, and why they run there."""
            return {}

        @functools.cached_property
        def _launcher(self) -> EmulatedLauncher:
            return EmulatedLauncher(self)

        @functools.cached_property
        def _specializers(self) -> dict[int, Specializer]:
            return {}

        def _specializer(self, capability: int) -> Specializer:
            if capability not in self._specializers:
                self._specializers[capability] = Specializer(self, capability)
            return self._specializers[capability]

    return TritonKernel
