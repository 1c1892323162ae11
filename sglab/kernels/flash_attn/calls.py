"""From the functions' arguments to one form of a call."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sglab.kernels.contract import FLOATS, Contract
from sglab.kernels.flash_attn.contract import UNBOUNDED, FlashAttnArguments, Masking, check
from sglab.kernels.flash_attn.operator import operator
from sglab.kernels.scoring import Scoring


def masking_of(name: str, causal: bool, window: tuple[int | None, int | None], chunk: int) -> Masking:
    contract = Contract(name)
    remedy = "Pass (left, right), −1 for no limit."
    contract.require(len(window) == 2, "window_size", "two numbers", window, remedy)
    left, right = (-1 if side is None else side for side in window)
    for side in (left, right):
        contract.require(side >= -1, "window_size", "of numbers from −1 on", window, remedy)
    contract.require(chunk >= 0, "attention_chunk", "0 or positive", chunk, "Pass the chunk's tokens, or 0.")
    left, right = (UNBOUNDED if side < 0 else side for side in (left, right))
    return Masking(left, 0 if causal else right, chunk or UNBOUNDED)


def scoring_of(
    name: str,
    q: torch.Tensor,
    qv: torch.Tensor | None,
    softmax_scale: float | None,
    softcap: float,
    sinks: torch.Tensor | None,
) -> Scoring:
    if softmax_scale is None:
        Contract(name).tensor("q", q, "tokens heads qk_dim", dense=False)
        softmax_scale = (q.shape[-1] + (0 if qv is None else qv.shape[-1])) ** -0.5
    return Scoring(softmax_scale, softcap, sinks=sinks)


def outputs(
    name: str, q: torch.Tensor, v: torch.Tensor, out: torch.Tensor | None, padded: bool, by_token: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for O and the LSE (heads, tokens); where some rows of q are padding, filled with what they get.

    Args:
        by_token: a token's LSEs lie side by side.
    """
    contract = Contract(name)
    contract.tensor("q", q, "tokens heads qk_dim")
    tokens, heads, _ = q.shape
    make = torch.zeros if padded else torch.empty
    if out is None:
        out = make(tokens, heads, v.shape[-1], dtype=q.dtype if q.dtype in FLOATS else torch.bfloat16, device=q.device)
    elif padded:
        contract.tensor("out", out, "tokens heads v_dim", FLOATS)
        out.zero_()
    if by_token:
        return out, torch.empty((tokens, heads), device=q.device).T
    shape = (heads, tokens)
    return out, torch.full(shape, -torch.inf, device=q.device) if padded else torch.empty(shape, device=q.device)


def run(
    arguments: FlashAttnArguments,
    implementation: str,
    check_values: bool | None,
    before: Callable[[], None] | None = None,
    cached: torch.Tensor | None = None,
) -> None:
    """Check, do what comes before (an append), and attend.

    Args:
        cached: (batch,) the keys that are in the cache before it; None for all.
    """
    check(arguments, check_values, cached)
    if before is not None:
        before()
    operator(arguments, implementation)
