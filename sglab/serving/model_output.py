"""ModelOutput: what a pass through the model leaves."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ModelOutput:
    """Hidden states and the logits to sample from."""

    hidden: torch.Tensor
    """[tokens, hidden], after the last norm."""
    logits: torch.Tensor
    """float32 [B, vocab]; of a pass that verifies drafts, a row for each of them."""
    graph_bs: int | None = None
    """The captured size that was replayed; None: no graph was."""
