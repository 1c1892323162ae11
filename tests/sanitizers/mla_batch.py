"""Our MLA decode kernels on the emulator, as they ship or with their PTX changed."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch

from sglab import gpu
from sglab.kernels import ptx
from sglab.kernels.mla_sm90 import mla_decode_sm90
from sglab.kernels.mla_sm100 import mla_decode_sm100

DECODES: dict[str, Any] = {"sm_90a": mla_decode_sm90, "sm_100a": mla_decode_sm100}
NAMES = {"sm_90a": "mla_decode_sm90", "sm_100a": "mla_decode_sm100"}
PAGE = {"sm_90a": 64, "sm_100a": 128}


def decode(
    arch: str, lengths: Sequence[int], change: Callable[[str], str] | None = None, heads: int = 64, **options: Any
) -> tuple[list[Any], gpu.KernelError | None]:
    """Attends to random requests. change: of the kernel's PTX. Returns the launches' reports, and the error that ended
    them."""
    device, name = gpu.EmulatedDevice(arch, **options), NAMES[arch]
    module = ptx.module(name) if change is None else gpu.Module(change(ptx.text(name)), f"{name}.ptx")
    reports: list[Any] = []
    run = device.run

    def keep(launch: gpu.Launch) -> Any:
        reports.append(run(launch))
        return reports[-1]

    shipped = ptx.module
    with (
        mock.patch.object(device, "run", keep),
        mock.patch.object(ptx, "module", lambda asked: module if asked == name else shipped(asked)),
    ):
        try:
            DECODES[arch](device, *_batch(lengths, heads, PAGE[arch]), sm_scale=192**-0.5)
        except gpu.KernelError as error:
            return reports, error
    return reports, None


def _batch(lengths: Sequence[int], heads: int, page: int) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(0)
    pages = [-(-length // page) for length in lengths]
    table = torch.full((len(lengths), max(*pages, 1)), 2**30, dtype=torch.int32)
    for row, count in enumerate(pages):
        table[row, :count] = torch.arange(count) + sum(pages[:row])
    halves = [(len(lengths), heads, 512), (len(lengths), heads, 64), (sum(pages) + 1, page, 576)]
    q, rope, kv = (torch.randn(shape, generator=generator).half() for shape in halves)
    return q, rope, kv, torch.tensor(lengths, dtype=torch.int32), table
