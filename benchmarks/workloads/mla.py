"""One launch of sglab's SM100 MLA decode: fp16, 128 heads, page 128, one split."""

from __future__ import annotations

import torch

from sglab import gpu
from sglab.emulator import Session
from sglab.events.log import EventLog
from sglab.gpu import Launch
from sglab.kernels import ptx
from sglab.kernels.mla import MlaSm100
from sglab.kernels.mla.sm100_contract import check

HEADS, LATENT, ROPE, PAGE = 128, 512, 64, 128


class Mla:
    """Random inputs for requests of these lengths, each with pages of its own."""

    def __init__(self, seq_lens: list[int]) -> None:
        batch, width = len(seq_lens), -(-max(seq_lens) // PAGE)
        random = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=random).half()

        self.module = ptx.module("mla_decode_sm100")
        self.batch = batch
        pages = torch.randperm(batch * width, generator=random).view(batch, width).int()
        queries = normal(batch, HEADS, LATENT), normal(batch, HEADS, ROPE)
        cache, scale = normal(batch * width, PAGE, LATENT + ROPE), (128 + ROPE) ** -0.5
        lengths = torch.tensor(seq_lens, dtype=torch.int32)
        self._arguments = check(lengths, None, 1, False, *queries, cache, pages, scale, None, None, "e")

    def launch(self, device: gpu.EmulatedDevice) -> object:
        return device.run(self._prepared(device))

    def record(self, device: gpu.EmulatedDevice) -> EventLog:
        return device.record(self._prepared(device))

    def session(self, device: gpu.EmulatedDevice) -> Session:
        return device.session(self._prepared(device), keep=self)

    def _prepared(self, device: gpu.EmulatedDevice) -> Launch:
        (launch,) = MlaSm100(device, self.batch, HEADS).prepare(self._arguments)
        return launch
