"""Backends made of backends: one for prompts and one for decoding, micro-batches, models with linear attention."""

from sglab.attention.combined.hybrid import HybridAttnBackend
from sglab.attention.combined.hybrid_linear import HybridLinearAttnBackend, LinearAttnBackend
from sglab.attention.combined.tbo import TboAttnBackend
from sglab.attention.combined.wrapper import attn_backend_wrapper

__all__ = [
    "HybridAttnBackend",
    "HybridLinearAttnBackend",
    "LinearAttnBackend",
    "TboAttnBackend",
    "attn_backend_wrapper",
]
