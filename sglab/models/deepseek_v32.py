"""DeepSeek-V3.2: DeepSeek-V3 that attends to the tokens its indexer chooses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.engine import ForwardBatch, ModelConfig
from sglab.layers import RotaryEmbedding, TensorParallel
from sglab.layers.indexer import Indexer
from sglab.models.deepseek import DeepseekAttention, DeepseekConfig, DeepseekV2ForCausalLM, DeepseekV3Config


@dataclass
class DeepseekV32Config(DeepseekV3Config):
    index_topk: int = 2048
    index_head_dim: int = 128
    index_n_heads: int = 64


class DeepseekV32Attention(DeepseekAttention):
    def __init__(self, config: DeepseekConfig, layer_id: int, rotary: RotaryEmbedding, tp: TensorParallel) -> None:
        super().__init__(config, layer_id, rotary, tp)
        assert isinstance(config, DeepseekV32Config)
        assert config.q_lora_rank is not None
        self.indexer = Indexer(
            config.hidden_size,
            config.q_lora_rank,
            config.index_n_heads,
            config.index_head_dim,
            config.index_topk,
            RotaryEmbedding(config.rope),
        )

    def topk_indices(
        self, positions: torch.Tensor, x: torch.Tensor, low_rank: torch.Tensor, forward_batch: ForwardBatch
    ) -> torch.Tensor | None:
        return self.indexer(positions, x, low_rank, self.mla.attn.shape, forward_batch)


class DeepseekV32ForCausalLM(DeepseekV2ForCausalLM):
    config_class = DeepseekV32Config
    config: DeepseekV32Config
    attention_class = DeepseekV32Attention

    def attention_config(self) -> ModelConfig:
        c = self.config
        return replace(super().attention_config(), index_head_dim=c.index_head_dim, index_topk=c.index_topk)
