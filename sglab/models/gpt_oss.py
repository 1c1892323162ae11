"""gpt-oss: alternating sliding windows, a sink per head, biased experts whose weights may be MXFP4.

Source: the checkpoints' config.json and names; SGLang `models/gpt_oss.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from sglab.engine import BadArgumentError, ForwardBatch
from sglab.kernels import fused_experts
from sglab.kernels.formats.microscaling import MX_BLOCK
from sglab.kernels.fused_moe import ExpertQuantization, mxfp4_experts
from sglab.layers import ReplicatedLinear, RotaryEmbedding, TensorParallel, WeightError
from sglab.layers.loading import Shard, copy_into, sharded
from sglab.layers.moe import RoutedExperts, Routing, TopK
from sglab.models.causal_lm import QKV, CausalLM
from sglab.models.config import DecoderConfig
from sglab.models.llama import Decoder, DecoderLayer, LlamaAttention


@dataclass
class GptOssConfig(DecoderConfig):
    aliases = {"num_experts": "num_local_experts"}  # noqa: RUF012  (a ClassVar of the base class)

    num_local_experts: int = 128
    num_experts_per_tok: int = 4
    sliding_window: int = 128
    """Keys that a token of a windowed layer sees, itself among them."""
    layer_types: list[str] = field(default_factory=list)
    swiglu_limit: float = 7.0
    attention_bias: bool = True

    def complete(self, config: dict[str, Any]) -> None:
        super().complete(config)
        kinds = ("sliding_attention", "full_attention")
        self.layer_types = self.layer_types or [kinds[i % 2] for i in range(self.num_hidden_layers)]
        if self.swiglu_limit != 7.0:
            remedy = "The experts' kernel has gpt-oss's own limit."
            raise BadArgumentError("config.json: swiglu_limit", "7.0", self.swiglu_limit, remedy)


class GptOssAttention(LlamaAttention):
    def __init__(self, config: GptOssConfig, layer_id: int, rotary: RotaryEmbedding, tp: TensorParallel) -> None:
        super().__init__(config, layer_id, rotary, tp)
        if config.layer_types[layer_id] == "sliding_attention":
            self.attn.shape.sliding_window_size = config.sliding_window - 1  # keys before the token itself
        self.sinks = sharded(torch.empty(self.qkv_proj.num_heads), partial(tp.attention.shard, dim=0))

    def forward(self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        return self.o_proj(self.attend(positions, x, forward_batch, self.sinks))


class GptOssExperts(RoutedExperts):
    """All experts' matrices in four tensors; gate and up alternate row by row. This rank's slice of every expert.

    Attributes:
        w13, w13_bias: [experts, 2 · intermediate / tp, hidden] and without the last.
        w2, w2_bias: [experts, hidden, intermediate / tp] and without the last.
        scales: of a checkpoint in MXFP4, whose w13 and w2 are bytes of two values each; by name.
    """

    def __init__(self, config: GptOssConfig, tp: TensorParallel) -> None:
        super().__init__()
        experts, hidden = config.num_local_experts, config.hidden_size
        size = tp.divide("intermediate_size", config.intermediate_size)
        self.tp, self.inner = tp, config.intermediate_size
        self.w13 = nn.Parameter(torch.empty(experts, 2 * size, hidden), requires_grad=False)
        self.w13_bias = nn.Parameter(torch.zeros(experts, 2 * size), requires_grad=False)
        self.w2 = nn.Parameter(torch.empty(experts, hidden, size), requires_grad=False)
        self.w2_bias = nn.Parameter(torch.zeros(experts, hidden), requires_grad=False)
        self.scales: dict[str, torch.Tensor] = {}

    @property
    def quantization(self) -> ExpertQuantization | None:
        return mxfp4_experts(self.scales["gate_up"], self.scales["down"]) if self.scales else None

    def forward(self, x: torch.Tensor, routing: Routing) -> torch.Tensor:
        self.routing = routing
        return fused_experts(
            x,
            self.w13,
            self.w2,
            routing.weights,
            routing.ids,
            w1_bias=self.w13_bias,
            w2_bias=self.w2_bias if self.tp.rank == 0 else None,
            activation="swiglu_oai",
            quantization=self.quantization,
            check_values=False,
        )

    def weight_keys(self) -> list[str]:
        return ["gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"]

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        """Whole matrices [experts, in, out], or MXFP4's blocks and scales, which come one after the other."""
        name, _, kind = path.partition("_proj")
        if f"{name}_proj" not in self.weight_keys() or kind not in ("", "_bias", "_blocks", "_scales"):
            remedy = "Is this a gpt-oss checkpoint?"
            raise WeightError(f"experts.{path}", "one of " + ", ".join(self.weight_keys()), "another name", remedy)
        gate_up = name == "gate_up"
        if kind == "_bias":
            mine = self.tp.shard(tensor, 1) if gate_up else tensor
            copy_into(self.w13_bias if gate_up else self.w2_bias, mine, f"experts.{path}")
            return [path]
        label = f"experts.{path}"
        if kind == "":
            mine = self.tp.shard(tensor.transpose(1, 2), 1 if gate_up else 2)
            copy_into(self.w13 if gate_up else self.w2, mine, label)
            return [path]
        return self._load_mxfp4(name, kind, self.tp.shard(tensor, 1 if gate_up else 2), label)

    def _load_mxfp4(self, name: str, kind: str, mine: torch.Tensor, label: str) -> list[str]:
        """Keep blocks [experts, out, groups, 16] as bytes [experts, out, in / 2], or scales [experts, out, groups]."""
        experts, rows = len(self.w2), self.w2_bias.shape[1] if name == "down" else self.w13_bias.shape[1]
        groups = (
            self.tp.divide("intermediate_size", self.inner) if name == "down" else self.w2_bias.shape[1]
        ) // MX_BLOCK
        kept = mine.new_empty(experts, rows, groups * (1 if kind == "_scales" else 16), device=self.w2.device)
        copy_into(kept, mine.flatten(2), label)
        if kind == "_scales":
            self.scales[name] = kept
            return []
        setattr(self, "w2" if name == "down" else "w13", nn.Parameter(kept, requires_grad=False))
        return [f"{name}_proj"]

    def process_weights_after_loading(self) -> None:
        """Refuse blocks without scales.

        Raises:
            WeightError: a matrix has the one without the other.
        """
        for name, weight in (("gate_up", self.w13), ("down", self.w2)):
            if (weight.dtype == torch.uint8) != (name in self.scales):
                remedy = "The checkpoint is incomplete: fetch all of its *.safetensors files again."
                raise WeightError(f"experts.{name}_proj", "both blocks and scales", "one of them", remedy)


class GptOssMLP(nn.Module):
    def __init__(self, config: GptOssConfig, tp: TensorParallel) -> None:
        super().__init__()
        self.tp = tp
        self.router = ReplicatedLinear(config.hidden_size, config.num_local_experts, bias=True)
        self.topk = TopK(config.num_experts_per_tok)
        self.experts = GptOssExperts(config, tp)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tp.all_reduce(self.experts(x, self.topk(self.router(x))))


class GptOssForCausalLM(CausalLM):
    config_class = GptOssConfig
    config: GptOssConfig
    stacked = QKV

    def make_decoder(self) -> nn.Module:
        config, tp = self.config, self.tp
        rotary = RotaryEmbedding(config.rope)

        def layer(i: int) -> nn.Module:
            return DecoderLayer(config, GptOssAttention(config, i, rotary, tp), GptOssMLP(config, tp))

        return Decoder(config, tp, layer)
