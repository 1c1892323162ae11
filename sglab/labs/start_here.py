"""The question of notebook 00."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.batch import Batch


def output_width(batch: Batch) -> Question:
    """The last dimension of attention's output."""
    return Question(
        truth=lambda: batch.layer.v_head_dim,
        because=(
            f"{{truth}}: values are the latent alone. The query has {batch.layer.head_dim}, since keys carry "
            f"{batch.layer.head_dim - batch.layer.v_head_dim} rotary numbers more."
        ),
        hint="Look at out.shape, or at batch.layer.v_head_dim.",
    )
