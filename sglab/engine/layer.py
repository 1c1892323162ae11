"""RadixAttention: one attention layer's shape, as every backend reads it.

The layer that projects and calls the backend is built on this by the models; here it is the record alone.
Source: SGLang 0.5.9 `layers/radix_attention.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch

ScoreMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""score_mod(logits, q_pos, kv_pos, q_idx, head) -> logits: what a model adds to its attention logits, after scale and
cap, before the softmax. The positions in the request's text, the query's row of the batch and the head are integers
that broadcast to the logits (SGLang's Triton and FA4 take the same as a function of their own language)."""


class AttentionType(Enum):
    DECODER = "decoder"
    DECODER_BIDIRECTIONAL = "decoder_bidirectional"
    ENCODER_ONLY = "encoder_only"


@dataclass
class RadixAttention:
    """Heads (of this tensor-parallel rank), dims and softmax options of one layer.

    Absorbed MLA is multi-query attention: one KV head, head_dim 512 + 64, v_head_dim 512 (the model's own v_head_dim,
    128 in DeepSeek-V3, belongs to the projections outside).
    """

    tp_q_head_num: int
    tp_k_head_num: int
    head_dim: int
    scaling: float
    """Multiplies q . k before the softmax; natural units (no log2 e)."""
    layer_id: int = 0
    v_head_dim: int = -1
    """-1: the same as head_dim."""
    logit_cap: float = 0.0
    """0: none; else logits become cap * tanh(logit / cap)."""
    sliding_window_size: int = -1
    """-1: full attention; else a query at t sees keys t - window .. t (window + 1 of them)."""
    is_cross_attention: bool = False
    attn_type: AttentionType = AttentionType.DECODER
    """SGLang's names. Other than DECODER's, a layer's new tokens see all of their request, those after them, too."""
    xai_temperature_len: int = -1
    """-1: none; else the logits of a query at position t > len are multiplied by log2(t) / log2(len)."""
    use_irope: bool = False
    """Llama 4's layers with rotary positions: of a model with `attention_chunk_size` they see one chunk of the text."""
    k_scale: float | None = None
    """Of an FP8 KV pool: keys are divided by it when stored, logits multiplied by it. None: 1."""
    v_scale: float | None = None
    """The same for values and the output."""

    def __post_init__(self) -> None:
        if self.v_head_dim == -1:
            self.v_head_dim = self.head_dim

    @property
    def is_causal(self) -> bool:
        """Whether a token sees nothing that comes after it."""
        return self.attn_type is AttentionType.DECODER and not self.is_cross_attention

    @property
    def tp_v_head_num(self) -> int:
        return self.tp_k_head_num

    @property
    def qk_head_dim(self) -> int:
        return self.head_dim
