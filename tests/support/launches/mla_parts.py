"""Launches of our MLA kernels that have not run, of the kernel as it is and of one that was changed."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import torch

from sglab import gpu
from sglab.emulator.captures import CapturedLaunch
from sglab.kernels import ptx
from tests.support.sanitizers.mla_batch import DECODES, NAMES, Batch


def mla_launches(
    arch: str, lengths: list[int], changes: list[Callable[[str], str]]
) -> tuple[list[CapturedLaunch], torch.Tensor]:
    """A launch by each change of the kernel's PTX, all on the same tensors and without splits; and their output."""
    batch = Batch(lengths)
    arguments, shape = batch.arguments(arch), (len(lengths), batch.heads)
    out, lse = torch.zeros(*shape, 512, dtype=torch.float16), torch.zeros(*shape)
    name, shipped, made = NAMES[arch], ptx.module, []
    for change in changes:
        # One SM takes all of a request.
        device = gpu.EmulatedDevice(arch, sms=1) if arch == "sm_90a" else gpu.EmulatedDevice(arch)
        module = gpu.Module(change(ptx.text(name)), f"{name}.ptx")
        found: list[gpu.Launch] = []
        with (
            mock.patch.object(device, "run", found.append),
            mock.patch.object(ptx, "module", lambda asked, own=module: own if asked == name else shipped(asked)),
        ):
            DECODES[arch](device, *arguments, sm_scale=192**-0.5, out=out, lse=lse)
        (launch,) = found
        made.append(CapturedLaunch.prepared(device, launch))
    return made, out
