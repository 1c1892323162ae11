"""Layers whose cost does not grow with the context: a state per request (`sglab.engine.LinearStatePool`), read and
written by a recurrence."""

from sglab.layers.linear_attention.gated_deltanet import GatedDeltaNet
from sglab.layers.linear_attention.mamba2 import Mamba2Mixer, Mamba2Shape

__all__ = ["GatedDeltaNet", "Mamba2Mixer", "Mamba2Shape"]
