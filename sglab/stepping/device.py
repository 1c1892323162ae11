"""Which device a kernel of one's own is stepped on, and which one it runs on."""

from __future__ import annotations

from functools import cache

from sglab.emulator.device import EmulatedDevice
from sglab.gpu.architecture import Architecture
from sglab.gpu.cuda import CudaDevice
from sglab.gpu.errors import LaunchError

DEFAULT_ARCH = "sm_100a"
MOST_INSTRUCTIONS = 100_000_000
"""Warp-instructions of a launch that is stepped: a quarter of a minute with sanitizers. One that polls for what never
comes is then stopped, and says what it polls."""
COPIED = "The tensors are on a GPU: the emulator steps copies of them, taken before the launch."


@cache
def gpu(index: int) -> CudaDevice:
    """A GPU of this machine."""
    return CudaDevice(index)


def arch_of(index: int | None) -> str:
    """What to compile for: the GPU that the tensors are on, or a B200."""
    return DEFAULT_ARCH if index is None else str(gpu(index).arch)


@cache
def emulated(arch: str) -> EmulatedDevice:
    """An emulated GPU that runs this PTX .target, for running: no sanitizers."""
    return EmulatedDevice(_emulable(arch))


def stepped_on(device: EmulatedDevice | None, arch: str) -> EmulatedDevice:
    """The device to step on: the caller's, or an emulated GPU of this architecture with all sanitizers.

    Raises:
        LaunchError: the caller's is none that can step.
    """
    if device is None:
        return EmulatedDevice(_emulable(arch), sanitize=True, max_instructions=MOST_INSTRUCTIONS)
    if not isinstance(device, EmulatedDevice):
        raise LaunchError(f"device: expected a gpu.EmulatedDevice, on which kernels can be stepped; got {device!r}")
    return device


def _emulable(target: str) -> str:
    """The architecture of a PTX .target; of one that no product has, such as sm_100f or sm_50, the nearest that runs
    it."""
    try:
        return str(Architecture.parse(target))
    except LaunchError:
        for arch in ("sm_80", "sm_90a", DEFAULT_ARCH):
            if Architecture.parse(arch).runs(target):
                return arch
        raise
