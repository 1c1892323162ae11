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
from sglab.layers import ReplicatedLinear, RotaryEmbedding, TensorParallel, WeightError
from sglab.layers.loading import Shard, copy_into, sharded
from sglab.layers.moe import Routing, TopK
from sglab.layers.mxfp4 import dequantize_mxfp4
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
        self.sinks = sharded(torch.empty(self.qkv_proj.num_heads), partial(tp.shard, dim=0))

    def forward(self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        q, k, v = self.heads(x)
        q, k = self.rotary(positions, q, k)
        return self.o_proj(self.attn(q, k, v, forward_batch, sinks=self.sinks))


class GptOssExperts(nn.Module):
    """All experts' matrices in four tensors; gate and up alternate row by row. This rank's slice of every expert.

    Attributes:
        w13, w13_bias: [experts, 2 · intermediate / tp, hidden] and without the last.
        w2, w2_bias: [experts, hidden, intermediate / tp] and without the last.
    """

    routing: Routing | None = None

    def __init__(self, config: GptOssConfig, tp: TensorParallel) -> None:
        super().__init__()
        experts, hidden = config.num_local_experts, config.hidden_size
        size = tp.divide("intermediate_size", config.intermediate_size)
        self.tp = tp
        self.w13 = nn.Parameter(torch.empty(experts, 2 * size, hidden), requires_grad=False)
        self.w13_bias = nn.Parameter(torch.zeros(experts, 2 * size), requires_grad=False)
        self.w2 = nn.Parameter(torch.empty(experts, hidden, size), requires_grad=False)
        self.w2_bias = nn.Parameter(torch.zeros(experts, hidden), requires_grad=False)
        self._packed: dict[str, torch.Tensor] = {}

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
        weight = tensor.transpose(1, 2) if kind == "" else self._widened(name, kind, tensor)
        if weight is None:
            return []
        copy_into(self.w13 if gate_up else self.w2, self.tp.shard(weight, 1 if gate_up else 2), f"experts.{path}")
        return [f"{name}_proj"]

    def _widened(self, name: str, kind: str, tensor: torch.Tensor) -> torch.Tensor | None:
        """The matrix [experts, out, in] once both of its parts are there."""
        other = self._packed.pop(name, None)
        if other is None:
            self._packed[name] = tensor
            return None
        blocks, scales = (tensor, other) if kind == "_blocks" else (other, tensor)
        return dequantize_mxfp4(blocks, scales, self.w13.dtype)


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
