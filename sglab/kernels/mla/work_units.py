"""What the SM90 kernel's parts are to do, as tensors on its device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.combine.contract import MANY_SPLITS
from sglab.planning.mla_sm90 import MlaSm90Plan


@dataclass(frozen=True)
class Works:
    """works int32 (rounds, parts, 4), the work units: request, first token, end token, slot or −1. Part p does
    works[:, p] up to the first whose request is −1

    Attributes:
        requests, slot_indptr, partial_count: what the combine gets, see split_kv_combine.
        slots: how many partial results there is to be room for; 0: nothing is split, and nothing combined.
        many: whether requests have so many splits that the combine should share rows.
        batch: requests.
        longest: the most tokens of a request, None where only the device knows.
    """

    works: torch.Tensor
    requests: torch.Tensor
    slot_indptr: torch.Tensor
    partial_count: torch.Tensor | None
    slots: int
    many: bool
    batch: int
    longest: int | None = None

    @property
    def parts(self) -> int:
        return self.works.shape[1]


def planned(plan: MlaSm90Plan, place: str) -> Works:
    """Our own plan, put on a device."""
    works, requests, slot_indptr = (
        torch.from_numpy(array).to(place) for array in (plan.works, plan.split_requests, plan.slot_indptr)
    )
    many = plan.slots > MANY_SPLITS * plan.split_requests.size
    batch, longest = int(plan.works[..., 0].max()) + 1, int(plan.works[..., 2].max())
    return Works(works, requests, slot_indptr, None, plan.slots, many, batch, longest)
