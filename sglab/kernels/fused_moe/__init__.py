"""A mixture's experts: every token through the experts that it was routed to, and their weighted sum."""

from __future__ import annotations

import torch

from sglab.kernels.fused_moe.contract import MoeArguments, check
from sglab.kernels.fused_moe.quantized import ExpertQuantization, mxfp4_experts
from sglab.kernels.known_calls import Served, checked_once, next_time
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = ["ExpertQuantization", "fused_experts", "mxfp4_experts", "operator"]


def _refuses(a: MoeArguments) -> str | None:
    refusal = needs_triton(a)
    if refusal or a.quantization is None:
        return refusal
    from sglab.kernels.fused_moe import quantized_triton

    return quantized_triton.refuses(a)


operator = Operator(
    "fused_experts",
    Implementation("triton", "sglab.kernels.fused_moe.triton:run", GPU, _refuses),
    Implementation("torch", "sglab.kernels.fused_moe.by_expert:run", EVERYWHERE),
    Implementation("reference", "sglab.kernels.fused_moe.reference:run", EVERYWHERE),
)


TENSORS = ("hidden", "w1", "w2", "topk_weights", "topk_ids", "w1_bias", "w2_bias", "out")


@checked_once
def fused_experts(
    hidden: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    w1_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    activation: str = "silu",
    quantization: ExpertQuantization | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Σ over a token's choices of weight · w2[e] activation(w1[e] x). After SGLang's fused_experts.

    Returns a new tensor like `hidden`. Raises ContractError.

    Args:
        hidden: (tokens, hidden).
        w1: (experts, 2 · intermediate, hidden), gate and up of each expert.
        w2: (experts, hidden, intermediate).
        topk_weights: (tokens, topk), multiplied with each expert's output.
        topk_ids: (tokens, topk) int32 or int64; -1: an expert that is not here, which adds nothing.
        w1_bias: (experts, 2 · intermediate); None for none.
        w2_bias: (experts, hidden); None for none.
        activation: "silu", "gelu" or "swiglu_oai", see `gated_activation.formulas`.
        quantization: how w1 and w2 are stored, whose last dimension then has bytes; None: as floats.
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).
    """
    given = (hidden, w1, w2, topk_weights, topk_ids, w1_bias, w2_bias)
    arguments = check(*given, activation, quantization, check_values)
    operator(arguments, implementation)
    next_time(lambda: ExpertServer(arguments, operator.chosen(arguments, implementation), *TENSORS))
    return arguments.out


class ExpertServer(Served[MoeArguments]):
    """fused_experts, for calls like one that it served."""

    def __call__(
        self,
        hidden: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        *,
        w1_bias: torch.Tensor | None = None,
        w2_bias: torch.Tensor | None = None,
        **_: object,
    ) -> torch.Tensor:
        out = torch.empty_like(hidden)
        given = (hidden, w1, w2, topk_weights, topk_ids, w1_bias, w2_bias, out)
        self._serve(dict(zip(TENSORS, given, strict=True)))
        return out
