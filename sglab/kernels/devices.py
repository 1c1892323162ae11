"""The device that tensors are on, real or emulated: which it is, what it runs, and running a launch on it."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.device import default_device
from sglab.gpu import CudaDevice, Device, Launch
from sglab.gpu.architecture import B200_SMS
from sglab.gpu.errors import GpuError
from sglab.gpu.launch_record import LaunchRecord, Route
from sglab.kernels import ptx


def capability(device: torch.device) -> tuple[int, int]:
    """Compute capability of a GPU; for the CPU that of a B200, which the emulator is by default."""
    return _capability(device) if device.type == "cuda" else (10, 0)


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)  # which looks the properties up, at every launch of every layer


def sm_count(device: torch.device) -> int:
    """Streaming multiprocessors of a GPU; for the CPU a B200's."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else B200_SMS


def device_of(device: torch.device) -> Device:
    """The GPU that tensors are on; for the CPU the emulated B200. Raises GpuError: there is none."""
    return _gpu(device.index or 0) if device.type == "cuda" else default_device()


def hopper_of(device: torch.device) -> Device:
    """The GPU that tensors are on; for the CPU an emulated H100. Raises GpuError: there is none."""
    return _gpu(device.index or 0) if device.type == "cuda" else _emulated_hopper()


@cache
def _emulated_hopper() -> Device:
    return EmulatedDevice("sm_90a", threads="auto")


@cache
def _gpu(index: int) -> Device:
    return CudaDevice(index)


def refuses_ptx(name: str, device: torch.device) -> str | None:
    """Why a kernel that ships as PTX cannot run where these tensors are, or None."""
    try:
        where = device_of(device)
    except GpuError as error:
        return str(error)
    target = ptx.module(name).target
    return None if where.arch.runs(target) else f"it was compiled for {target}, which {where.name} does not run"


def run(device: Device, launch: Launch, why: str) -> LaunchRecord:
    """Run a launch and record where and why.

    Args:
        why: what kernel it is: "our kernel for Hopper".
    """
    report = device.run(launch)
    return record_of(device, launch, why, report)


def record_of(device: Device, launch: Launch, why: str, report: Any = None) -> LaunchRecord:
    """What is recorded of a launch, without running it."""
    on_gpu = device.torch_device != "cpu"
    where = "the tensors' GPU" if on_gpu else f"an {device.name}: the tensors are on the CPU"
    route: Route = "cuda" if on_gpu else "emulator"
    return LaunchRecord(launch.kernel.name, route, f"{why} on {where}", launch.geometry.grid, report)
