"""Questions of notebook 19, the second half: formats with scales, and what they cost on the tiny model's weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from sglab.kernels.formats import fp8, int8, microscaling, nvfp4

from .code_question import CodeQuestion
from .draft_head import rows_of
from .question import Question

if TYPE_CHECKING:
    from sglab.serving import Engine

GROUP = 64
"""Neighbours that share a scale, in the formats of this notebook with groups; 128 is usual with wider matrices."""


class Format(NamedTuple):
    """`bits`: per weight, scales of a matrix 192 wide included. `rounded`: a matrix [out, in] as it comes back."""

    bits: float
    rounded: Callable[[torch.Tensor], torch.Tensor]


def _fp8_tensor(w: torch.Tensor) -> torch.Tensor:
    q, scale = fp8.scaled_fp8_quant(w)
    return q.float() * scale


def _fp8_channel(w: torch.Tensor) -> torch.Tensor:
    q, scale = fp8.scaled_fp8_quant(w, use_per_token_if_dynamic=True)
    return q.float() * scale


def _fp8_block(w: torch.Tensor) -> torch.Tensor:
    return fp8.block_quant_dequant(*fp8.per_block_cast_to_fp8(w, (GROUP, GROUP)), (GROUP, GROUP))


def _int8_tensor(w: torch.Tensor) -> torch.Tensor:
    q, scale = int8.per_token_quant_int8(w.reshape(1, -1))
    return (q.float() * scale).reshape(w.shape)


def _int8_channel(w: torch.Tensor) -> torch.Tensor:
    q, scale = int8.per_token_quant_int8(w)
    return q.float() * scale


def _int8_group(w: torch.Tensor) -> torch.Tensor:
    q, scale = int8.per_token_group_quant_int8(w, GROUP)
    return (q.float().unflatten(-1, (-1, GROUP)) * scale[..., None]).flatten(-2)


def _int4_group(w: torch.Tensor) -> torch.Tensor:
    groups = w.float().unflatten(-1, (-1, GROUP))
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 7
    return (torch.round(groups / scale).clamp(-8, 7) * scale).flatten(-2)


def _mxfp8(w: torch.Tensor) -> torch.Tensor:
    return microscaling.dequantize_mxfp8(*microscaling.quantize_mxfp8(w))


def _mxfp4(w: torch.Tensor) -> torch.Tensor:
    blocks, scales = microscaling.quantize_mxfp4(w)
    return microscaling.times_e8m0(microscaling.unpack_e2m1(blocks.reshape(*w.shape[:-1], -1)), scales)


def _nvfp4(w: torch.Tensor) -> torch.Tensor:
    return nvfp4.dequantize_nvfp4(*nvfp4.quantize_nvfp4(w))


FORMATS = {
    "fp8, a scale per tensor": Format(8, _fp8_tensor),
    "fp8, per row": Format(8 + 32 / 192, _fp8_channel),
    "fp8, per block": Format(8 + 32 / GROUP**2, _fp8_block),
    "mxfp8, per 32": Format(8 + 8 / 32, _mxfp8),
    "int8, per tensor": Format(8, _int8_tensor),
    "int8, per row": Format(8 + 32 / 192, _int8_channel),
    "int8, per group": Format(8 + 32 / GROUP, _int8_group),
    "int4, per group": Format(4 + 16 / GROUP, _int4_group),
    "mxfp4, per 32": Format(4 + 8 / 32, _mxfp4),
    "nvfp4, per 16": Format(4 + 8 / 16, _nvfp4),
}


def error(w: torch.Tensor, rounded: torch.Tensor) -> float:
    """Root of the mean squared difference, relative to the weights' own size."""
    return float((rounded - w).norm() / w.norm())


def matrices(engine: Engine) -> dict[str, torch.Tensor]:
    """The weights of MLPs and experts by name, [out, in] or [experts, out, in]; the routers' gates are left alone."""
    named = engine.model.named_parameters()
    return {name: each for name, each in named if ".mlp." in name and ".gate." not in name}


