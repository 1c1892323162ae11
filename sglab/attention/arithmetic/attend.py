"""attend_rows: attention over slots, by the implementation that was asked for or fits the device."""

from __future__ import annotations

import torch

from sglab.attention.arithmetic import cpu, dense, flashinfer, triton
from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.attention.info import ran
from sglab.engine import BadArgumentError, RadixAttention, ScoreMod
from sglab.kernels.scoring import Scoring

IMPLEMENTATIONS = ("auto", "triton", "flashinfer", "cpu", "torch", "reference")


def scoring_of(layer: RadixAttention, sinks: torch.Tensor | None = None, k_scale: float = 1.0) -> Scoring:
    """A layer's softmax options. The scale of FP8 keys multiplies the logits, so no key is multiplied."""
    return Scoring(layer.scaling * k_scale, layer.logit_cap, layer.xai_temperature_len, sinks)


def attend_rows(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PagedRows,
    scoring: Scoring,
    *,
    v_scale: float = 1.0,
    implementation: str = "auto",
    score_mod: ScoreMod | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend.

    Args:
        q: [tokens, heads, head_dim].
        keys, values: [slots, kv_heads, head_dim] and [slots, kv_heads, v_head_dim], the pool's, of any float dtype.
        v_scale: multiplies the result: that of FP8 values.
        implementation: "triton": the decode and extend operators; "flashinfer": the library's own kernels, where it is
            installed on a GPU; "cpu": the host's vector units; "torch"; "reference": torch in float64; "auto": Triton
            on a GPU, on a CPU the vector units, or torch for a dtype that they do not read.

    Returns:
        o [tokens, heads, v_head_dim] in q's dtype, and the natural LSE float32 [tokens, heads], without the sinks.

    Raises:
        BadArgumentError: an unknown implementation, or "cpu" or "flashinfer" for what they do not serve.
    """
    if implementation not in IMPLEMENTATIONS:
        expected = f"one of {', '.join(IMPLEMENTATIONS)}"
        raise BadArgumentError("implementation", expected, repr(implementation), "Leave it out for the default.")
    chosen = implementation
    if score_mod is not None:
        if chosen not in ("auto", "torch", "reference"):
            remedy = "Use implementation='auto' or 'torch'."
            raise BadArgumentError("implementation", "one that calls a score function", repr(chosen), remedy)
        chosen = "torch" if chosen == "auto" else chosen
    if chosen == "auto":
        chosen = "triton" if q.device.type == "cuda" else "cpu" if cpu.serves(q, keys) else "torch"
    ahead = not rows.causal and rows.custom_mask is None
    if chosen == "triton" and rows.max_q > 1 and (rows.window == 0 or (ahead and rows.window > 0)):
        chosen = "torch"  # to the extend operator a window of 0 means none, and these keys are all its prefix
    if chosen == "triton":
        o, lse = triton.run(q, keys, values, rows, scoring, "triton")
    elif chosen == "flashinfer":
        if (why := flashinfer.refuses(q, keys, values, rows, scoring)) is not None:
            remedy = "Use implementation='auto' or 'triton'."
            raise BadArgumentError("implementation", f"another than 'flashinfer': {why}", "'flashinfer'", remedy)
        ran("attend_rows", chosen, q.device, "FlashInfer's own kernel, planned by it")
        o, lse = flashinfer.run(q, keys, values, rows, scoring)
    elif chosen == "cpu":
        if not cpu.serves(q, keys):
            got = f"{q.dtype} over {keys.dtype} on {q.device}"
            remedy = "Use implementation='torch'."
            raise BadArgumentError("implementation", "another than 'cpu' for these tensors", got, remedy)
        ran("attend_rows", chosen, q.device, "its vector units read the pool where it lies")
        o, lse = cpu.run(q, keys, values, rows, scoring)
    else:
        ran("attend_rows", chosen, q.device, "PyTorch runs where the tensors are")
        accumulate = torch.float64 if chosen == "reference" or q.dtype == torch.float64 else torch.float32
        o, lse = dense.run(q, keys, values, rows, scoring, accumulate, score_mod)
    return (o if v_scale == 1.0 else o * v_scale), lse
