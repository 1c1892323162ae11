"""Notebook "MLA: why the cache is 576 wide": absorption on a layer of the shipped model, scales, costs."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sglab.attention.mla import MLADims, MLAWeights, absorbed_mla, mla_softmax_scale, naive_mla

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.serving import Engine


@dataclass(frozen=True)
class Layer:
    """What one MLA layer of a model was given when it read a text; float64.

    Attributes:
        q_nope, q_rope: [tokens, heads, …], the query's two parts, the second rotated.
        cache: [tokens, latent + rotary], the rows that it keeps.
        weights: W_UK and W_UV.
        scale: of the scores.
    """

    q_nope: torch.Tensor
    q_rope: torch.Tensor
    cache: torch.Tensor
    weights: MLAWeights
    scale: float


def _latent_layers(engine: Engine) -> list[Any]:
    found = [cast(Any, each) for each in engine.model.modules() if hasattr(each, "method") and hasattr(each, "rank")]
    if not found:
        raise ValueError("engine: expected a model with multi-head latent attention; this one has none")
    return found


def read(engine: Engine, text: str, layer: int = 0) -> Layer:
    """Has the model read `text` and keeps what one layer's attention got.

    Raises:
        ValueError: the model has no MLA, or no such layer.
    """
    layers = _latent_layers(engine)
    if not 0 <= layer < len(layers):
        raise ValueError(f"layer: expected 0 to {len(layers) - 1}; got {layer}")
    given: list[tuple[torch.Tensor, ...]] = []
    engine.flush_cache()
    hook = layers[layer].register_forward_pre_hook(lambda _, args: given.append(args[:4]))
    try:
        engine.generate(text, {"temperature": 0, "max_new_tokens": 1})
    finally:
        hook.remove()
    q_nope, q_rope, latent, k_rope = (each.double() for each in given[0])
    w_uk, w_uv = layers[layer]._matrices()
    cache = torch.cat((latent.flatten(1), k_rope.flatten(1)), -1)
    return Layer(q_nope, q_rope, cache, MLAWeights(w_uk.double(), w_uv.double()), layers[layer].scaling)


@dataclass(frozen=True)
class Rows:
    """A picture of what a layer keeps of a text: a row of the cache per token, as a notebook shows it.

    Attributes:
        letters: the text's bytes, the token that begins every text first.
        cache: float64 [tokens, latent + rotary].
        latent: how many of a row's numbers are the latent.
    """

    letters: list[str]
    cache: torch.Tensor
    latent: int

    def _repr_html_(self) -> str:
        high, wide, left, top, gap = 15, 6, 26, 22, 12
        groups = self.cache[:, : self.latent].unflatten(1, (-1, 8))  # of eight neighbours the largest
        latent = groups.gather(2, groups.abs().argmax(2, keepdim=True)).squeeze(2)
        rotary = self.cache[:, self.latent :]
        parts, at = [], left
        for title, numbers in ((f"latent, {self.latent} numbers", latent), (f"rotary, {rotary.shape[1]}", rotary)):
            parts.append(f'<text x="{at}" y="14">{title}</text>')
            most = float(numbers.abs().max())
            for i, row in enumerate((numbers / most).tolist()):
                for j, share in enumerate(row):
                    colour = "var(--jp-brand-color1, #1976d2)" if share > 0 else "var(--jp-warn-color1, #b45309)"
                    where = f'x="{at + j * wide}" y="{top + i * high}" width="{wide}" height="{high - 1}"'
                    parts.append(f'<rect {where} fill="{colour}" fill-opacity="{abs(share) ** 0.5:.2f}"/>')
            at += numbers.shape[1] * wide + gap
        for i, letter in enumerate(self.letters):
            shown = html.escape("·" if letter == " " else letter)
            parts.append(f'<text x="14" y="{top + i * high + 11}" text-anchor="middle">{shown}</text>')
        style = "font:12px var(--jp-code-font-family, monospace);fill:var(--jp-content-font-color1, currentColor)"
        label = "Rows of the KV cache: a token each, its latent on the left, its rotary key on the right"
        size = f'width="{at}" height="{top + len(self.letters) * high}"'
        return f'<svg role="img" aria-label="{label}" {size} style="{style}">{"".join(parts)}</svg>'


def rows(engine: Engine, text: str, layer: int = 0) -> Rows:
    """Has the model read `text`, and returns a picture of the rows that one layer keeps of it.

    Raises:
        ValueError: the model has no MLA, or no such layer.
    """
    kept = read(engine, text, layer)
    return Rows(["^", *text], kept.cache, kept.cache.shape[1] - kept.q_rope.shape[-1])


@contextmanager
def computed(engine: Engine, method: str) -> Iterator[None]:
    """Within it the model's layers attend by `method`: "plain", which expands keys and values, or "absorbed".

    Raises:
        ValueError: another word.
    """
    if method not in ("plain", "absorbed"):
        raise ValueError(f"method: expected 'plain' or 'absorbed'; got {method!r}")
    layers = _latent_layers(engine)
    before = [layer.method for layer in layers]
    engine.flush_cache()
    try:
        for layer in layers:
            layer.method = method
        yield
    finally:
        for layer, old in zip(layers, before, strict=True):
            layer.method = old
        engine.flush_cache()


def smaller_by() -> Question:
    """How many times smaller DeepSeek-V3's cache is than the keys and values of all its heads."""
    dims = MLADims()
    return Question(
        truth=lambda: dims.expanded_elements_per_token / dims.elements_per_token,
        because="{truth:.1f} times. (56.9 if one counts 128 + 128 per head and forgets the rotary part of the key.)",
        hint="128 heads, each with a key of 128 + 64 numbers and a value of 128, against 512 + 64 for all of them.",
        ideas=(
            (
                2 * dims.num_heads * dims.v_head_dim / dims.elements_per_token,
                "A key has 64 rotary numbers beside its 128.",
            ),
            (
                2 * dims.num_heads * dims.v_head_dim * 2 / dims.elements_per_token,
                "That divides bytes by numbers. (And a key has 64 rotary numbers beside its 128.)",
            ),
            (
                dims.num_heads * (dims.qk_nope_head_dim + dims.qk_rope_head_dim) / dims.elements_per_token,
                "That is keys alone. Each head has a value, too.",
            ),
            (dims.num_heads, "One head's key and value are less than 576 numbers."),
        ),
    )


