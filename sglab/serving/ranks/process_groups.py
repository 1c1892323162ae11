"""Joining torch.distributed: the default group of all ranks, and one for each group that attends apart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed

from sglab.layers import TensorParallel


@dataclass(frozen=True)
class World:
    """What ranks must agree on.

    Attributes:
        store: a file that does not exist yet, through which they meet.
        timeout: seconds that a collective may take.
        a2a, a2a_fp8: as TensorParallel has them.
    """

    size: int
    dp_size: int
    ep_size: int
    device_type: str
    store: str
    timeout: float
    a2a: str | None = None
    a2a_fp8: bool = True
    dcp_size: int = 1
    cp_size: int = 1

    def device(self, rank: int) -> torch.device:
        return torch.device("cuda", rank) if self.device_type == "cuda" else torch.device("cpu")

    def join(self, rank: int) -> TensorParallel:
        """Wait for all ranks and make the groups. Raises what torch.distributed does."""
        if self.device_type == "cuda":
            torch.cuda.set_device(rank)
        with _loopback():
            distributed.init_process_group(
                "nccl" if self.device_type == "cuda" else "gloo",
                init_method=f"file://{self.store}",
                rank=rank,
                world_size=self.size,
                timeout=timedelta(seconds=self.timeout),
            )
            neighbours = self.size // self.dp_size // self.cp_size
            attention = self._groups(neighbours, rank)
            context = self._groups(self.dcp_size, rank)
            prompts = self._groups(self.cp_size, rank, neighbours)
        return TensorParallel(
            rank,
            self.size,
            ep_size=self.ep_size,
            dp_size=self.dp_size,
            attention_group=attention,
            a2a=self.a2a,
            a2a_fp8=self.a2a_fp8,
            dcp_size=self.dcp_size,
            context_group=context,
            cp_size=self.cp_size,
            prompt_group=prompts,
        )

    def _groups(self, share: int, rank: int, step: int = 1) -> distributed.ProcessGroup | None:
        """Of `share` ranks each, `step` apart, which all ranks make: this rank's; None: the default one, or it is
        alone."""
        mine = None
        for first in range(self.size if 1 < share < self.size else 0):
            if first // step % share:
                continue
            ranks = list(range(first, first + share * step, step))
            group = distributed.new_group(ranks)
            mine = group if rank in ranks else mine
        return mine


@contextmanager
def _loopback() -> Iterator[None]:
    """All ranks are on this machine: gloo need not find out its name's address."""
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        yield
    finally:
        if before is None:
            del os.environ["GLOO_SOCKET_IFNAME"]
