"""Serving: a model, its worker, sampling and the loop that drives the scheduler. `Engine` is the way in."""

from sglab.serving.config import EngineConfig
from sglab.serving.engine import Engine
from sglab.serving.graph_log import GraphLog, RecordedReplay, probe_stale_pointer
from sglab.serving.hooks import register_forward_hooks
from sglab.serving.output import Delta, Handle, Output, RequestAbortedError
from sglab.serving.sampler import Sampler
from sglab.serving.worker import ModelWorker

__all__ = [
    "Delta",
    "Engine",
    "EngineConfig",
    "GraphLog",
    "Handle",
    "ModelWorker",
    "Output",
    "RecordedReplay",
    "RequestAbortedError",
    "Sampler",
    "probe_stale_pointer",
    "register_forward_hooks",
]
