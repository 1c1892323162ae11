"""The table of our MLA decode kernels: what each is for, its planner, and how it is launched."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch

from sglab.gpu import Device, Kernel
from sglab.gpu.struct_parameter import Struct
from sglab.kernels import ptx
from sglab.kernels.mla.arguments import DTYPES
from sglab.kernels.mla.params import Sm90Params, Sm100Params
from sglab.planning.mla_sm90 import mla_sm90_plan
from sglab.planning.mla_sm100 import mla_sm100_plan


@dataclass(frozen=True)
class MlaKernel:
    """One kernel, in a float16 and a bfloat16 form.

    Attributes:
        name: Of the operator and of the PTX module.
        generation: Of the GPUs that it is for: "Hopper".
        params: Its one parameter, a struct.
        planner: Cuts requests into work: from lengths and SMs to the plan that the kernel follows, or, on Blackwell, to
            numbers of splits that it may be given.
    """

    name: str
    generation: str
    params: type[Struct]
    planner: Callable[..., Any]

    @property
    def target(self) -> str:
        """What its PTX was compiled for, such as sm_90a."""
        return ptx.module(self.name).target

    @property
    def threads(self) -> int:
        """Per CTA, as the source says."""
        return ptx.provenance(self.name).threads

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory per CTA, as the source says."""
        return ptx.provenance(self.name).shared_bytes

    def entry(self, dtype: torch.dtype) -> Kernel:
        """The form for an element type."""
        return ptx.module(self.name)[f"{self.name}_{DTYPES[dtype]}"]


SM90 = MlaKernel("mla_decode_sm90", "Hopper", Sm90Params, mla_sm90_plan)
SM100 = MlaKernel("mla_decode_sm100", "Blackwell", Sm100Params, mla_sm100_plan)
KERNELS = {kernel.name: kernel for kernel in (SM100, SM90)}
"""By name."""


def kernel_for(device: Device) -> MlaKernel | None:
    """Our kernel for a device."""
    return _kernel_for(cast(Hashable, device))


@lru_cache(maxsize=16)
def _kernel_for(device: Hashable) -> MlaKernel | None:
    arch = cast(Device, device).arch
    return next((kernel for kernel in KERNELS.values() if arch.runs(kernel.target)), None)
