"""What fused_experts asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values
from sglab.kernels.fused_moe.quantized import STORED, ExpertQuantization
from sglab.kernels.gated_activation.formulas import KINDS


@dataclass(frozen=True)
class MoeArguments:
    """Checked arguments of fused_experts; `out` is allocated, of the shape and dtype of `hidden`."""

    hidden: torch.Tensor
    w1: torch.Tensor
    w2: torch.Tensor
    topk_weights: torch.Tensor
    topk_ids: torch.Tensor
    w1_bias: torch.Tensor | None
    w2_bias: torch.Tensor | None
    activation: str
    quantization: ExpertQuantization | None
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.hidden.device


def check(
    hidden: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w1_bias: torch.Tensor | None,
    w2_bias: torch.Tensor | None,
    activation: str,
    quantization: ExpertQuantization | None,
    check_values: bool | None,
) -> MoeArguments:
    contract = Contract("fused_experts")
    contract.tensor("hidden", hidden, "tokens hidden", FLOATS)
    stored, packing = (FLOATS, 1) if quantization is None else ((STORED[quantization.kind],), quantization.packing)
    contract.fix("depth", contract.size("hidden") // packing, "hidden")
    contract.tensor("w1", w1, "experts gate_and_up depth", stored)
    width = contract.size("gate_and_up")
    contract.require(width % 2 == 0, "w1", "of an even number of rows, gate and up", width, "Join both matrices.")
    contract.fix("intermediate", width // 2 // packing, "w1")
    contract.tensor("w2", w2, "experts hidden intermediate", stored)
    contract.tensor("topk_weights", topk_weights, "tokens topk", FLOATS)
    contract.tensor("topk_ids", topk_ids, "tokens topk", INDEX)
    if quantization is None:
        contract.same_dtype(hidden=hidden, w1=w1, w2=w2)
    else:
        quantization.check(contract, w1, w2)
    if w1_bias is not None:
        contract.tensor("w1_bias", w1_bias, "experts gate_and_up", FLOATS)
    if w2_bias is not None:
        contract.tensor("w2_bias", w2_bias, "experts hidden", FLOATS)
    known = " or ".join(map(repr, KINDS))
    contract.require(activation in KINDS, "activation", known, repr(activation), "Choose one of them.")
    if reads_values(check_values, hidden.device):
        experts = contract.size("experts")
        inside = (topk_ids >= -1) & (topk_ids < experts)
        remedy = "-1 stands for an expert that another rank holds."
        contract.elements("topk_ids", inside, f"from -1 to {experts - 1}", topk_ids, remedy)
    given = (hidden, w1, w2, topk_weights, topk_ids, w1_bias, w2_bias, activation, quantization)
    return MoeArguments(*given, torch.empty_like(hidden))
