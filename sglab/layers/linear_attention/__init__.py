"""Layers whose cost does not grow with the context: a state per request (`sglab.engine.LinearStatePool`), read and
written by a recurrence."""

from sglab.layers.linear_attention.gated_deltanet import GatedDeltaNet

__all__ = ["GatedDeltaNet"]
