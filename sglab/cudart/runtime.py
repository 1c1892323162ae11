"""The CUDA runtime that C++ host code finds instead of NVIDIA's: its kernel launches come to a device of ours.

Host code compiled by nvcc calls cudaLaunchKernel and some twenty other functions of libcudart. `libsglab_cudart` offers
them on the CPU: device memory is host memory, a launch hands the PTX inside the program to an emulated device.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sglab.compilers.vouched import vouch
from sglab.emulator.captures import capturing
from sglab.emulator.device import EmulatedDevice
from sglab.gpu import core
from sglab.gpu.arguments import Allocation
from sglab.gpu.device import Launch
from sglab.gpu.errors import GpuError
from sglab.gpu.geometry import LaunchConfig, make_geometry
from sglab.gpu.module import Kernel, Module


def _library() -> Path:
    """The library is beside the compiled core, which an editable install keeps apart from the Python files."""
    core = importlib.util.find_spec("sglab._core")
    package = Path(core.origin).parent if core and core.origin else Path(__file__).parent.parent
    return package / "lib" / "libsglab_cudart.so"


LIBRARY = _library()
CUDA_MALLOC = "cudaMalloc"  # the name of such memory among a launch's allocations


def require_library() -> None:
    """Loads the library.

    Raises:
        GpuError: this build of sglab has no CUDA runtime.
    """
    if not LIBRARY.exists():
        raise GpuError(f"{LIBRARY.name} is missing from this build of sglab; it is built on Linux only")


class _Device(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        ("sms", ctypes.c_int32),
        ("smem_per_block", ctypes.c_int32),
        ("smem_per_sm", ctypes.c_int32),
        ("max_cluster", ctypes.c_int32),
        ("threads_per_sm", ctypes.c_int32),
        ("ctas_per_sm", ctypes.c_int32),
    )


class _Allocation(ctypes.Structure):
    _fields_ = (("address", ctypes.c_uint64), ("nbytes", ctypes.c_uint64))


class _Launch(ctypes.Structure):
    _fields_ = (
        ("ptx", ctypes.c_void_p),
        ("ptx_bytes", ctypes.c_uint64),
        ("kernel", ctypes.c_char_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("smem", ctypes.c_uint64),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("allocations", ctypes.POINTER(_Allocation)),
        ("allocation_count", ctypes.c_uint64),
        ("heap_bytes", ctypes.c_uint64),
    )


_Launcher = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Launch), ctypes.c_void_p)


class HostMemory:
    """What the launches of a visit may touch: tensors, and memory that host code had from cudaMalloc. Where launches
    are captured, that memory lives as long as this object, even if host code frees it."""

    def __init__(self, library: Any, tensors: Sequence[Any]) -> None:
        self._library, self.tensors = library, tuple(tensors)
        self._kept: set[int] = set()

    def take(self) -> None:
        """Takes over what host code has freed."""
        address = (ctypes.c_uint64 * 1)()
        while self._library.sglab_runtime_take_kept(address, ctypes.c_uint64(1)):
            self._kept.add(address[0])
            weakref.finalize(self, self._library.sglab_runtime_free_kept, ctypes.c_uint64(address[0]))

    def lacks(self, spans: Sequence[Allocation]) -> Allocation | None:
        """The first span from cudaMalloc whose memory is gone."""
        holds = self._library.sglab_runtime_holds
        for span in spans:
            wanted = ctypes.c_uint64(span.address), ctypes.c_uint64(span.nbytes)
            if span.name == CUDA_MALLOC and span.address not in self._kept and not holds(*wanted):
                return span
        return None


@dataclass
class Visit:
    """What host code did while a device was its GPU.

    Attributes:
        launches: every launch, in order.
        reports: what the device said of each.
    """

    device: EmulatedDevice
    tensors: tuple[Allocation, ...]
    memory: HostMemory
    launches: list[Launch] = field(default_factory=list)
    reports: list[Any] = field(default_factory=list)
    error: BaseException | None = None


class HostRuntime:
    """libsglab_cudart in this process. One device at a time is the GPU that host code sees."""

    def __init__(self) -> None:
        require_library()
        self.library = ctypes.CDLL(str(LIBRARY), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        self._visit: Visit | None = None
        self._modules: dict[tuple[int, int], Module] = {}  # by address and size of the PTX
        self._launcher = _Launcher(self._on_launch)
        self._said = ctypes.create_string_buffer(b"")
        self.library.sglab_runtime_set_launcher(self._launcher, None)
        self.library.sglab_runtime_take_kept.restype = ctypes.c_uint64

    @contextmanager
    def gpu_is(
        self, device: EmulatedDevice, tensors: Sequence[Any] = (), compiled_here: bool = False
    ) -> Iterator[Visit]:
        """Makes `device` the GPU of host code called within; `tensors` are what its kernels may touch.

        Memory that host code gets from cudaMalloc may be touched too.

        Args:
            compiled_here: this process compiled the host code, so source files that its PTX names may be shown.

        Raises:
            what went wrong in a launch, when the block ends.
        """
        if self._visit is not None:
            raise GpuError("host code is running on an emulated GPU already; one call at a time")
        limits = device.arch.limits
        description = _Device(
            device.name.encode(),
            *divmod(device.arch.capability, 10),
            device.sms,
            limits.smem,
            limits.sm_smem,
            limits.cluster,
            limits.sm_threads,
            limits.sm_ctas,
        )
        self.library.sglab_runtime_set_device(ctypes.byref(description))
        spans = [Allocation(t.data_ptr(), t.untyped_storage().nbytes(), f"tensor {i}") for i, t in enumerate(tensors)]
        memory = HostMemory(self.library, tensors)
        self._visit = visit = Visit(device, tuple(spans), memory)
        self._compiled_here = compiled_here
        self.library.sglab_runtime_keep_freed(int(capturing()))
        self.library.cudaGetLastError()  # an error of an earlier visit was raised there, and is none of this one
        try:
            yield visit
        finally:
            self._visit = None
            self.library.sglab_runtime_keep_freed(0)
            memory.take()
        if visit.error is not None:
            raise visit.error

    def _on_launch(self, request: Any, user: Any) -> int | None:
        """Called by the library. Any error is kept for Python and reported to the host code."""
        visit = self._visit
        try:
            if visit is None:
                raise GpuError("host code launched a kernel outside of HostRuntime.gpu_is")
            if visit.error is None:
                launch = self._launch_of(request.contents, visit)
                visit.launches.append(launch)
                visit.reports.append(visit.device.run(launch))
                return None
            text = f"an earlier launch failed: {visit.error}"
        except BaseException as error:
            if visit is not None:
                visit.error = error
            text = f"{type(error).__name__}: {error}"
        self._said = ctypes.create_string_buffer(text.encode())
        return ctypes.addressof(self._said)

    def _launch_of(self, request: Any, visit: Visit) -> Launch:
        if request.heap_bytes and not core.resize_device_heap(request.heap_bytes):
            raise GpuError(
                f"cudaLimitMallocHeapSize is {request.heap_bytes} bytes, but a kernel of this process has allocated "
                "from a heap of another size: set the limit before the first kernel that allocates"
            )
        kernel = self._kernel(request)
        signature = kernel.signature
        cluster = tuple(request.cluster)
        # A plain <<<>>> launch says nothing of clusters: then the kernel's own .reqnctapercluster holds.
        config = LaunchConfig(
            tuple(request.grid), tuple(request.block), None if cluster == (1, 1, 1) else cluster, request.smem
        )
        geometry = make_geometry(signature, visit.device.arch, config)
        params = bytearray(signature.params_size)
        for index, parameter in enumerate(signature.parameters):
            value = ctypes.string_at(request.arguments[index], parameter.size)
            params[parameter.offset : parameter.offset + parameter.size] = value
        own = [Allocation(a.address, a.nbytes, CUDA_MALLOC) for a in request.allocations[: request.allocation_count]]
        return Launch(kernel, geometry, bytes(params), (*visit.tensors, *own), keep=visit.memory)

    def _kernel(self, request: Any) -> Kernel:
        key = (request.ptx, request.ptx_bytes)
        if key not in self._modules:
            text = ctypes.string_at(request.ptx, request.ptx_bytes).decode()
            if self._compiled_here:
                vouch(text)
            self._modules[key] = Module(text, "PTX of the host program")
        return self._modules[key][request.kernel.decode()]


@cache
def host_runtime() -> HostRuntime:
    """The process's one runtime."""
    return HostRuntime()
