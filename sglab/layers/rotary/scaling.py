"""RoPE's frequencies under every scaling that config.json names: default, linear, dynamic, llama3, yarn, longrope.

The exponent counts in the rotary dims, not in head_dim. "dynamic" and "longrope" depend on the longest sequence; here
that is the context the model is loaded for, one choice for all requests: a key that was cached must not turn when
another request arrives or when its own grows. Sources: the papers (PI, NTK-aware, Llama 3.1, YaRN, LongRoPE) and
Hugging Face transformers' parameter names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from sglab.engine.errors import BadArgumentError


@dataclass(frozen=True)
class RopeConfig:
    """What of a config.json decides the rotation.

    Attributes:
        rotary_dim: leading (or the only) dims of a head that turn; the others pass.
        context_len: positions the model is loaded for; the longest sequence that "dynamic" and "longrope" reckon with.
        trained_len: config.json's max_position_embeddings.
        parameters: config.json's rope_parameters (rope_scaling in older files).
    """

    rotary_dim: int
    base: float
    context_len: int
    trained_len: int
    scaling: str = "default"
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, config: dict[str, Any], head_dim: int, context_len: int | None = None) -> RopeConfig:
        """Read old files (rope_theta, rope_scaling) and new ones (rope_parameters) alike.

        Raises:
            BadArgumentError: a scaling that is not one of the six, or lacks a parameter.
        """
        given = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
        scaling = str(given.get("rope_type", given.get("type", "default")))
        if scaling not in SCALINGS:
            remedy = "Check rope_parameters in config.json."
            raise BadArgumentError("rope_type", " or ".join(SCALINGS), repr(scaling), remedy)
        trained = int(config.get("max_position_embeddings", 2048))
        given.setdefault("original_max_position_embeddings", config.get("original_max_position_embeddings", trained))
        for name in _NEEDED.get(scaling, ()):
            if given.get(name) is None:
                raise BadArgumentError(f"rope_parameters.{name}", f"a value for {scaling}", None, "Add it.")
        base = given.get("rope_theta", config.get("rope_theta", 10000.0))
        partial = given.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
        return cls(int(head_dim * partial), float(base), context_len or trained, trained, scaling, given)

    def frequencies(self) -> tuple[torch.Tensor, float]:
        """Radians per position, float32 [rotary_dim / 2], and the factor of cos and sin."""
        return SCALINGS[self.scaling](self)


def yarn_get_mscale(scale: float, mscale: float = 1.0) -> float:
    """YaRN's temperature for a context stretched `scale` times: 0.1 · mscale · ln(scale) + 1, and 1 below 1.

    DeepSeek multiplies its softmax scale with the square of it (mscale_all_dim), besides what cos and sin have.
    """
    return 1.0 if scale <= 1 else 0.1 * mscale * math.log(scale) + 1.0


def _powers(rope: RopeConfig, base: float | None = None) -> torch.Tensor:
    exponents = torch.arange(0, rope.rotary_dim, 2, dtype=torch.int64, device="cpu").float() / rope.rotary_dim
    return ((base or rope.base) ** exponents).float()


def _default(rope: RopeConfig) -> tuple[torch.Tensor, float]:
    return 1.0 / _powers(rope), 1.0


def _linear(rope: RopeConfig) -> tuple[torch.Tensor, float]:
    return 1.0 / _powers(rope) / rope.parameters["factor"], 1.0


def _dynamic(rope: RopeConfig) -> tuple[torch.Tensor, float]:
    """NTK-aware: a larger base for a context beyond the trained one; no change up to it."""
    factor, longest = rope.parameters["factor"], max(rope.context_len, rope.trained_len)
    stretch = factor * longest / rope.trained_len - (factor - 1)
    return 1.0 / _powers(rope, rope.base * stretch ** (rope.rotary_dim / (rope.rotary_dim - 2))), 1.0


def _llama3(rope: RopeConfig) -> tuple[torch.Tensor, float]:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended."""
    given, plain = rope.parameters, 1.0 / _powers(rope)
    trained, low, high = (
        given[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    turns = trained * plain / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return plain * (kept + (1 - kept) / given["factor"]), 1.0


def _yarn(rope: RopeConfig) -> tuple[torch.Tensor, float]:
    """Dims that turn often within the trained context are kept, slow ones interpolated, those between blended."""
    given, dim = rope.parameters, rope.rotary_dim
    trained = given["original_max_position_embeddings"]
    factor = given.get("factor") or rope.trained_len / trained

    def dim_of(rotations: float) -> float:
        """The dim that makes so many turns over the trained context."""
        return dim * math.log(trained / (rotations * 2 * math.pi)) / (2 * math.log(rope.base))

    low, high = dim_of(given.get("beta_fast") or 32), dim_of(given.get("beta_slow") or 1)
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    steps = torch.arange(dim // 2, dtype=torch.float32, device="cpu")
    interpolated = ((steps - low) / (high - low if high != low else 0.001)).clamp(0, 1)
    powers = _powers(rope)
    frequencies = interpolated / (factor * powers) + (1 - interpolated) / powers
    return frequencies, _yarn_attention_factor(given, factor)


def _yarn_attention_factor(given: dict[str, Any], factor: float) -> float:
    if given.get("attention_factor") is not None:
        return float(given["attention_factor"])
    mscale, all_dim = given.get("mscale"), given.get("mscale_all_dim")
    if mscale and all_dim:
        return yarn_get_mscale(factor, mscale) / yarn_get_mscale(factor, all_dim)
    return yarn_get_mscale(factor)


def _longrope(rope: RopeConfig) -> tuple[torch.Tensor, float]:
    """Each frequency has a factor of its own, for contexts up to the original one and for longer ones."""
    given = rope.parameters
    trained = given["original_max_position_embeddings"]
    factors = given["long_factor"] if rope.context_len > trained else given["short_factor"]
    factor = given.get("factor") or rope.trained_len / trained
    attention_factor = given.get("attention_factor")
    if attention_factor is None:
        attention_factor = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    scale = torch.tensor(factors, dtype=torch.float32, device="cpu")
    return 1.0 / (scale * _powers(rope)), float(attention_factor)


SCALINGS: dict[str, Callable[[RopeConfig], tuple[torch.Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
_NEEDED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
}