@contextmanager
def quantised(engine: Engine, rounded: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Inside the block the engine computes with weights as they come back from a format."""
    before = {name: each.detach().clone() for name, each in matrices(engine).items()}
    try:
        with torch.no_grad():
            for each in matrices(engine).values():
                each.copy_(rounded(each.flatten(0, -2).float()).reshape(each.shape))
        yield
    finally:
        with torch.no_grad():
            for name, each in matrices(engine).items():
                each.copy_(before[name])


def said(engine: Engine, text: str) -> torch.Tensor:
    """What the model says after every token of `text`: float32 [tokens, vocab], log probabilities.

    Args:
        engine: one without a radix cache.
    """
    assert engine.tokenizer is not None, "an engine made of a model alone has no tokenizer"
    states, _, _ = rows_of(engine, [engine.tokenizer.encode(text)])
    with torch.inference_mode():
        return engine.model.compute_logits(states.to(engine.model.dtype)).float().log_softmax(-1)


def divergence(engine: Engine, rounded: Callable[[torch.Tensor], torch.Tensor], text: str) -> float:
    """How far the quantised model's distributions are from the model's own: KL, nats per token of `text`."""
    own = said(engine, text)
    with quantised(engine, rounded):
        other = said(engine, text)
    return float(torch.nn.functional.kl_div(other, own, log_target=True, reduction="batchmean"))


def bits_per_weight(value: int, scale: int, block: int, usual: str) -> Question:
    """What a weight takes with its share of a scale."""
    return Question(
        truth=lambda: value + scale / block,
        because="{truth} bits: " + usual,
        hint=f"{value} bits of its own, and a share of the scale, which {block} values have in common.",
        ideas=(
            (value, "The scales must be stored, too."),
            (value + scale, "A scale is shared: each value takes a part of it."),
        ),
    )


def gentlest(engine: Engine, text: str, most_bits: float) -> Question:
    """The small format with which the model says most nearly what it says without."""
    small = {name: each for name, each in FORMATS.items() if each.bits < most_bits}
    found: dict[str, float] = {}

    def truth() -> str:
        found.update({name: divergence(engine, each.rounded, text) for name, each in small.items()})
        return min(found, key=lambda name: found[name])

    return Question(
        truth=truth,
        because="{truth!r}, on these weights and this text.",
        hint="quant.divergence(engine, quant.FORMATS[name].rounded, text) measures it for a name.",
        ideas=(
            (
                "nvfp4, per 16",
                "Its weights are the nearest. What they do to the outputs is another matter: measure it.",
            ),
            ("mxfp4, per 32", "Scales that are powers of two waste up to half of the range that four bits have."),
        ),
    )


def largest_damage(engine: Engine, name: str) -> Question:
    """Which format's error on all other weights grows most, when one weight becomes a hundred times as large."""
    names = ("fp8, a scale per tensor", "int8, per tensor", "int8, per group", "fp8, per block")

    def truth() -> str:
        grown = damage(matrices(engine)[name].detach(), names)
        return max(grown, key=lambda each: grown[each])

    return Question(
        truth=truth,
        because="{truth!r}: integers have equal steps, and the largest value of all sets their size for all.",
        hint="Who shares a scale with the outlier? And which formats have small steps for small values?",
        ideas=(
            ("fp8, a scale per tensor", "All share the scale there, too. But a float's steps shrink with the value."),
            ("int8, per group", "Only the neighbours in the outlier's group suffer there."),
            ("fp8, per block", "Only one block suffers there, and floats have small steps for small values."),
        ),
    )


def damage(w: torch.Tensor, names: tuple[str, ...]) -> dict[str, float]:
    """By what factor an outlier in a matrix makes the error on all other weights larger."""
    w = w.flatten(0, -2).float()
    spoilt = w.clone()
    spoilt[3, 5] = 100 * w.abs().amax()
    others = torch.ones_like(w, dtype=torch.bool)
    others[3, 5] = False

    def left(given: torch.Tensor, name: str) -> float:
        return error(given[others], FORMATS[name].rounded(given)[others])

    return {name: left(spoilt, name) / left(w, name) for name in names}


def _rows(random: torch.Generator) -> list[list[Any]]:
    def draw(rows: int, columns: int, group: int) -> list[Any]:
        x = torch.randn(rows, columns, generator=random) * torch.rand(rows, 1, generator=random) * 5
        return [x, group]

    zeros = draw(2, 8, 4)
    zeros[0][1, 4:] = 0
    return [[torch.tensor([[1.0, -2.0, 127.0, 0.0, 1.0, 0.5, -1.0, 0.25]]), 4], draw(3, 8, 4), zeros, draw(5, 64, 16)]


def _quantise(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    return int8.per_token_group_quant_int8(x, group)


def _one_scale(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    q, scale = int8.per_token_quant_int8(x)
    return q, scale.expand(-1, x.shape[1] // group)


def _cut_off(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    _, scale = _quantise(x, group)
    return (x / scale.repeat_interleave(group, 1)).trunc().to(torch.int8), scale


def _inverse(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    q, scale = _quantise(x, group)
    return q, 1 / scale


def _without_floor(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.unflatten(1, (-1, group)).abs().amax(-1) / 127
    return torch.round(x / scale.repeat_interleave(group, 1)), scale


def _by_128(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.unflatten(1, (-1, group)).abs().amax(-1).clamp(min=1e-10) / 128
    return torch.round(x / scale.repeat_interleave(group, 1)).to(torch.int8), scale


def _signed(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.unflatten(1, (-1, group)).amax(-1).clamp(min=1e-10) / 127
    return torch.round(x / scale.repeat_interleave(group, 1)).to(torch.int8), scale


def _divides_by_zero(function: Callable[..., Any]) -> str:
    """What to say to who divides by the scale of a group of zeros: what int8 NaN becomes, no language promises."""
    _, scales = function(torch.zeros(1, 8), 4)
    if bool((torch.as_tensor(scales) >= 0.9e-10 / 127).all()):
        return ""
    return (
        "But a group of zeros has the scale 0 here, and 0 / 0 is NaN, of which int8 makes whatever the machine likes: "
        "keep amax at 1e-10 or more."
    )


def group_int8() -> CodeQuestion:
    """A scale for each group of a row's columns, and int8 values."""
    return CodeQuestion(
        function="quantise",
        cases=_rows,
        truth=_quantise,
        because="Half a step, amax / 254 of its own group, is the most that a value can be off.",
        ideas=(
            (_one_scale, "That is a scale per row. Each group of columns has its own."),
            (_cut_off, "Values are cut off towards zero: round to the nearest, which halves the largest error."),
            (_inverse, "The scale is what a value is multiplied with to come back: amax / 127, not 127 / amax."),
            (_without_floor, "A group of zeros gives 0 / 0: keep amax at 1e-10 or more."),
            (_by_128, "int8 ends at 127 on this side: with amax / 128 the largest positive value does not fit."),
            (_signed, "The largest *magnitude* counts: without abs a group's most negative value is cut."),
            (
                lambda x, group: _quantise(x, group)[::-1],
                "Both are right, in the other order: first the values.",
            ),
        ),
        tolerance=1e-6,
        objection=_divides_by_zero,
    )
