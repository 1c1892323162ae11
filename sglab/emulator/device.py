"""The emulated GPU: PTX on the CPU, on CPU tensors in place."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Literal, TypeVar, get_args

from sglab.emulator.captures import captured
from sglab.emulator.sanitizers import chosen, read_findings, read_warnings
from sglab.emulator.session import Session
from sglab.events.cast import Cast, LogCast, TallyCast
from sglab.events.cluster.columns import readable
from sglab.events.log import EventLog
from sglab.gpu import core
from sglab.gpu.architecture import Architecture
from sglab.gpu.device import Launch
from sglab.gpu.errors import LaunchError
from sglab.gpu.fault import Fault, KernelError
from sglab.gpu.findings import Finding
from sglab.gpu.geometry import check_smem, check_variables
from sglab.gpu.integers import integer
from sglab.gpu.progress import Watched
from sglab.gpu.ptx import Entry
from sglab.gpu.tensor_map import TiledEncoding

Scheduler = Literal["fair", "random", "adversarial", "in_order"]
Started = TypeVar("Started")
MOST_THREADS = 1024


@cache
def default_device() -> EmulatedDevice:
    """The emulated B200 that CPU tensors run on where nothing else is said.

    Raises:
        GpuError: the compiled core has no emulator.
    """
    return EmulatedDevice("sm_100a", threads="auto")


def _cast(launch: Launch, outcome: core.LaunchReport | core.LaunchError) -> TallyCast | None:
    """Roles and names as far as a launch's report or error gives them."""
    return None if outcome.tally is None else TallyCast(launch, outcome.tally)


def _findings(
    sanitizer: core.Sanitizer | None, launch: Launch, report: core.LaunchReport, cast: Cast | None
) -> tuple[Finding, ...]:
    """Those of the sanitizers; of a plain launch its warnings."""
    if sanitizer is None:
        return read_warnings(report, launch, cast)
    return read_findings(sanitizer, launch, cast=cast)


def _whole(name: str, value: Any, least: int, most: int) -> int:
    whole = integer(value)
    if whole is None or not least <= whole <= most:
        raise LaunchError(f"EmulatedDevice: {name} must be an integer from {least} to {most}; got {value!r}")
    return whole


def _threads(value: Any) -> int | Literal["auto"]:
    if isinstance(value, str) and value == "auto":
        return "auto"
    if (whole := integer(value)) is None or not 1 <= whole <= MOST_THREADS:
        raise LaunchError(
            f"EmulatedDevice: threads must be an integer from 1 to {MOST_THREADS:,} or 'auto'; got {value!r}"
        )
    return whole


def _most_threads() -> int:
    """How many one call may take: where PyTorch is used, the number that its user can set."""
    torch = sys.modules.get("torch")
    return min(torch.get_num_threads() if torch else os.cpu_count() or 1, MOST_THREADS)


