"""Bamba: layers of Mamba2 with a layer of attention here and there.

Source: the checkpoints' config.json and names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from sglab.engine import ModelConfig, StateConfig
from sglab.layers import RotaryEmbedding
from sglab.layers.linear_attention import Mamba2Mixer, Mamba2Shape
from sglab.models.causal_lm import CausalLM
from sglab.models.config import DecoderConfig
from sglab.models.llama import Decoder, DecoderLayer, LlamaAttention, LlamaMLP


@dataclass
class BambaConfig(DecoderConfig):
    attn_layer_indices: list[int] = field(default_factory=list)
    mamba_n_heads: int = 128
    mamba_d_head: int | str = "auto"
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_conv: int = 4
    mamba_expand: int = 2
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    time_step_limit: tuple[float, float] = (0.0, float("inf"))

    def complete(self, config: dict[str, Any]) -> None:
        super().complete({"partial_rotary_factor": 0.5, **config})
        # JSON has no infinity; files have {"__float__": "Infinity"} for it.
        low, high = (float(x["__float__"] if isinstance(x, dict) else x) for x in self.time_step_limit)
        self.time_step_limit = low, high

    @property
    def mamba(self) -> Mamba2Shape:
        head_dim = self.mamba_d_head
        return Mamba2Shape(
            self.mamba_n_heads,
            self.mamba_expand * self.hidden_size // self.mamba_n_heads if isinstance(head_dim, str) else head_dim,
            self.mamba_d_state,
            self.mamba_n_groups,
            self.mamba_d_conv,
            self.mamba_conv_bias,
            self.mamba_proj_bias,
            self.time_step_limit,
        )

    def number(self, layer: int) -> int:
        """A layer's number among those of its kind."""
        attending = [one in self.attn_layer_indices for one in range(layer + 1)]
        return attending[:-1].count(attending[-1])


class BambaForCausalLM(CausalLM):
    config_class = BambaConfig
    config: BambaConfig
    stacked = {  # noqa: RUF012  (a ClassVar of the base class)
        **CausalLM.stacked,
        "mamba": ("self_attn", None),
        "feed_forward": ("mlp", None),
        "pre_ff_layernorm": ("post_attention_layernorm", None),
        "final_layernorm": ("norm", None),
    }

    def make_decoder(self) -> nn.Module:
        config, tp = self.config, self.tp
        rotary = RotaryEmbedding(config.rope)

        def layer(i: int) -> nn.Module:
            mixer: nn.Module
            if i in config.attn_layer_indices:
                mixer = LlamaAttention(config, config.number(i), rotary, tp)
            else:
                mixer = Mamba2Mixer(config.hidden_size, config.mamba, config.rms_norm_eps, config.number(i), tp)
            mlp = LlamaMLP(config.hidden_size, config.intermediate_size, tp, config.mlp_bias)
            return DecoderLayer(config, mixer, mlp)

        return Decoder(config, tp, layer)

    def attention_config(self) -> ModelConfig:
        return replace(super().attention_config(), num_hidden_layers=len(self.config.attn_layer_indices))

    def state_config(self) -> StateConfig:
        layers = self.config.num_hidden_layers - len(self.config.attn_layer_indices)
        return self.config.mamba.state_config(layers, self.tp)
