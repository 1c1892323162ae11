"""GPUs, real and emulated: what a launch is, the CUDA driver's devices, PTX modules and tensor maps.

    device = gpu.EmulatedDevice("sm_100a")          # or gpu.CudaDevice(0)
    kernel = gpu.load("my_kernel.ptx")["my_entry"]
    kernel.launch(device, grid=(2, 8), block=256, cluster=(2, 1, 1), smem=210_944, args=[q, kv, out, scale])

Importing this package needs neither torch nor Triton nor a GPU; each of them is asked for where it is used.

For users, `gpu` is also the one name under which all that launches a kernel is found: `gpu.EmulatedDevice`, `gpu.load`
and the others of `_UPSTAIRS` live in rooms above this one and are imported at first use. No module of this package uses
them.
"""

from importlib import import_module
from typing import Any

from sglab.gpu.architecture import Architecture
from sglab.gpu.arguments import Allocation, Strided
from sglab.gpu.cuda import CudaDevice
from sglab.gpu.device import Device, Launch
from sglab.gpu.errors import CompileError, GpuError, LaunchError, LaunchWarning, MissingDependencyError, SessionError
from sglab.gpu.fault import Fault, KernelError
from sglab.gpu.geometry import LaunchConfig
from sglab.gpu.module import Kernel, Module
from sglab.gpu.struct_parameter import Float32, Int32, Int64, Pointer, Struct
from sglab.gpu.tensor_map import TensorMap

_UPSTAIRS = {
    "Capture": "sglab.emulator",
    "CapturedLaunch": "sglab.emulator",
    "EmulatedDevice": "sglab.emulator",
    "HostExtension": "sglab.cudart",
    "Session": "sglab.emulator",
    "build_extension": "sglab.cudart",
    "capture": "sglab.emulator",
    "load": "sglab.compilers",
    "run_program": "sglab.cudart",
}
"""Name -> the package that it is imported from."""

__all__ = [
    "Allocation",
    "Architecture",
    "Capture",
    "CapturedLaunch",
    "CompileError",
    "CudaDevice",
    "Device",
    "EmulatedDevice",
    "Fault",
    "Float32",
    "GpuError",
    "HostExtension",
    "Int32",
    "Int64",
    "Kernel",
    "KernelError",
    "Launch",
    "LaunchConfig",
    "LaunchError",
    "LaunchWarning",
    "MissingDependencyError",
    "Module",
    "Pointer",
    "Session",
    "SessionError",
    "Strided",
    "Struct",
    "TensorMap",
    "build_extension",
    "capture",
    "load",
    "run_program",
]


def __getattr__(name: str) -> Any:
    if name not in _UPSTAIRS:
        raise AttributeError(f"module 'sglab.gpu' has no attribute {name!r}")
    value = getattr(import_module(_UPSTAIRS[name]), name)
    globals()[name] = value
    return value
