"""A gpt-oss of random weights, large enough for its softmax to be far from even."""

from __future__ import annotations

import torch

from sglab.models import CausalLM, from_config
from tests.support.gpt_oss import SHAPE


def gpt_oss(**shape: object) -> CausalLM:
    """Layer 0 has a window of 9 keys, layer 1 none; both have sinks."""
    config = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", **SHAPE, **shape}
    model, random = from_config(config, seed=3), torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if name.endswith("sinks"):
            parameter.copy_(torch.randn(parameter.shape, generator=random))
        elif parameter.dim() > 1 and parameter.is_floating_point():
            parameter.mul_(4)
    return model
