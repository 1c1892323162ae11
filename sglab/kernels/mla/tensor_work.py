"""What a request costs the tensor cores, counted on the emulator: a tile has 128 heads, however many were requested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sglab.emulator import EmulatedDevice
from sglab.events.log import TMEM_KINDS, EventLog
from sglab.kernels.mla.sm100 import MlaSm100
from sglab.kernels.mla.sm100_contract import check
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, ROPE_DIM


@dataclass(frozen=True)
class TensorWork:
    """Counted over one launch of one request.

    Attributes:
        mma_instructions: tcgen05.mma, each of a CTA pair.
        flop: what they compute, padding included.
        useful_flop: what this many heads and tokens need: 2 · heads · tokens · (576 + 512).
        allocated_columns: of tensor memory, per CTA.
        written_columns: those that a product writes.
        tensor_loads, tensor_stores: tcgen05.ld and .st, each by a warp.
    """

    num_heads: int
    seq_len: int
    mma_instructions: int
    flop: int
    useful_flop: int
    allocated_columns: int
    written_columns: int
    tensor_loads: int
    tensor_stores: int

    @property
    def useful(self) -> float:
        """The share of the products that is not padding, of heads or of tokens."""
        return self.useful_flop / self.flop


def tensor_work(num_heads: int, seq_len: int, page_size: int = 128) -> TensorWork:
    """Run one random float16 request on the emulator and count. Raises ContractError for what the kernel cannot run."""
    log = _recorded(num_heads, seq_len, page_size)
    mmas = log.mmas
    first = mmas.d.astype(np.int64) & 0xFFFF
    columns = {column for start, n in zip(first, mmas.n, strict=True) for column in range(start, start + n // 2)}
    kinds = [TMEM_KINDS[kind] for kind in log.tmem.kind]
    alloc = kinds.index("alloc")
    return TensorWork(
        num_heads,
        seq_len,
        mma_instructions=len(mmas.event),
        flop=int((2 * mmas.m.astype(np.int64) * mmas.n * mmas.k).sum()),
        useful_flop=2 * num_heads * seq_len * (HEAD_DIM + LATENT_DIM),
        allocated_columns=int(log.tmem.columns[alloc]),
        written_columns=len(columns),
        tensor_loads=kinds.count("ld"),
        tensor_stores=kinds.count("st"),
    )


def _recorded(num_heads: int, seq_len: int, page_size: int) -> EventLog:
    generator = torch.Generator().manual_seed(0)
    pages = max(-(-seq_len // page_size), 1)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).half()

    device = EmulatedDevice("sm_100a")
    decode = MlaSm100(device, 1, num_heads)
    arguments = check(
        torch.tensor([seq_len], dtype=torch.int32),
        None,
        1,
        True,
        random(1, num_heads, LATENT_DIM),
        random(1, num_heads, ROPE_DIM),
        random(pages, page_size, HEAD_DIM),
        torch.arange(pages, dtype=torch.int32)[None],
        192**-0.5,
        None,
        None,
        "e",
    )
    (attention,) = decode.prepare(arguments)
    return device.record(attention)
