"""The event log of a launch, and what is read from it: roles, barriers, tiles, one cluster at a time, modelled time.

log = kernel.record(device, grid=(2, 8), args=[...])   # or session.log
log.roles, log.mmas, log.copies, log.timed("sm_90a")
cluster = log.cluster(0)
cluster.pipelines(), cluster.operations(), cluster.states()
log.tensor_memory([0, 1]).writers(position), log.shared_memory(0).touching(offset)
"""

from sglab.events.async_groups import AsyncPipeline, async_groups
from sglab.events.cluster.trace import ClusterTrace
from sglab.events.log import EventLog
from sglab.events.perfetto import save_perfetto
from sglab.events.roles import Role, Roles
from sglab.events.shared_memory import SharedMemoryTrace
from sglab.events.tensor_memory import TensorMemoryTrace
from sglab.events.tile import Tile
from sglab.events.timing import TimedLog

__all__ = [
    "AsyncPipeline",
    "ClusterTrace",
    "EventLog",
    "Role",
    "Roles",
    "SharedMemoryTrace",
    "TensorMemoryTrace",
    "Tile",
    "TimedLog",
    "async_groups",
    "save_perfetto",
]
