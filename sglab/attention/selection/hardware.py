"""Hardware as SGLang's selection sees it: a device kind and, on NVIDIA, a compute capability and a CUDA version."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal

import torch

Device = Literal["cuda", "hip", "npu", "xpu", "hpu", "cpu"]


@dataclass(frozen=True)
class Hardware:
    """`capability` and `cuda` count on NVIDIA; `flashinfer`: the package is installed; `amx`, `xmx`: Intel's units."""

    name: str
    device: Device
    capability: tuple[int, int] = (0, 0)
    cuda: tuple[int, int] = (0, 0)
    flashinfer: bool = False
    amx: bool = False
    xmx: bool = False

    def is_sm90_supported(self) -> bool:
        return self._cuda_device((9,), (12, 3))

    def is_sm100_supported(self) -> bool:
        """Both SM100 and SM103: the major version counts."""
        return self._cuda_device((10,), (12, 8))

    def is_blackwell_supported(self) -> bool:
        return self._cuda_device((10, 11, 12), (12, 8))

    def _cuda_device(self, majors: tuple[int, ...], cuda: tuple[int, int]) -> bool:
        return self.device == "cuda" and self.capability[0] in majors and self.cuda >= cuda


def _nvidia(name: str, major: int, minor: int) -> Hardware:
    return Hardware(name, "cuda", (major, minor), (13, 0), flashinfer=True)


HARDWARE: dict[str, Hardware] = {
    known.name: known
    for known in (
        _nvidia("A100", 8, 0),
        _nvidia("L40S", 8, 9),
        _nvidia("H100", 9, 0),
        _nvidia("H200", 9, 0),
        _nvidia("B200", 10, 0),
        _nvidia("B300", 10, 3),
        _nvidia("RTX 5090", 12, 0),
        Hardware("MI300X", "hip"),
        Hardware("Ascend 910", "npu"),
        Hardware("Intel XPU", "xpu", xmx=True),
        Hardware("Gaudi", "hpu"),
        Hardware("Xeon with AMX", "cpu", amx=True),
        Hardware("CPU", "cpu"),
    )
}
"""Machines to ask about, with FlashInfer and CUDA 13 on the NVIDIA ones."""


def this_machine(device: torch.device | str | None = None) -> Hardware:
    """The machine that tensors on `device` live on; the GPU if there is one, unless given."""
    kind = torch.device(device).type if device is not None else ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cuda":
        if torch.version.hip:
            return Hardware(torch.cuda.get_device_name(), "hip")
        major, minor = (int(part) for part in (torch.version.cuda or "0.0").split(".")[:2])
        return Hardware(
            torch.cuda.get_device_name(),
            "cuda",
            torch.cuda.get_device_capability(),
            (major, minor),
            flashinfer=importlib.util.find_spec("flashinfer") is not None,
        )
    return Hardware("this CPU", "cpu", amx=torch.cpu._is_amx_tile_supported())
