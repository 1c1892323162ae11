"""One MLA decode step on a GPU, by our SM90 kernel and by peers: FlashMLA and FlashInfer fa3."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from sglab.gpu import CudaDevice, Launch
from sglab.kernels.mla import MlaSm90
from sglab.kernels.mla.arguments import check
from sglab.planning.mla_sm90 import MlaSm90Plan, mla_sm90_plan

PAGE_SIZE = 64
SCALE = 192**-0.5
PLACE = "cuda"

Run = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Batch:
    """One decode step. q (B, H, 576), kv (pages, 64, 576), page_table (B, pages per request); bf16."""

    q: torch.Tensor
    kv: torch.Tensor
    page_table: torch.Tensor
    tokens: int

    @staticmethod
    def random(batch: int, tokens: int, heads: int) -> Batch:
        width = -(-tokens // PAGE_SIZE)
        q = torch.randn(batch, heads, 576, device=PLACE, dtype=torch.bfloat16)
        kv = torch.randn(batch * width, PAGE_SIZE, 576, device=PLACE, dtype=torch.bfloat16)
        pages = torch.randperm(batch * width, device=PLACE).int().view(batch, width)
        return Batch(q, kv, pages, tokens)

    @property
    def size(self) -> int:
        return len(self.q)

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def nbytes(self) -> int:
        """KV once, Q and O."""
        return 2 * self.size * (self.tokens * 576 + self.heads * (576 + 512))

    @property
    def flop(self) -> int:
        """Two products, of 576 and 512 columns."""
        return 2 * self.size * self.heads * self.tokens * (576 + 512)

    def error(self, out: torch.Tensor) -> float:
        """Largest relative error over the first and the last request, against float64."""
        errors = []
        for request in {0, self.size - 1}:
            kv = self.kv[self.page_table[request].long()].view(-1, 576)[: self.tokens].double()
            reference = torch.softmax(self.q[request].double() @ kv.T * SCALE, -1) @ kv[:, :512]
            errors.append(float((out[request].double() - reference).norm() / reference.norm()))
        return math.inf if any(map(math.isnan, errors)) else max(errors)


@dataclass(frozen=True)
class Ours:
    """A planned and bound step: attention, then the combine where the plan splits a request."""

    plan: MlaSm90Plan
    decode: MlaSm90
    launches: list[Launch]
    out: torch.Tensor


def prepare_ours(device: CudaDevice, batch: Batch) -> Ours:
    plan = mla_sm90_plan([batch.tokens] * batch.size, num_heads=batch.heads, sm_count=device.sms)
    decode = MlaSm90(device, plan, batch.heads)
    q_nope, q_pe = batch.q.split([512, 64], -1)
    arguments = check("mla_decode_sm90", q_nope, q_pe, batch.kv, batch.page_table, SCALE, None, None, "e")
    return Ours(plan, decode, decode.prepare(arguments), arguments.out)


def sglab_sm90(batch: Batch) -> Run:
    device = CudaDevice(0)
    ours = prepare_ours(device, batch)

    def run() -> torch.Tensor:
        for launch in ours.launches:
            device.run(launch)
        return ours.out

    return run


def flash_mla(batch: Batch) -> Run:
    import flash_mla

    lengths = torch.full((batch.size,), batch.tokens, dtype=torch.int32, device=PLACE)
    metadata = flash_mla.get_mla_metadata()[0]
    q, kv = batch.q.unsqueeze(1), batch.kv.unsqueeze(2)

    def run() -> torch.Tensor:
        out, _ = flash_mla.flash_mla_with_kvcache(q, kv, batch.page_table, lengths, 512, metadata, softmax_scale=SCALE)
        return out.squeeze(1)

    return run


def flashinfer_fa3(batch: Batch) -> Run:
    import flashinfer

    workspace = torch.empty(256 * 2**20, dtype=torch.uint8, device=PLACE)
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(workspace, backend="fa3")
    width = batch.page_table.shape[1]
    wrapper.plan(
        torch.arange(batch.size + 1, dtype=torch.int32, device=PLACE),
        torch.arange(batch.size + 1, dtype=torch.int32, device=PLACE) * width,
        batch.page_table.flatten(),
        torch.full((batch.size,), batch.tokens, dtype=torch.int32, device=PLACE),
        batch.heads,
        512,
        64,
        PAGE_SIZE,
        False,
        SCALE,
        torch.bfloat16,
        torch.bfloat16,
    )
    q_nope, q_pe = (part.contiguous() for part in batch.q.split([512, 64], -1))
    ckv, kpe = batch.kv.split([512, 64], -1)
    out = torch.empty_like(q_nope)
    return lambda: wrapper.run(q_nope, q_pe, ckv, kpe, out=out)


OURS = "sglab"
IMPLEMENTATIONS: dict[str, Callable[[Batch], Run]] = {
    OURS: sglab_sm90,
    "FlashMLA": flash_mla,
    "FlashInfer fa3": flashinfer_fa3,
}
PACKAGES = {OURS: "sglab", "FlashMLA": "flash_mla", "FlashInfer fa3": "flashinfer"}


def missing(name: str) -> str | None:
    """Why an implementation cannot be imported, or None."""
    try:
        importlib.import_module(PACKAGES[name])
    except Exception as error:  # a peer built for another torch fails in its own ways
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None
