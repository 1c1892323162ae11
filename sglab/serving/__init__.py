"""Serving: a model, its worker, sampling and the loop that drives the scheduler. `Engine` is the way in."""

from sglab.serving.config import EngineConfig
from sglab.serving.engine import Engine, RequestAbortedError
from sglab.serving.hooks import register_forward_hooks
from sglab.serving.output import Delta, Handle, Output
from sglab.serving.sampler import Sampler
from sglab.serving.worker import ModelWorker

__all__ = [
    "Delta",
    "Engine",
    "EngineConfig",
    "Handle",
    "ModelWorker",
    "Output",
    "RequestAbortedError",
    "Sampler",
    "register_forward_hooks",
]
