"""Small models with random weights, and the greedy tokens of a request alone, by full recomputation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from sglab.models import CausalLM, from_config

VOCAB = 64
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}


@lru_cache(maxsize=4)
def tiny_llama(seed: int = 0, **changes: Any) -> CausalLM:
    """Weights spread so far that greedy tokens vary and the two best logits are well apart."""
    model = from_config({**CONFIG, **changes}, "float32", "cpu", seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter *= 10 if "lm_head" in name else 8
    return model


def prompts(count: int, longest: int = 40, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(0, VOCAB, (n,), generator=generator).tolist() for n in lengths]
