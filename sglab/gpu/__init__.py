"""GPUs, real and emulated: devices, PTX modules, tensor maps, and the compilers that produce PTX.

    device = gpu.EmulatedDevice("sm_100a")          # or gpu.CudaDevice(0)
    kernel = gpu.load("my_kernel.ptx")["my_entry"]
    kernel.launch(device, grid=(2, 8), block=256, cluster=(2, 1, 1), smem=210_944, args=[q, kv, out, scale])

Importing this package needs neither torch nor Triton nor a GPU; each of them is asked for where it is used.
"""

from sglab.gpu.architecture import Architecture
from sglab.gpu.arguments import Allocation, Strided
from sglab.gpu.captures import Capture, CapturedLaunch, capture
from sglab.gpu.cuda import CudaDevice
from sglab.gpu.device import Device, Launch
from sglab.gpu.emulated import EmulatedDevice
from sglab.gpu.errors import CompileError, GpuError, LaunchError, MissingDependencyError, SessionError
from sglab.gpu.extension import HostExtension, build_extension
from sglab.gpu.fault import Fault, KernelError
from sglab.gpu.host_program import run_program
from sglab.gpu.load import load
from sglab.gpu.module import Kernel, Module
from sglab.gpu.session import Session
from sglab.gpu.tensor_map import TensorMap

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
    "GpuError",
    "HostExtension",
    "Kernel",
    "KernelError",
    "Launch",
    "LaunchError",
    "MissingDependencyError",
    "Module",
    "Session",
    "SessionError",
    "Strided",
    "TensorMap",
    "build_extension",
    "capture",
    "load",
    "run_program",
]