def right_scale() -> Question:
    """The softmax scale of the absorbed form, without YaRN."""
    return Question(
        truth=lambda: mla_softmax_scale(MLADims()),
        because="{truth:.4f}, 1/√192: absorption rewrites the same score, and the score was of 128 + 64 dims.",
        hint="The four candidates are 1/√576, 1/√512, 1/√192, 1/√128. Which keeps naive and absorbed the same?",
        tolerance=1e-3,
        ideas=(
            (
                576**-0.5,
                "576 is how wide the row is that the kernel reads. The score is the one of 128 + 64 dims, "
                "written in another way.",
            ),
            (512**-0.5, "The latent's width never was a width of the score."),
            (128**-0.5, "The rotary 64 belong to the score, too."),
            (1.0, "Then one key would have all the weight."),
        ),
    )


def break_even() -> Question:
    """Query tokens from which on expanding the cache takes fewer multiplications than absorbing."""
    dims = MLADims()

    def truth() -> int:
        expand = dims.kv_lora_rank * (dims.qk_nope_head_dim + dims.v_head_dim)
        naive = dims.qk_nope_head_dim + dims.qk_rope_head_dim + dims.v_head_dim
        absorbed = dims.elements_per_token + dims.kv_lora_rank
        return next(n for n in range(1, 10_000) if expand + n * naive < n * absorbed)

    return Question(
        truth=truth,
        because="{truth}: decode, with one query token, absorbs; a long prefill expands. Servers do both.",
        hint="Per head and key: expanding costs 512 · (128 + 128) once; then 192 + 128 for each query token. Absorbed: "
        "576 + 512 for each query token.",
        ideas=(
            (1, "With one query token, in decode, absorbing is far cheaper: expanding costs 512 · 256 first."),
            (121, "The naive form multiplies for every query token, too: 192 + 128."),
            (410, "The absorbed form is not free: it multiplies 576 + 512 for every query token."),
            (170, "With so many, absorbing still takes fewer."),
        ),
    )


