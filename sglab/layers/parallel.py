"""TensorParallel: which shard of a layer this process holds, and the collectives that join the shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sglab.engine.errors import BadArgumentError
from sglab.engine.graphs import as_launch
from sglab.layers import collectives, overlap

_reduce_scatter = getattr(torch.distributed, "reduce_scatter_single", None) or torch.distributed.reduce_scatter_tensor
"""PyTorch's newer name, where there is one."""


@dataclass(frozen=True)
class TensorParallel:
    """Rank `rank` of `size`.

    Attributes:
        group: a torch.distributed process group; None: the default one.
        ep_size: ranks that experts are dealt out to; size / ep_size ranks then share a slice of each expert.
        dp_size: groups of ranks that attend to requests of their own; size / dp_size ranks share a group's heads.
        attention_group: the process group of this rank's; None: the default one.
        a2a: how tokens that each rank brings itself travel to their experts: "normal", "low_latency" or "auto"; None:
            tokens are gathered on all ranks instead.
        a2a_fp8: in the low-latency way rows travel in e4m3.
        a2a_room: tokens of a rank for which the low-latency way has room.
        dcp_size: neighbouring ranks that a request's context is spread over: each has some of its tokens' keys, for the
            KV heads of all of them. context_group: their process group; None: the default one.
        cp_size: ranks that a prompt's new tokens are spread over; size / cp_size neighbours share out their heads.
            prompt_group: their process group; None: the default one.
    """

    rank: int = 0
    size: int = 1
    group: Any = None
    ep_size: int = 1
    dp_size: int = 1
    attention_group: Any = None
    a2a: str | None = None
    a2a_fp8: bool = True
    a2a_room: int = 128
    dcp_size: int = 1
    context_group: Any = None
    cp_size: int = 1
    prompt_group: Any = None

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 <= self.rank < self.size:
            got = f"rank {self.rank} of {self.size}"
            raise BadArgumentError("tp", "a rank below a size of at least 1", got, "Number the ranks from 0.")
        if self.ep_size < 1 or self.size % self.ep_size:
            expected = f"a divisor of the {self.size} ranks"
            raise BadArgumentError("ep_size", expected, self.ep_size, "Use ep_size=1 or as many as there are ranks.")
        if self.dp_size < 1 or self.size % self.dp_size:
            expected = f"a divisor of the {self.size} ranks"
            raise BadArgumentError("dp_size", expected, self.dp_size, "Use dp_size=1 or as many as there are ranks.")
        if self.dcp_size < 1 or self.size // self.dp_size % self.dcp_size:
            expected = f"a divisor of the {self.size // self.dp_size} ranks that share a request"
            remedy = "Use dcp_size=1 or as many as there are of them."
            raise BadArgumentError("dcp_size", expected, self.dcp_size, remedy)
        if self.cp_size < 1 or self.size // self.dp_size % self.cp_size:
            expected = f"a divisor of the {self.size // self.dp_size} ranks that share a request"
            remedy = "Use attn_cp_size=1 or as many as there are of them."
            raise BadArgumentError("attn_cp_size", expected, self.cp_size, remedy)

    @property
    def ep_rank(self) -> int:
        """Which share of the experts this rank holds."""
        return self.rank // (self.size // self.ep_size)

    @property
    def dp_rank(self) -> int:
        """Which group this rank attends in."""
        return self.rank // (self.size // self.dp_size)

    @property
    def attention(self) -> TensorParallel:
        """This rank among those that share a request's attention heads, its embedding and its logits."""
        if self.dp_size == self.cp_size == 1:
            return self
        ranks, context = self.size // self.dp_size // self.cp_size, (self.dcp_size, self.context_group)
        group = self.attention_group
        return TensorParallel(self.rank % ranks, ranks, group, dcp_size=context[0], context_group=context[1])

    @property
    def context(self) -> TensorParallel:
        """This rank among those that a request's context is spread over."""
        return TensorParallel(self.rank % self.dcp_size, self.dcp_size, self.context_group)

    @property
    def prompts(self) -> TensorParallel:
        """This rank among those that a prompt's new tokens are spread over."""
        neighbours = self.size // self.dp_size // self.cp_size
        return TensorParallel(self.rank // neighbours % self.cp_size, self.cp_size, self.prompt_group)

    @property
    def kv_heads(self) -> TensorParallel:
        """This rank among those that KV heads are cut over: ranks that share a context hold the same."""
        return TensorParallel(self.rank // self.dcp_size, self.size // self.dcp_size)

    @property
    def shared_experts(self) -> TensorParallel:
        """This rank among those that share an expert that every token goes through."""
        return self if self.a2a is None else SINGLE

    def within_experts(self) -> TensorParallel:
        """Which slice of each of its experts this rank holds."""
        ranks = self.size // self.ep_size
        return TensorParallel(self.rank % ranks, ranks)

    def divide(self, name: str, number: int) -> int:
        """This rank's share of `number` heads, rows or columns.

        Raises:
            BadArgumentError: it cannot be dealt out evenly.
        """
        if number % self.size:
            remedy = "Choose a tensor-parallel size that divides it."
            raise BadArgumentError(name, f"a multiple of the {self.size} ranks", number, remedy)
        return number // self.size

    def shard(self, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        """This rank's part of a whole tensor, cut evenly along `dim`; a view."""
        length = self.divide("tensor", tensor.shape[dim])
        return tensor.narrow(dim, self.rank * length, length)

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, in place."""
        return x if self.size == 1 else as_launch("all_reduce", lambda: self._all_reduce(x), x)

    def all_gather(self, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """The ranks' parts along `dim`, one after another: [..., n] -> [..., n · size]."""
        return x if self.size == 1 else as_launch("all_gather", lambda: self._all_gather(x, dim), x)

    def reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's share of the sum over ranks, cut along the first dimension: [n · size, ...] -> [n, ...]."""
        return x if self.size == 1 else as_launch("reduce_scatter", lambda: self._reduce_scatter(x), x)

    def all_to_all(self, x: torch.Tensor) -> torch.Tensor:
        """[size, ...]: row r goes to rank r; what comes back lies by where it came from."""
        return x if self.size == 1 else as_launch("all_to_all", lambda: self._all_to_all(x), x)

    def _reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        out, x = x.new_empty(self.divide("x", len(x)), *x.shape[1:]), x.contiguous()
        with collectives.noted("reduce_scatter", x, self.group):
            _reduce_scatter(out, x, group=self.group)
        return out

    def _all_to_all(self, x: torch.Tensor) -> torch.Tensor:
        out, x = torch.empty_like(x), x.contiguous()
        with collectives.noted("all_to_all", x, self.group, [1] * self.size):
            torch.distributed.all_to_all_single(out, x, group=self.group)
        return out

    def _all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        with collectives.noted("all_reduce", x, self.group):
            self._finish(torch.distributed.all_reduce(x, group=self.group, async_op=overlap.started()))
        return x

    def _all_gather(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        parts = [torch.empty_like(x) for _ in range(self.size)]
        x = x.contiguous()
        with collectives.noted("all_gather", x, self.group):
            self._finish(torch.distributed.all_gather(parts, x, group=self.group, async_op=overlap.started()))
        return torch.cat(parts, dim)

    @staticmethod
    def _finish(work: Any) -> None:
        """Wait for a collective that was only started, while the other of two passes goes on."""
        if work is not None:
            overlap.pass_turn()
            work.wait()


SINGLE = TensorParallel()
"""One process holds everything."""
