"""EPLB: where copies of experts go so that ranks have equal loads. After github.com/deepseek-ai/EPLB.

Experts with the highest load per copy get another copy, one at a time; copies are then packed onto ranks, the heaviest
first, each to the lightest rank that has room. Hierarchically, groups of experts are first packed onto nodes, so that
a token whose router chooses few groups crosses few nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sglab.engine.errors import BadArgumentError


@dataclass(frozen=True)
class Placement:
    """Of each layer.

    Attributes:
        physical_to_logical: int64 [layers, copies], which expert each copy is; rank r holds the r-th equal share.
        logical_to_physical: int64 [layers, experts, most copies], -1 beyond an expert's own.
        logical_count: int64 [layers, experts], copies of each.
    """

    physical_to_logical: torch.Tensor
    logical_to_physical: torch.Tensor
    logical_count: torch.Tensor

    def rank_loads(self, load: torch.Tensor, ranks: int) -> torch.Tensor:
        """float [layers, ranks]: tokens of each rank, if copies share an expert's evenly."""
        each = load.float() / self.logical_count
        return each.gather(1, self.physical_to_logical).unflatten(1, (ranks, -1)).sum(-1)


def rebalance_experts(
    load: torch.Tensor, num_replicas: int, num_groups: int, num_nodes: int, num_gpus: int, hierarchical: bool = True
) -> Placement:
    """Place copies of experts.

    Args:
        load: [layers, experts], tokens that each expert got.
        num_replicas: copies in all, those that every expert has once among them.
        num_groups: groups of the router's experts.
        num_nodes: machines, within which exchange is fast.
        num_gpus: ranks.
        hierarchical: keep a group on one node; False: one pool of all experts.

    Raises:
        BadArgumentError: sizes that do not divide each other, or fewer copies than experts.
    """
    layers, experts = load.shape
    if not hierarchical:
        num_groups = num_nodes = 1
    divides = (
        ("num_groups", experts, num_groups, "experts"),
        ("num_nodes", num_groups, num_nodes, "groups"),
        ("num_nodes", num_gpus, num_nodes, "ranks"),
        ("num_gpus", num_replicas, num_gpus, "copies"),
    )
    for name, whole, part, what in divides:
        if part < 1 or whole % part:
            raise BadArgumentError(name, f"a divisor of the {whole} {what}", part, "Or place globally.")
    if num_replicas < experts:
        remedy = "Each expert needs one copy at least."
        raise BadArgumentError("num_replicas", f"at least {experts}", num_replicas, remedy)
    rows = [_layer(one, num_replicas, num_groups, num_nodes, num_gpus) for one in load.float().tolist()]
    most = max(len(copies) for row in rows for copies in _copies(row, experts))
    tables = [[copies + [-1] * (most - len(copies)) for copies in _copies(row, experts)] for row in rows]
    logical_to_physical = torch.tensor(tables).view(layers, experts, most)
    physical = torch.tensor([[expert for expert, _ in row] for row in rows])
    return Placement(physical, logical_to_physical, (logical_to_physical >= 0).sum(-1))


Copy = tuple[int, int]
"""An expert and which of its copies."""


def _layer(load: Sequence[float], copies: int, groups: int, nodes: int, gpus: int) -> list[Copy]:
    """The copies of one layer in their order over all ranks."""
    size = len(load) // groups
    of_group = [sum(load[g * size : (g + 1) * size]) for g in range(groups)]
    placed: list[Copy] = []
    for held in balanced_packing(of_group, nodes):
        experts = [g * size + i for g in held for i in range(size)]
        replicas = replicate_experts([load[e] for e in experts], copies // nodes)
        counts = [sum(each == i for each, _ in replicas) for i in range(len(experts))]
        shares = [load[experts[i]] / counts[i] for i, _ in replicas]
        for rank in balanced_packing(shares, gpus // nodes):
            placed += [(experts[replicas[at][0]], replicas[at][1]) for at in rank]
    return placed


def _copies(row: Sequence[Copy], experts: int) -> list[list[int]]:
    """Of each expert the places of its copies, in the order in which they were made."""
    found: list[dict[int, int]] = [{} for _ in range(experts)]
    for place, (expert, copy) in enumerate(row):
        found[expert][copy] = place
    return [[places[copy] for copy in sorted(places)] for places in found]


def balanced_packing(weights: Sequence[float], packs: int) -> list[list[int]]:
    """Items of each pack; all packs have as many. The heaviest goes first, to the lightest pack that has room."""
    room = len(weights) // packs
    if room == 1:
        return [[item] for item in range(packs)]
    held: list[list[int]] = [[] for _ in range(packs)]
    totals = [0.0] * packs
    for item in sorted(range(len(weights)), key=lambda one: -weights[one]):
        pack = min((one for one in range(packs) if len(held[one]) < room), key=totals.__getitem__)
        held[pack].append(item)
        totals[pack] += weights[item]
    return held


def replicate_experts(load: Sequence[float], copies: int) -> list[Copy]:
    """So many copies: each expert once, then one more of whichever has the highest load per copy."""
    made = [(expert, 0) for expert in range(len(load))]
    counts = [1] * len(load)
    while len(made) < copies:
        most = max(range(len(load)), key=lambda one: load[one] / counts[one])
        made.append((most, counts[most]))
        counts[most] += 1
    return made
