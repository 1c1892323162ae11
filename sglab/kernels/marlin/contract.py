"""What gptq_marlin_gemm asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values
from sglab.kernels.formats.marlin import COLUMNS, TILE, WITHIN

LEAST_GROUP = 32


@dataclass(frozen=True)
class MarlinArguments:
    """A checked call; a's columns are in the weights' order. group: input features that share a scale."""

    a: torch.Tensor
    words: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None
    bits: int
    group: int
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.a.device


def check(
    a: torch.Tensor,
    words: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    perm: torch.Tensor | None,
    bits: int,
    check_values: bool | None,
) -> MarlinArguments:
    contract = Contract("gptq_marlin_gemm")
    contract.require(bits in WITHIN, "bits", "4 or 8", bits, "Marlin has no other widths.")
    contract.tensor("a", a, "tokens in", FLOATS)
    contract.tensor("b_scales", scales, "groups out", FLOATS)
    contract.same_dtype(a=a, b_scales=scales)
    features, columns, groups = contract.size("in"), contract.size("out"), contract.size("groups")
    for name, size, tile in (("in", features, TILE), ("out", columns, COLUMNS)):
        contract.require(size > 0 and size % tile == 0, name, f"a multiple of {tile}", size, "Marlin has whole tiles.")
    contract.fix("tile_rows", features // TILE, "a")
    contract.fix("words", columns * bits // 2, "b_scales")
    contract.tensor("b_q_weight", words, "tile_rows words", (torch.int32,))
    group = features // max(groups, 1)
    fits = groups == 1 or (groups > 0 and features % groups == 0 and group % LEAST_GROUP == 0)
    remedy = "Other groups are widened first."
    contract.require(fits, "b_scales", f"groups of multiples of {LEAST_GROUP} of {features}, or one", groups, remedy)
    if zeros is not None:
        contract.fix("zero_words", columns * bits // 32, "b_scales")
        contract.tensor("b_zeros", zeros, "groups zero_words", (torch.int32,))
    if perm is not None:
        contract.tensor("perm", perm, "in", INDEX)
        if reads_values(check_values, a.device):
            inside = (perm >= 0) & (perm < features)
            contract.elements("perm", inside, f"from 0 to {features - 1}", perm, "Pass argsort(g_idx).")
        a = a[:, perm.long()]
    return MarlinArguments(a, words, scales, zeros, bits, group, a.new_empty(len(a), columns))
