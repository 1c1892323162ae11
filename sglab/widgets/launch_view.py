"""What the widgets of recorded launches have in common: which cluster is shown, and its tensors."""

from __future__ import annotations

from typing import Any

import traitlets

from sglab.gpu.event_tables import CLUSTER, MBARRIER, WAIT_KINDS
from sglab.gpu.events import EventLog
from sglab.gpu.session import Session

from .base import Widget, command
from .launch_code import code_table
from .launch_operations import KINDS, operations
from .launch_pipelines import names, pipelines, uses
from .launch_roles import warp_roles
from .launch_trace import ACTIONS, ClusterTrace, cluster_count

ISSUE_ORDER = (
    "The emulator ran this launch and kept every warp-instruction. The axis is the order in which they were executed: "
    "one step is one instruction of one warp, not time."
)


class LaunchWidget(Widget):
    """Base of the widgets that show one cluster of a recorded launch."""

    title = ""

    launch = traitlets.Dict(help="geometry, rows, names: see `_launch`").tag(sync=True)

    def __init__(self, launch: EventLog | Session, cluster: int = 0) -> None:
        super().__init__()
        if isinstance(launch, Session):
            launch = launch.record()
        if not isinstance(launch, EventLog):
            raise TypeError(f"launch must be what Kernel.record or Kernel.session returns; got {type(launch).__name__}")
        self.recording = launch
        self.show(cluster)

    @command
    def show(self, cluster: int) -> int:
        """Shows another cluster of the grid; returns the revision that does."""
        count = cluster_count(self.recording.geometry.grid, self.recording.geometry.cluster)
        if isinstance(cluster, bool) or not isinstance(cluster, int) or not 0 <= cluster < count:
            raise ValueError(f"cluster: expected an integer from 0 to {count - 1}, got {cluster!r}")
        trace = ClusterTrace(self.recording, cluster)
        self.publish(_tensors(trace), launch=_launch(trace), header=self._header(trace))
        return self.revision

    def _header(self, trace: ClusterTrace) -> dict[str, Any]:
        geometry = self.recording.geometry
        grid, block = "×".join(map(str, geometry.grid)), geometry.block
        ctas = ", ".join(map(str, trace.ctas))
        subject = (
            f"{self.recording.kernel} · grid {grid}, {block[0] * block[1] * block[2]} threads · CTA {ctas} · "
            f"{len(trace.positions):,} warp-instructions"
        )
        return {
            "title": self.title,
            "subject": subject,
            "badge": {"text": "emulated · issue order", "title": ISSUE_ORDER},
        }


def _tensors(trace: ClusterTrace) -> dict[str, Any]:
    return {
        "events": trace.events(),
        "waits": trace.waits(),
        "phases": trace.phases(),
        "states": trace.states(),
        "actions": trace.actions(),
        "operations": operations(trace),
        "code": code_table(trace.log.code, trace.log.pc[trace.positions]),
    }


def _launch(trace: ClusterTrace) -> dict[str, Any]:
    """What the page knows of the launch besides its tensors."""
    log, barriers = trace.log, trace.barriers
    roles = warp_roles(trace)
    used = uses(trace, roles)
    found = pipelines(trace, used)
    return {
        "kernel": log.kernel,
        "length": len(log),
        "cluster": trace.cluster,
        "clusters": cluster_count(log.geometry.grid, log.geometry.cluster),
        "ctas": trace.ctas,
        "warps": trace.warps,
        "roles": roles,
        "waitKinds": list(WAIT_KINDS),
        "operationKinds": list(KINDS),
        "actions": list(ACTIONS),
        "barriers": [
            {
                "kind": {MBARRIER: "mbarrier", CLUSTER: "cluster"}.get(kind, "named"),
                "rank": rank,
                "object": number,
                "name": name,
            }
            for kind, rank, number, name in zip(
                barriers.kind.tolist(),
                barriers.rank.tolist(),
                barriers.object.tolist(),
                names(trace, used, found, roles),
                strict=True,
            )
        ],
        "pipelines": [
            {
                "name": each.name,
                "rank": each.rank,
                "producers": list(each.producers),
                "consumers": list(each.consumers),
                "full": list(each.full),
                "empty": list(each.empty),
            }
            for each in found
            if each.full
        ],
    }
