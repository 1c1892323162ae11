"""fused_experts in torch: the tokens of one expert after another, two products each."""

from __future__ import annotations

import torch
from torch.nn import functional

from sglab.kernels.fused_moe.contract import MoeArguments
from sglab.kernels.gated_activation.formulas import activate


def run(a: MoeArguments) -> tuple[()]:
    topk = a.topk_ids.shape[1]
    chosen = a.topk_ids.flatten()
    order = torch.argsort(chosen, stable=True)
    experts, counts = torch.unique_consecutive(chosen[order], return_counts=True)
    total = torch.zeros(a.hidden.shape, dtype=torch.float32, device=a.device)
    weights = a.topk_weights.flatten().float()
    for expert, choices in zip(experts.tolist(), order.split(counts.tolist()), strict=True):
        if expert >= 0:
            tokens = choices // topk
            rows = _expert(a, a.hidden[tokens], expert)
            total.index_add_(0, tokens, rows.float() * weights[choices, None])
    a.out.copy_(total)
    return ()


def _expert(a: MoeArguments, x: torch.Tensor, expert: int) -> torch.Tensor:
    bias1 = None if a.w1_bias is None else a.w1_bias[expert].to(x.dtype)
    bias2 = None if a.w2_bias is None else a.w2_bias[expert].to(x.dtype)
    return functional.linear(activate(functional.linear(x, a.w1[expert], bias1), a.activation), a.w2[expert], bias2)
