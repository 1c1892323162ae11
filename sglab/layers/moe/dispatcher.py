"""ExpertExchange: tokens to the ranks of their experts and back, with DeepEP's two ways, over torch.distributed.

Normal: a token goes once to each rank that has an expert of its own; the sums come back, and are added without weights.
Low latency: every expert has fixed room for every rank's tokens, so that no counts are exchanged before; weights are
applied where the results come together. Source of names and semantics: github.com/deepseek-ai/DeepEP.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import distributed

from sglab.engine.errors import BadArgumentError
from sglab.kernels.formats.fp8 import per_token_group_quant_fp8
from sglab.layers import collectives
from sglab.layers.moe.topk import Routing

FP8_GROUP = 128


class DispatchLayout(NamedTuple):
    """What a rank is about to send.

    Attributes:
        num_tokens_per_rank: int64 [ranks].
        num_tokens_per_expert: int64 [experts].
        is_token_in_rank: bool [tokens, ranks].
    """

    num_tokens_per_rank: torch.Tensor
    num_tokens_per_expert: torch.Tensor
    is_token_in_rank: torch.Tensor


class Dispatched(NamedTuple):
    """What a rank received.

    Attributes:
        x: [received, hidden].
        routing: of these tokens; ids count this rank's experts, -1: another rank's.
        num_per_expert: int, this rank's experts' tokens, each rounded up to the alignment.
        handle: for `combine`.
    """

    x: torch.Tensor
    routing: Routing
    num_per_expert: list[int]
    handle: Handle


@dataclass(frozen=True)
class Handle:
    """Which way tokens came: the tokens sent, rank by rank, and how many were sent to and received from each."""

    tokens: torch.Tensor
    sent: list[int]
    received: list[int]
    count: int


class LowLatencyDispatched(NamedTuple):
    """What a rank's experts received.

    Attributes:
        x: [experts here, ranks · room, hidden]; e4m3 with `scales`, or as it was sent. Rows beyond the count are zero.
        scales: float32 [experts here, ranks · room, hidden / 128], or None.
        masked_m: int64 [experts here], tokens of each.
        counts: int64 [ranks, experts here], from which rank.
    """

    x: torch.Tensor
    scales: torch.Tensor | None
    masked_m: torch.Tensor
    counts: torch.Tensor


@dataclass(frozen=True)
class ExpertExchange:
    """Experts dealt out evenly to the ranks of a group.

    Attributes:
        num_experts: of all ranks.
        rank, ranks: this one's place.
        group: the process group; None: the default one.
        room: tokens of one rank that the low-latency way can send to an expert.
    """

    num_experts: int
    rank: int
    ranks: int
    group: Any = None
    room: int = 128

    def __post_init__(self) -> None:
        if self.num_experts % self.ranks:
            expected = f"a multiple of the {self.ranks} ranks"
            raise BadArgumentError("num_experts", expected, self.num_experts, "Add redundant experts.")

    @property
    def here(self) -> int:
        """Experts of each rank."""
        return self.num_experts // self.ranks

    def get_dispatch_layout(self, ids: torch.Tensor) -> DispatchLayout:
        """From int64 ids [tokens, topk]; -1: none."""
        chosen = torch.zeros(len(ids), self.num_experts + 1, dtype=torch.bool, device=ids.device)
        chosen.scatter_(1, torch.where(ids < 0, self.num_experts, ids), True)
        chosen = chosen[:, :-1]
        in_rank = chosen.unflatten(1, (self.ranks, self.here)).any(-1)
        return DispatchLayout(in_rank.sum(0), chosen.sum(0), in_rank)

    def dispatch(self, x: torch.Tensor, routing: Routing, expert_alignment: int = 1) -> Dispatched:
        """Send each token to every rank that has an expert of its own.

        Args:
            x: [tokens, hidden].
            routing: ids over all experts.
            expert_alignment: round the counts per expert up to it (128 for DeepGEMM).
        """
        layout = self.get_dispatch_layout(routing.ids)
        ranks, tokens = layout.is_token_in_rank.T.nonzero(as_tuple=True)
        sent = torch.bincount(ranks, minlength=self.ranks)
        received = torch.empty_like(sent)
        with collectives.noted("all_to_all", sent, self.group, [1] * self.ranks, "dispatch: counts"):
            distributed.all_to_all_single(received, sent, group=self.group)
        handle = Handle(tokens, sent.tolist(), received.tolist(), len(x))
        came = self._exchange(x[tokens], handle.sent, handle.received, "dispatch: rows")
        ids = self._exchange(routing.ids[tokens], handle.sent, handle.received, "dispatch: experts")
        ids = ids - self.rank * self.here
        weights = self._exchange(routing.weights[tokens], handle.sent, handle.received, "dispatch: weights")
        mine = (ids >= 0) & (ids < self.here)
        counts = torch.bincount(ids[mine], minlength=self.here).tolist()
        aligned = [-(-count // expert_alignment) * expert_alignment for count in counts]
        return Dispatched(came, Routing(weights.masked_fill(~mine, 0), ids.masked_fill(~mine, -1)), aligned, handle)

    def combine(self, y: torch.Tensor, handle: Handle) -> torch.Tensor:
        """The sum over ranks of what became of this rank's tokens, [tokens, hidden]; weights were applied before."""
        back = self._exchange(y, handle.received, handle.sent, "combine: sums")
        total = torch.zeros(handle.count, y.shape[1], dtype=torch.float32, device=y.device)
        return total.index_add_(0, handle.tokens, back.float()).to(y.dtype)

    def low_latency_dispatch(
        self, x: torch.Tensor, ids: torch.Tensor, use_fp8: bool = True
    ) -> Callable[[], LowLatencyDispatched]:
        """Send each token to each of its experts; the returned hook waits for what comes, so that other work fits in.

        Args:
            x: [tokens, hidden], at most `room` tokens.
            ids: int64 [tokens, topk]; -1: none.
            use_fp8: quantise to e4m3 per token and 128 columns.

        Raises:
            BadArgumentError: more tokens than there is room for.
        """
        if len(x) > self.room:
            remedy = "Raise room on every rank, or use the normal way."
            raise BadArgumentError("x", f"at most {self.room} tokens", len(x), remedy)
        place, chosen = self._places(ids)
        tokens = torch.arange(len(x), device=x.device)[:, None].expand_as(ids)[chosen]
        counts = torch.bincount(ids[chosen], minlength=self.num_experts)
        parts = [x]
        if use_fp8:
            q, scale = per_token_group_quant_fp8(x, FP8_GROUP)
            parts = [q.view(torch.uint8), scale]
        names = ("dispatch: rows in e4m3", "dispatch: scales") if use_fp8 else ("dispatch: rows per expert",)
        arriving = [
            self._start(self._filled(part, tokens, place[chosen]), name)
            for part, name in zip(parts, names, strict=True)
        ]
        arriving.append(self._start(counts.clone(), "dispatch: counts"))

        def hook() -> LowLatencyDispatched:
            came = [wait() for wait in arriving]
            by_rank = came[-1].view(self.ranks, self.here)
            packed = [self._packed(part, by_rank) for part in came[:-1]]
            rows = packed[0].view(torch.float8_e4m3fn) if use_fp8 else packed[0]
            return LowLatencyDispatched(rows, packed[1] if use_fp8 else None, by_rank.sum(0), by_rank)

        return hook

    def low_latency_combine(
        self, y: torch.Tensor, routing: Routing, dispatched: LowLatencyDispatched
    ) -> Callable[[], torch.Tensor]:
        """Send results back; the returned hook gives [tokens, hidden], each token's sum with its weights.

        Args:
            y: [experts here, ranks · room, hidden], as `dispatched.x` lies.
            routing: of the tokens that this rank sent.
        """
        sources, targets = self._order(dispatched.counts)
        flat = y.new_zeros(self.ranks * self.here * self.room, y.shape[2])
        flat[sources] = y.flatten(0, 1)[targets]
        wait = self._start(flat, "combine: results")

        def hook() -> torch.Tensor:
            back = wait()
            place, chosen = self._places(routing.ids)
            rows = back[place.clamp(min=0)].float() * routing.weights[..., None]
            return rows.masked_fill(~chosen[..., None], 0).sum(1).to(y.dtype)

        return hook

    def _exchange(self, x: torch.Tensor, sent: list[int], received: list[int], what: str) -> torch.Tensor:
        out = x.new_empty(sum(received), *x.shape[1:])
        with collectives.noted("all_to_all", x, self.group, sent, what):
            distributed.all_to_all_single(out, x.contiguous(), received, sent, group=self.group)
        return out

    def _start(self, x: torch.Tensor, what: str) -> Callable[[], torch.Tensor]:
        """Exchange equal parts of x with every rank; the returned function waits for them."""
        out = torch.empty_like(x)
        noting = ExitStack()  # until it has arrived
        even = [len(x) // self.ranks] * self.ranks
        noting.enter_context(collectives.noted("all_to_all", x, self.group, even, what))
        work = distributed.all_to_all_single(out, x, group=self.group, async_op=True)

        def wait() -> torch.Tensor:
            work.wait()
            noting.close()
            return out

        return wait

    def _places(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each choice its row among [experts · room], and whether it is one: an expert's tokens in their order."""
        chosen = ids >= 0
        flat = torch.where(chosen, ids, 0).flatten()
        hot = torch.nn.functional.one_hot(flat, self.num_experts) * chosen.flatten()[:, None]
        before = (hot.cumsum(0) - hot).gather(1, flat[:, None])[:, 0]
        return (flat * self.room + before).view_as(ids), chosen

    def _filled(self, x: torch.Tensor, tokens: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        rows = x.new_zeros(self.num_experts * self.room, x.shape[1])
        rows[place] = x[tokens]
        return rows

    def _order(self, counts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows that hold a token as they are sent, [ranks, experts, room], and as experts have them, packed."""
        slot = torch.arange(self.room, device=counts.device)
        rank, expert, row = (slot < counts[..., None]).nonzero(as_tuple=True)
        first = counts.cumsum(0) - counts
        sent = (rank * self.here + expert) * self.room + row
        return sent, expert * self.ranks * self.room + first[rank, expert] + row

    def _packed(self, came: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """[ranks · experts · room, n] -> [experts, ranks · room, n], an expert's tokens one after another."""
        sources, targets = self._order(counts)
        rows = torch.zeros_like(came)
        rows[targets] = came[sources]
        return rows.view(self.here, self.ranks * self.room, -1)
