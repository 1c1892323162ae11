"""What an attention head of a model made of a text: its weights, and their picture."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

from sglab.engine import RadixAttention

if TYPE_CHECKING:
    from sglab.serving import Engine


@dataclass(frozen=True)
class Weights:
    """What one attention head of one layer made of a text: a row for each token, as it looked back.

    Attributes:
        letters: the text's bytes, the token that begins every text first.
        matrix: float64 [tokens, tokens]; a row sums to 1, and above the diagonal there are zeros.
    """

    letters: list[str]
    matrix: torch.Tensor

    def _repr_html_(self) -> str:
        size, left = 15, 24
        n = len(self.letters)
        shown = [html.escape("·" if letter == " " else letter) for letter in self.letters]
        parts = []
        for i in range(n):
            middle = left + (i + 0.5) * size
            parts.append(f'<text x="{middle}" y="14" text-anchor="middle">{shown[i]}</text>')
            parts.append(f'<text x="14" y="{middle + 4}" text-anchor="middle">{shown[i]}</text>')
            for j in range(i + 1):
                share = float(self.matrix[i, j])
                where = f'x="{left + j * size}" y="{left + i * size}" width="{size - 1}" height="{size - 1}"'
                tip = f"{self.letters[i]!r} gives {self.letters[j]!r} (token {j}) the weight {share:.3f}"
                parts.append(
                    f'<rect {where} fill="var(--jp-brand-color1, #1976d2)" fill-opacity="{0.04 + 0.96 * share:.3f}">'
                    f"<title>{html.escape(tip)}</title></rect>"
                )
        side = left + n * size + 4
        style = "font:12px var(--jp-code-font-family, monospace);fill:var(--jp-content-font-color1, currentColor)"
        label = "Attention weights: rows look back, columns are looked at"
        head = f'<svg role="img" aria-label="{label}" width="{side}" height="{side}" style="{style}">'
        return f"{head}{''.join(parts)}</svg>"


def attention_weights(engine: Engine, text: str, layer: int, head: int) -> Weights:
    """Has the model read `text`, and returns the weights of one head of one layer, computed in float64 from the queries
    and keys that its attention layer was given.

    Raises:
        ValueError: the model has no such layer or head.
    """
    layers = [each for each in engine.model.modules() if isinstance(getattr(each, "shape", None), RadixAttention)]
    if not 0 <= layer < len(layers):
        raise ValueError(f"layer: expected 0 to {len(layers) - 1}; got {layer}")
    shape = cast(RadixAttention, layers[layer].shape)
    if not 0 <= head < shape.tp_q_head_num:
        raise ValueError(f"head: expected 0 to {shape.tp_q_head_num - 1}; got {head}")
    given: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(_: Any, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        q = torch.cat([args[0], more["q_rope"]], -1)[:, head]
        k = torch.cat([args[1], more["k_rope"]], -1)[:, 0]
        given.append((q.double(), k.double()))

    engine.flush_cache()
    hook = layers[layer].register_forward_pre_hook(keep, with_kwargs=True)
    try:
        engine.generate(text, {"temperature": 0, "max_new_tokens": 1})
    finally:
        hook.remove()
    q, k = given[0]
    scores = q @ k.T * shape.scaling
    seen = torch.ones_like(scores, dtype=torch.bool).tril()
    return Weights(["^", *text], torch.softmax(scores.masked_fill(~seen, -torch.inf), -1))
