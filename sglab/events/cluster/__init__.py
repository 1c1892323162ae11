"""One cluster of a recorded launch, as columns: its waits, states, operations, copies and pipelines."""

from sglab.events.cluster.columns import ACTIONS
from sglab.events.cluster.operations import KINDS, Operations
from sglab.events.cluster.trace import ClusterTrace

__all__ = ["ACTIONS", "KINDS", "ClusterTrace", "Operations"]
