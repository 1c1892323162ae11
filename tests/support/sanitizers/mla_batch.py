"""Our MLA decode kernels on the emulator, as they ship or with their PTX changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from sglab import gpu
from sglab.kernels import ptx
from sglab.kernels.mla import mla_decode_sm90, mla_decode_sm100

WRITES = """
.version 8.8
.target sm_90a
.address_size 64
.entry writes(.param .u64 data, .param .u32 n) {
  .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p, %r2, %r1;
  @%p ret;
  mad.wide.u32 %rd2, %r2, 4, %rd1;
  ld.global.u32 %r3, [%rd2];
  st.global.u32 [%rd2], %r3;
  ret;
}
"""
DECODES: dict[str, Any] = {"sm_90a": mla_decode_sm90, "sm_100a": mla_decode_sm100}
NAMES = {"sm_90a": "mla_decode_sm90", "sm_100a": "mla_decode_sm100"}
PAGE = {"sm_90a": 64, "sm_100a": 128}


@dataclass(frozen=True)
class Batch:
    """Random requests.

    q_scale: how much larger the queries are than usual, so that the softmax has sharp peaks
    page: tokens; 0: as many as the kernel was made for
    """

    lengths: Sequence[int]
    heads: int = 64
    q_scale: float = 1.0
    page: int = 0

    def arguments(self, arch: str) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        page = self.page or PAGE[arch]
        pages = [-(-length // page) for length in self.lengths]
        table = torch.full((len(pages), max(*pages, 1)), 2**30, dtype=torch.int32)
        for row, count in enumerate(pages):
            table[row, :count] = torch.arange(count) + sum(pages[:row])
        halves = [(len(pages), self.heads, 512), (len(pages), self.heads, 64), (sum(pages) + 1, page, 576)]
        q, rope, kv = (torch.randn(shape, generator=generator).half() for shape in halves)
        return q * self.q_scale, rope * self.q_scale, kv, torch.tensor(self.lengths, dtype=torch.int32), table


def decode(
    arch: str, lengths: Sequence[int], change: Callable[[str], str] | None = None, heads: int = 64, **options: Any
) -> tuple[list[Any], gpu.KernelError | None]:
    """Attends to random requests. change: of the kernel's PTX. Returns the launches' reports, and the error that ended
    them."""
    return attend(arch, Batch(lengths, heads), change, **options)[:2]


def attend(
    arch: str, batch: Batch, change: Callable[[str], str] | None = None, preceded: bool = False, **options: Any
) -> tuple[list[Any], gpu.KernelError | None, tuple[torch.Tensor, ...]]:
    """The same, and the results: out and lse; none after an error. preceded: another launch, which writes the page
    table, comes first; the decode overlaps it."""
    device, name = gpu.EmulatedDevice(arch, **options), NAMES[arch]
    arguments = batch.arguments(arch)
    if preceded:
        table = arguments[-1]
        writes = gpu.Module(WRITES.replace("sm_90a", arch), "writes.ptx")["writes"]
        writes.launch(device, grid=1, block=128, args=[table, table.numel()])
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
            results = DECODES[arch](device, *arguments, sm_scale=192**-0.5)
        except gpu.KernelError as error:
            return reports, error, ()
    return reports, None, results
