"""fused_experts in float64, token by token and choice by choice."""

from __future__ import annotations

import torch

from sglab.kernels.fused_moe.contract import MoeArguments
from sglab.kernels.gated_activation.formulas import activate


def run(a: MoeArguments) -> tuple[()]:
    for token, (experts, weights) in enumerate(zip(a.topk_ids.tolist(), a.topk_weights.tolist(), strict=True)):
        total = torch.zeros(a.hidden.shape[1], dtype=torch.float64, device=a.device)
        for expert, weight in zip(experts, weights, strict=True):
            if expert >= 0:
                total += weight * _expert(a, a.hidden[token].double(), expert)
        a.out[token] = total.to(a.out.dtype)
    return ()


def _expert(a: MoeArguments, x: torch.Tensor, expert: int) -> torch.Tensor:
    gate_up = _product(a, x, 1, expert)
    if a.w1_bias is not None:
        gate_up = gate_up + a.w1_bias[expert].double()
    y = _product(a, activate(gate_up, a.activation), 2, expert)
    return y if a.w2_bias is None else y + a.w2_bias[expert].double()


def _product(a: MoeArguments, x: torch.Tensor, which: int, expert: int) -> torch.Tensor:
    stored, q = (a.w1, a.w2)[which - 1][expert], a.quantization
    if q is None:
        return stored.double() @ x
    scale = (q.w1_scale, q.w2_scale)[which - 1][expert]
    return q.weight(stored, scale).double() @ q.activation(x[None], which)[0].double()
