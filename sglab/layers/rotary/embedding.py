"""RotaryEmbedding: pairs of dims of a query or key, turned by an angle that grows with the position."""

from __future__ import annotations

import torch
from torch import nn

from sglab.kernels import apply_rope_with_cos_sin_cache_inplace
from sglab.layers.rotary.scaling import RopeConfig


class RotaryEmbedding(nn.Module):
    """Turns q and k at their positions. Source: SGLang `layers/rotary_embedding.py`.

    Args:
        is_neox_style: pairs are (i, i + rotary_dim / 2), as in Llama; else (2 i, 2 i + 1), GPT-J's way and DeepSeek's.

    Attributes:
        cos_sin_cache: float32 [context_len, rotary_dim], the cosines and then the sines of every position.
    """

    cos_sin_cache: torch.Tensor

    def __init__(self, rope: RopeConfig, is_neox_style: bool = True, device: torch.device | None = None) -> None:
        super().__init__()
        self.rotary_dim, self.is_neox_style = rope.rotary_dim, is_neox_style
        frequencies, factor = rope.frequencies()
        angles = torch.arange(rope.context_len, dtype=torch.float32, device="cpu")[:, None] * frequencies
        table = torch.cat((angles.cos() * factor, angles.sin() * factor), -1)
        self.register_buffer("cos_sin_cache", table.to(device or torch.get_default_device()), persistent=False)

    def forward(self, positions: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """q and k [tokens, heads, head_dim] at int64 [tokens] -> the same shapes; dims beyond rotary_dim pass.

        On a GPU they are turned in place, by one kernel.
        """
        if q.is_cuda:
            apply_rope_with_cos_sin_cache_inplace(positions, q, k, self.cos_sin_cache, self.is_neox_style)
            return q, k
        cos, sin = self.cos_sin_cache[positions][:, None].chunk(2, -1)
        if len(q) != 1 or q.dtype != k.dtype:
            return self._turn(q, cos, sin), self._turn(k, cos, sin)
        turned = self._turn(torch.cat((q, k), 1), cos, sin)  # of one token the start of an operation is its cost
        return turned[:, : q.shape[1]], turned[:, q.shape[1] :]

    def _turn(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] == self.rotary_dim:
            return rotate(x, cos, sin, self.is_neox_style)
        turned, passed = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        return torch.cat((rotate(turned, cos, sin, self.is_neox_style), passed), -1)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, is_neox_style: bool) -> torch.Tensor:
    """(a, b) -> (a · cos - b · sin, b · cos + a · sin) for each pair of x's last dimension, in float32.

    Args:
        x: [..., rotary_dim].
        cos, sin: float32, broadcast to [..., rotary_dim / 2].
    """
    wide = x.float()
    a, b = wide.chunk(2, -1) if is_neox_style else (wide[..., 0::2], wide[..., 1::2])
    turned = (a * cos - b * sin, b * cos + a * sin)
    joined = torch.cat(turned, -1) if is_neox_style else torch.stack(turned, -1).flatten(-2)
    return joined.to(x.dtype)
