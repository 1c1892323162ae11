"""fused_experts in torch: the tokens of one expert after another, two products each."""

from __future__ import annotations

import torch
from torch.nn import functional

from sglab.kernels.fused_moe.contract import MoeArguments
from sglab.kernels.gated_activation.formulas import activate


def run(a: MoeArguments) -> tuple[()]:
    if len(a.hidden) == 1 and a.device.type == "cpu":
        _one_token(a)
    else:
        _many_tokens(a)
    return ()


def _one_token(a: MoeArguments) -> None:
    """The same sums in the same order, without what sorts tokens: that takes longer than one token's products."""
    total = torch.zeros(a.hidden.shape, dtype=torch.float32, device=a.device)
    weights = a.topk_weights[0].float()
    for expert, place in sorted((expert, place) for place, expert in enumerate(a.topk_ids[0].tolist())):
        if expert >= 0:
            total += _expert(a, a.hidden, expert).float() * weights[place]
    a.out.copy_(total)


def _many_tokens(a: MoeArguments) -> None:
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


def _expert(a: MoeArguments, x: torch.Tensor, expert: int) -> torch.Tensor:
    bias1 = None if a.w1_bias is None else a.w1_bias[expert].to(x.dtype)
    bias2 = None if a.w2_bias is None else a.w2_bias[expert].to(x.dtype)
    y = activate(_linear(a, x, 1, expert, bias1), a.activation)
    return _linear(a, y, 2, expert, bias2)


def _linear(a: MoeArguments, x: torch.Tensor, which: int, expert: int, bias: torch.Tensor | None) -> torch.Tensor:
    stored = (a.w1, a.w2)[which - 1][expert]
    q = a.quantization
    if q is None:
        return functional.linear(x, stored, bias)
    seen = q.activation(x, which)
    weight = q.weight(stored, (q.w1_scale, q.w2_scale)[which - 1][expert]).to(seen.dtype)
    return functional.linear(seen, weight, None if bias is None else bias.to(seen.dtype)).to(x.dtype)
