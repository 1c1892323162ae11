"""Graphs of launches: what a CUDA graph is, on a CPU. A graph keeps the addresses that its launches had when they were
recorded; replaying it runs them again on whatever lies there."""

from sglab.engine.graphs.input_buffers import GraphInputBuffers
from sglab.engine.graphs.launch_list import LaunchList
from sglab.engine.graphs.recorded_graph import (
    GraphCaptureError,
    Launch,
    RecordedGraph,
    StalePointerError,
    as_launch,
)

__all__ = [
    "GraphCaptureError",
    "GraphInputBuffers",
    "Launch",
    "LaunchList",
    "RecordedGraph",
    "StalePointerError",
    "as_launch",
]
