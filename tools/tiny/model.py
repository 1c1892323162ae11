"""The tiny model for training: DeepSeek-V3's architecture in plain torch, under its checkpoint's names.

It shares no code with what serves it; `tests/models/test_tiny.py` holds the two against each other. All experts are
computed on every token, and weighted with 0 where it was not routed to them: two large products, not many small ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

CONFIG: dict[str, Any] = json.loads((Path(__file__).parent / "config.json").read_text("utf-8"))


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x.float(), self.weight.shape, self.weight.float(), CONFIG["rms_norm_eps"]).to(
            x.dtype
        )


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (2 i, 2 i + 1) of x's last dimension; cos and sin are [tokens, pairs]."""
    pairs = x.float().unflatten(-1, (-1, 2))
    first, second = pairs[..., 0], pairs[..., 1]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.nope, self.rope = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        self.rank, self.v = c["kv_lora_rank"], c["v_head_dim"]
        self.q_proj = linear(c["hidden_size"], self.heads * (self.nope + self.rope))
        self.kv_a_proj_with_mqa = linear(c["hidden_size"], self.rank + self.rope)
        self.kv_a_layernorm = RMSNorm(self.rank)
        self.kv_b_proj = linear(self.rank, self.heads * (self.nope + self.v))
        self.o_proj = linear(self.heads * self.v, c["hidden_size"])

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q = self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], -1)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([self.rank, self.rope], -1)
        expanded = self.kv_b_proj(self.kv_a_layernorm(latent)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k_nope, v = expanded.split([self.nope, self.v], -1)
        k_rope = turn(k_rope[:, None], cos, sin).expand(-1, self.heads, -1, -1)
        q, k = torch.cat((q_nope, turn(q_rope, cos, sin)), -1), torch.cat((k_nope, k_rope), -1)
        v = functional.pad(v, (0, k.shape[-1] - self.v))  # equal dims, for the fused kernels
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)[..., : self.v]
        return self.o_proj(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = linear(hidden, intermediate), linear(hidden, intermediate)
        self.down_proj = linear(intermediate, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Gate(nn.Module):
    """Sigmoid scores in groups; a bias that keeps the loads even, and is not trained by gradients, only chooses."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.c = c
        self.weight = nn.Parameter(torch.empty(c["n_routed_experts"], c["hidden_size"]))
        self.register_buffer("e_score_correction_bias", torch.zeros(c["n_routed_experts"]))
        self.register_buffer("load", torch.zeros(c["n_routed_experts"]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., hidden] -> weights [.., experts], 0 where not routed."""
        c, scores = self.c, functional.linear(x.float(), self.weight.float()).sigmoid()
        with torch.no_grad():
            choice = scores + self.e_score_correction_bias
            groups = choice.unflatten(-1, (c["n_group"], -1))
            best = groups.topk(2, -1).values.sum(-1).topk(c["topk_group"], -1).indices
            kept = torch.zeros(groups.shape[:-1], dtype=torch.bool, device=x.device).scatter(-1, best, True)
            choice = groups.masked_fill(~kept[..., None], float("-inf")).flatten(-2)
            chosen = torch.zeros_like(scores).scatter(-1, choice.topk(c["num_experts_per_tok"], -1).indices, 1.0)
            if self.training:
                self.load += chosen.flatten(0, -2).sum(0)
        weights = scores * chosen
        return weights / (weights.sum(-1, keepdim=True) + 1e-20) * c["routed_scaling_factor"]

    @torch.no_grad()
    def balance(self, rate: float) -> None:
        """Raise the bias of experts that got less than their share since the last call, and lower the others'."""
        self.e_score_correction_bias += rate * (self.load.mean() - self.load).sign()
        self.load.zero_()


class MoE(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        experts, hidden, size = c["n_routed_experts"], c["hidden_size"], c["moe_intermediate_size"]
        self.gate = Gate(c)
        self.gate_up = nn.Parameter(torch.empty(2, experts, size, hidden))
        self.down = nn.Parameter(torch.empty(experts, size, hidden))
        self.shared_experts = MLP(hidden, c["n_shared_experts"] * size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x)
        gate, up = functional.linear(x, self.gate_up.flatten(0, 2)).unflatten(-1, (2, *self.down.shape[:2])).unbind(-3)
        y = functional.silu(gate) * up * weights[..., None].to(x.dtype)
        return functional.linear(y.flatten(-2), self.down.flatten(0, 1).T) + self.shared_experts(x)


class Layer(nn.Module):
    def __init__(self, c: dict[str, Any], number: int) -> None:
        super().__init__()
        self.self_attn = Attention(c)
        dense = number < c["first_k_dense_replace"]
        self.mlp = MLP(c["hidden_size"], c["intermediate_size"]) if dense else MoE(c)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(c["hidden_size"]), RMSNorm(c["hidden_size"])

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class TinyModel(nn.Module):
    """forward(ids [batch, tokens]) -> logits float32 [batch, tokens, vocab]."""

    def __init__(self, c: dict[str, Any] = CONFIG) -> None:
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"])
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                last = name.endswith(("o_proj.weight", "down_proj.weight", ".down"))
                fan_in = c["hidden_size"] if "embed" in name else parameter.shape[-1]
                nn.init.normal_(parameter, std=fan_in**-0.5 * (0.3 if last else 1.0))
        nn.init.normal_(self.embed_tokens.weight, std=0.05)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        dim = self.c["qk_rope_head_dim"]
        powers = torch.arange(0, dim, 2, device=ids.device).float() / dim
        angles = torch.arange(ids.shape[1], device=ids.device).float()[:, None] / self.c["rope_theta"] ** powers
        x, cos, sin = self.embed_tokens(ids), angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.norm(x), self.embed_tokens.weight).float()


def checkpoint(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state_dict of TinyModel under Hugging Face's names: one matrix per expert, in bfloat16."""
    named: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        head, _, last = f"model.{name}".rpartition(".")
        if last == "gate_up":
            for part, experts in zip(("gate_proj", "up_proj"), tensor, strict=True):
                named.update({f"{head}.experts.{i}.{part}.weight": one for i, one in enumerate(experts)})
        elif last == "down":
            named.update({f"{head}.experts.{i}.down_proj.weight": one.T for i, one in enumerate(tensor)})
        else:
            named[f"{head}.{last}"] = tensor
    keep = "e_score_correction_bias"
    return {
        name: (tensor.float() if name.endswith(keep) else tensor.bfloat16()).contiguous().cpu()
        for name, tensor in named.items()
    }
