"""LinearStatePool: what linear-attention layers keep per request instead of a growing KV cache.

One row per request, the row that it has in ReqToTokenPool. A row's former contents are no one's: a layer starts a
request whose prefix is empty from zeros. States are of a whole prefix, so a radix tree cannot share them.
Source: SGLang `mem_cache/memory_pool.py`, MambaPool.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.engine import arguments


@dataclass(frozen=True)
class StateConfig:
    """The state of a model's linear-attention layers, of one rank.

    Attributes:
        layer_num: how many layers have one.
        conv_shape: (channels, width - 1): the inputs that a causal convolution still needs.
        temporal_shape: (heads, rows, columns) of the recurrent state.
    """

    layer_num: int
    conv_shape: tuple[int, int]
    temporal_shape: tuple[int, int, int]


class LinearStatePool:
    """Rows 0 .. size - 1 belong to requests; row `size` is the dummy that a graph's padded rows share.

    Attributes:
        conv: [layers, size + 1, channels, width - 1] in the model's dtype.
        temporal: float32 [layers, size + 1, heads, rows, columns].
    """

    def __init__(self, config: StateConfig, size: int, dtype: torch.dtype, device: str | torch.device = "cpu") -> None:
        arguments.integer("size", size, 1)
        self.config, self.size = config, size
        rows = (config.layer_num, size + 1)
        self.conv = torch.zeros((*rows, *config.conv_shape), dtype=dtype, device=device)
        self.temporal = torch.zeros((*rows, *config.temporal_shape), dtype=torch.float32, device=device)