class EmulatedDevice:
    """A GPU made of software.

    Args:
        arch: sm_100a, sm_90a, …: what PTX it runs and its limits.
        sms: streaming multiprocessors, which decide how many CTAs are resident; None takes the real product's.
        threads: CPU threads over which clusters are spread. "auto": as many as PyTorch uses
            (torch.get_num_threads()), or as there are cores, where there is enough to do and no cluster can notice
            another: the kernel has no atomics or strong accesses to global memory, fences beyond a cluster, clocks,
            printf, malloc, grid barriers or clusters taken over. Any other launch has one. LaunchReport.threads
            says how many it had.
        scheduler: which warp runs next: fair, random, adversarial (stalls where it may hurt), in_order.
        seed: of every random choice; the same seed gives the same run.
        max_instructions: a launch that executes more warp-instructions is stopped, sooner where it goes in circles
            and so never ends; 0 for no limit, and nothing is looked for: another process may write what it polls.
        sanitize: what to look for while launches run: True for all, or some of memory, races, tensor, barriers. The
            findings are in the launch's report and in KernelError.findings. A sanitized launch runs on one CPU thread.
        on_finding: "collect" them, or "raise" KernelError at the first that is an error.
    """

    torch_device = "cpu"

    def __init__(
        self,
        arch: str = "sm_100a",
        sms: int | None = None,
        threads: int | Literal["auto"] = 1,
        scheduler: Scheduler = "fair",
        seed: int = 0,
        max_instructions: int = 0,
        sanitize: bool | Collection[str] = False,
        on_finding: Literal["collect", "raise"] = "collect",
    ) -> None:
        self.arch = Architecture.parse(arch)
        self.sms = self.arch.limits.sms if sms is None else _whole("sms", sms, 1, 65_535)
        self.max_instructions = _whole("max_instructions", max_instructions, 0, 2**63 - 1)
        self.threads = _threads(threads)
        seed = _whole("seed", seed, 0, 2**64 - 1)
        if not isinstance(scheduler, str) or scheduler not in get_args(Scheduler):
            listed = ", ".join(get_args(Scheduler))
            raise LaunchError(f"EmulatedDevice: scheduler must be one of {listed}; got {scheduler!r}")
        self.sanitize = chosen(sanitize)
        if not isinstance(on_finding, str) or on_finding not in ("collect", "raise"):
            raise LaunchError(f"EmulatedDevice: on_finding must be 'collect' or 'raise'; got {on_finding!r}")
        self.on_finding = on_finding
        self._marked = core.MarkedMemory()
        self._grids = core.GridHistory()
        of = self.arch.limits
        sm = of.sm_threads, of.sm_ctas, of.sm_smem
        self._machine = core.Machine(
            str(self.arch), self.sms, 0 if self.threads == "auto" else self.threads, scheduler, seed, sm
        )

    @property
    def name(self) -> str:
        return f"emulated {self.arch}, {self.sms} SMs"

    def encode(self, encoding: TiledEncoding) -> bytes:
        e = encoding
        return core.tma.encode_tiled(
            e.data_type,
            e.address,
            e.global_dim,
            e.global_strides,
            e.box_dim,
            e.element_strides,
            e.interleave,
            e.swizzle,
            e.l2_promotion,
            e.oob_fill,
        )

    def unsupported(self, kernel: Entry) -> list[str]:
        """What a kernel uses and this emulator lacks; such a kernel is refused when it is launched."""
        return kernel.emulated.unsupported

    def run(self, launch: Launch) -> core.LaunchReport:
        caught = captured(self, launch)
        sanitizer = self._sanitizer(launch)
        most_threads = _most_threads() if self.threads == "auto" else self.threads
        report = self._start(self._machine.launch, launch, sanitizer, most_threads)
        report.findings = _findings(sanitizer, launch, report, _cast(launch, report))
        for one in caught:
            one.report = report
        return report

    def _sanitizer(self, launch: Launch) -> core.Sanitizer | None:
        if not self.sanitize:
            return None
        stops = self.on_finding == "raise"
        return core.sanitizer(list(self.sanitize), stops, self._marked, self._grids, launch.overlaps)

    def mark_uninitialized(self, tensor: Any) -> None:
        """From now on the memory sanitizer takes what `tensor` holds for garbage, as torch.empty leaves it, until a
        launch on this device writes it, or its memory is freed. Without this, tensors count as initialized.

        Raises:
            LaunchError: the tensor is not on the CPU, or its elements are not side by side.
        """
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise LaunchError(
                f"mark_uninitialized: expected a contiguous CPU tensor; got {tuple(tensor.shape)} with strides "
                f"{tensor.stride()} on {tensor.device}. Mark tensor.contiguous(), or the tensor that it is a view of"
            )
        self._marked.mark(tensor.data_ptr(), tensor.numel() * tensor.element_size())
        storage = tensor.untyped_storage()  # the same object as long as any tensor uses the memory
        weakref.finalize(storage, self._marked.forget, storage.data_ptr(), storage.nbytes()).atexit = False

    def session(self, launch: Launch, keep: Any = None) -> Session:
        """The launch, not run but under control.

        Args:
            keep: what must live as long as the session: the tensors whose addresses the launch holds.
        """
        sanitizer = self._sanitizer(launch)
        session = self._start(self._machine.session, launch, sanitizer)
        return Session(launch, self, session, sanitizer, (keep, launch.keep))

    def record(self, launch: Launch, details: bool = True) -> EventLog:
        """Runs the launch and keeps its events; on one CPU thread, so that they have an order. Clocks that the kernel
        reads count instructions."""
        sanitizer = self._sanitizer(launch)
        report, columns = self._start(self._machine.record, launch, sanitizer, details)
        columns = columns | {"details": details}
        code, allocations = launch.kernel.code, launch.allocations_as_given
        log = EventLog(launch.kernel.name, launch.geometry, code, report, columns, allocations=allocations)
        report.findings = _findings(sanitizer, launch, report, LogCast(launch, log))
        return log

    def nans(
        self,
        launch: Launch,
        kinds: dict[str, str],
        tensors: list[tuple[int, int, str]],
        copied: str = "f16",
        infinite: bool = False,
        most: int = 20_000,
    ) -> tuple[core.LaunchReport, core.Columns]:
        """Runs the launch on one CPU thread and keeps where NaN was met; see `sglab.emulator.nans`.

        Args:
            kinds: f16, bf16, f32, f64, f16x2 or bf16x2 by register: those that are looked at; "moved" holds what the
                memory holds that it was loaded from.
            tensors: address, bytes and f16, bf16, f32, f64 or "" of what global memory holds.
            copied: f16, bf16 or f32: what copies without a tensor map move that read none of the tensors.
            infinite: infinities count, too.
            most: events that are kept.
        """
        return self._start(self._machine.nans, launch, None, kinds, tensors, copied, infinite, most)

    def _start(
        self, call: Callable[..., Started], launch: Launch, sanitizer: core.Sanitizer | None, *more: Any
    ) -> Started:
        geometry = launch.geometry
        launch.check_memory()
        try:
            kernel = launch.kernel.emulated
            name = readable(launch.kernel.name)
            check_variables(name, launch.kernel.module.target, kernel.static_smem)
            check_smem(name, self.arch, kernel.static_smem, geometry.smem)
            with Watched(name, self.max_instructions):
                return call(
                    kernel,
                    geometry.grid,
                    geometry.block,
                    geometry.cluster,
                    geometry.smem,
                    launch.params,
                    list(launch.allocations),
                    self.max_instructions,
                    sanitizer,
                    *more,
                )
        except core.LaunchError as error:
            if error.kind == "launch":  # refused: nothing ran
                raise LaunchError(str(error)) from None
            cast = _cast(launch, error)
            findings = () if sanitizer is None else read_findings(sanitizer, launch, cast=cast)
            text = str(error) if cast is None else cast.annotated(str(error), error.cta)
            fault = Fault.of(error) if cast is None else cast.fault(Fault.of(error))
            text = launch.kernel.code.with_own_lines(text).replace(launch.kernel.name, name)
            message = str(findings[-1]) if error.kind == "finding" else text
            raise KernelError(message, fault, findings) from None
        except core.PtxError as error:
            raise LaunchError(f"{launch.kernel.module.name}: {error}") from None

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""

    def __repr__(self) -> str:
        return f"<{self.name}>"
