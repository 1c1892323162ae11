"""ExpertLocation: which rank holds which experts, some of them more than once."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from sglab.engine.errors import BadArgumentError


@dataclass(frozen=True)
class ExpertLocation:
    """One layer's. Physical expert p lies on rank p // (physical experts / ep_size).

    Attributes:
        physical_to_logical: of each physical expert the router's number of it.
        ep_size: ranks that share them.
    """

    physical_to_logical: tuple[int, ...]
    ep_size: int = 1
    _in_order: bool = field(init=False, repr=False, compare=False)
    _tables: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = field(init=False, repr=False, compare=False)
    """Device -> each expert's copies [experts, most copies] and how many they are."""

    def __post_init__(self) -> None:
        if len(self.physical_to_logical) % self.ep_size:
            expected = f"a multiple of the {self.ep_size} ranks"
            remedy = "Choose another ep_size, or more redundant experts."
            raise BadArgumentError("physical experts", expected, len(self.physical_to_logical), remedy)
        replicas: dict[int, list[int]] = {}
        for physical, logical in enumerate(self.physical_to_logical):
            replicas.setdefault(logical, []).append(physical)
        if sorted(replicas) != list(range(len(replicas))):
            got = sorted(replicas)[:8]
            raise BadArgumentError("physical_to_logical", "every expert once at least", got, "Renumber the experts.")
        most = max(map(len, replicas.values()))
        table = [replicas[one] + [-1] * (most - len(replicas[one])) for one in range(len(replicas))]
        counts = [len(replicas[one]) for one in range(len(replicas))]
        tables = torch.tensor(table, device="cpu"), torch.tensor(counts, device="cpu")
        object.__setattr__(self, "_tables", {tables[0].device: tables})
        object.__setattr__(self, "_in_order", self.physical_to_logical == tuple(range(len(self.physical_to_logical))))

    @classmethod
    def even(cls, num_experts: int, ep_size: int = 1) -> ExpertLocation:
        """Every expert once, in order."""
        return cls(tuple(range(num_experts)), ep_size)

    @property
    def per_rank(self) -> int:
        return len(self.physical_to_logical) // self.ep_size

    def on_rank(self, rank: int) -> tuple[int, ...]:
        """The router's numbers of the experts that a rank holds."""
        return self.physical_to_logical[rank * self.per_rank : (rank + 1) * self.per_rank]

    def physical_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """The router's choices [tokens, topk] as physical experts; tokens take turns with an expert's replicas."""
        if self._in_order:
            return ids
        if ids.device not in self._tables:
            replicas, counts = self._tables[torch.device("cpu")]
            self._tables[ids.device] = replicas.to(ids.device), counts.to(ids.device)
        replicas, counts = self._tables[ids.device]
        known = ids.clamp(min=0).long()
        turn = torch.arange(len(ids), device=ids.device)[:, None] % counts[known]
        return torch.where(ids < 0, -1, replicas[known, turn])

    def local_ids(self, ids: torch.Tensor, rank: int) -> torch.Tensor:
        """The router's choices as numbers of a rank's own experts; -1: another rank's."""
        if self.ep_size == 1 and self._in_order:
            return ids
        mine = self.physical_ids(ids) - rank * self.per_rank
        return torch.where((mine >= 0) & (mine < self.per_rank), mine, -1)
