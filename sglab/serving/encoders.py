"""Models with an encoder in the engine.

Its tokens come first in a request's row and are encoded in the pass that prefills the request
(`engine/batch/encoders.py`). Their prefixes are not shared: what an encoder says of a token depends on all of them.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.attention import AttentionBackend
from sglab.attention.capabilities import Demand, unserved
from sglab.attention.registry import capabilities_by_name
from sglab.engine import ForwardMode
from sglab.engine.errors import BadArgumentError
from sglab.layers import RadixAttention
from sglab.models import CausalLM
from sglab.serving.config import EngineConfig

GPU_BACKENDS = ("flashinfer", "triton")
"""For "auto", the best first: both have cross-attention, in captured decodes, too."""


def has_encoder(model: CausalLM) -> bool:
    """Whether prompts go to an encoder."""
    return hasattr(model, "encode")


def encoder_context(model: CausalLM) -> int:
    """Tokens that the encoder can read."""
    return model.config.max_position_embeddings if has_encoder(model) else 0


def encoder_options(config: EngineConfig, model: CausalLM) -> EngineConfig:
    """The options for a model with an encoder: prompts are not cut, and "auto" is a backend that has cross-attention.

    Raises:
        BadArgumentError: an option that knows nothing of encoders.
    """
    unknown = {
        "enable_piecewise_cuda_graph": "An encoder's pass depends on the length of each prompt.",
        "enable_hierarchical_cache": "What an encoder says of a prefix depends on all that follows it: none is kept.",
        "speculative_algorithm": "Drafts are not verified beside an encoder.",
        "enable_two_batch_overlap": "An encoder's pass is not cut in two.",
    }
    for name, why in unknown.items():
        if getattr(config, name):
            expected = "its default with a model that has an encoder"
            raise BadArgumentError(name, expected, getattr(config, name), f"{why} Leave it out.")
    backend = config.attention_backend
    if backend == "auto" and model.device.type == "cuda":
        demand = Demand(kind="mha", dtype=model.dtype, layer=cross_layer(model).shape)
        served = capabilities_by_name("mha")
        backend = next(name for name in GPU_BACKENDS if unserved(served[name], demand) is None)
    return replace(config, attention_backend=backend, chunked_prefill_size=-1)


def cross_layer(model: CausalLM) -> RadixAttention:
    """A layer that attends to the encoder."""
    layers = (each for each in model.modules() if isinstance(each, RadixAttention))
    return next(each for each in layers if each.shape.is_cross_attention)


def refuse_cross_attention(model: CausalLM, backend: AttentionBackend) -> None:
    """Refuse at once what the first pass would refuse.

    Raises:
        UnsupportedError: the backend has no cross-attention.
    """
    if has_encoder(model):
        lens = torch.ones(1, dtype=torch.int64)
        layer = cross_layer(model).shape
        backend.refuse_unserved(Demand(mode=ForwardMode.DECODE, dtype=model.dtype, layer=layer, encoder_lens=lens))


def decoder_start(model: CausalLM) -> int:
    """The token that a decoder begins with."""
    config = model.config
    assert hasattr(config, "decoder_start_token_id")
    return config.decoder_start_token_id


def check_positions(model: CausalLM, source: list[int], begin: list[int]) -> None:
    """Refuse what has no positions in the model.

    Raises:
        BadArgumentError: nothing, or more than the encoder or the decoder can read.
    """
    context = encoder_context(model)
    for name, tokens, most in (("prompt", source, context), ("decoder_prompt", begin, context - 1)):
        if not 0 < len(tokens) <= most:
            raise BadArgumentError(name, f"1..{most} tokens", len(tokens), "The model has no more positions.")