def rows_thrown_away(heads: int) -> Question:
    """The share of computed rows that no request asked for, with `heads` of 128."""
    return Question(
        truth=lambda: 1 - heads / MLADims().num_heads,
        because="{truth:.3f}: a model cut over eight GPUs pays for 128 heads on each of them.",
        hint="The kernel computes 128 rows for each request, whatever is asked. A share lies between 0 and 1.",
        ideas=(
            (heads / MLADims().num_heads, "That is the share that is used."),
            (MLADims().num_heads - heads, "So many of 128. Asked for is a share, between 0 and 1."),
            (MLADims().num_heads / heads, "So many times the work. Which share of it is for nothing?"),
        ),
    )


def _truth(*args: Any) -> torch.Tensor:
    q_nope, q_rope, cache, w_uk, w_uv = (each.double() for each in args[:5])
    return naive_mla(q_nope, q_rope, cache, MLAWeights(w_uk, w_uv), args[5])


def _absorbed(*args: Any, scale: float | None = None, rope: bool = True, up: bool = True) -> torch.Tensor:
    """The absorbed form, or with a slip."""
    q_nope, q_rope, cache, w_uk, w_uv = (each.double() for each in args[:5])
    if rope and up and scale is None:
        return absorbed_mla(q_nope, q_rope, cache, MLAWeights(w_uk, w_uv), args[5])
    q = torch.einsum("qhd,hdc->qhc", q_nope, w_uk)
    latent = cache[:, : w_uk.shape[-1]]
    logits = torch.einsum("qhc,kc->qhk", torch.cat((q, q_rope), -1) if rope else q, cache if rope else latent)
    mixed = torch.einsum("qhk,kc->qhc", (logits * (args[5] if scale is None else scale)).softmax(-1), latent)
    return torch.einsum("qhc,hdc->qhd", mixed, w_uv) if up else mixed


def _cases(random: torch.Generator) -> list[list[Any]]:
    def draw(queries: int, heads: int, keys: int) -> list[Any]:
        shapes = ((queries, heads, 16), (queries, heads, 8), (keys, 40), (heads, 16, 32), (heads, 12, 32))
        q_nope, q_rope, cache, w_uk, w_uv = (
            torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes
        )
        return [q_nope, q_rope, cache, w_uk / 4, w_uv / 4, 24**-0.5]

    return [draw(1, 1, 3), draw(2, 4, 20), draw(3, 2, 50)]


def absorbed_attention() -> CodeQuestion:
    """The exercise of writing the absorbed form."""
    return CodeQuestion(
        function="absorbed",
        cases=_cases,
        truth=_truth,
        because="It never built a key or a value per head, and is the same function.",
        ideas=(
            (lambda *args: _absorbed(*args, scale=args[2].shape[1] ** -0.5), "Take the scale that you are given."),
            (lambda *args: _absorbed(*args, scale=1.0), "The scores are not scaled: multiply them by scale."),
            (lambda *args: _absorbed(*args, rope=False), "The rotary part belongs to the score, too."),
            (lambda *args: _absorbed(*args, up=False), "What is mixed is latent: W_UV makes the head's value of it."),
        ),
        tolerance=1e-6,
        objection=_expands,
    )


class _LargestBuilt(TorchDispatchMode):
    """Remembers the most numbers that an operation wrote into memory of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.shape, self.numel = torch.Size(), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(each, torch.Tensor):
                held = min(each.numel(), each.untyped_storage().nbytes() // each.element_size())
                if held > self.numel:
                    self.shape, self.numel = each.shape, held
        return result


def _expands(function: Callable[..., Any]) -> str:
    """What to say to who makes keys or values of every head: right results, at the cost that absorption avoids."""
    heads, keys, nope, rope, latent, v = 16, 512, 16, 8, 32, 16
    shapes = ((1, heads, nope), (1, heads, rope), (keys, latent + rope), (heads, nope, latent), (heads, v, latent))
    given = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    with _LargestBuilt() as built:
        function(*given, 1.0)
    if built.numel < keys * heads * min(nope, v):
        return ""
    return (
        f"But with {keys} keys and {heads} heads it builds a tensor of {list(built.shape)}: a key or value of every "
        "head for every token, which the cache was made small to avoid. Multiply W_UK into the query instead, and W_UV "
        "into what the softmax mixed."
    )
