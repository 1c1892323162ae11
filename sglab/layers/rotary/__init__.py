"""Rotary position embeddings: `scaling` (frequencies, by the name a config.json gives), `embedding` (applying them)."""

from sglab.layers.rotary.embedding import RotaryEmbedding, rotate
from sglab.layers.rotary.scaling import RopeConfig, yarn_get_mscale

__all__ = ["RopeConfig", "RotaryEmbedding", "rotate", "yarn_get_mscale"]
