"""What the widgets of recorded launches have in common: which cluster is shown, and its tensors."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import traitlets

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.session import Session
from sglab.events.cast import LogCast
from sglab.events.cluster import ACTIONS, KINDS, ClusterTrace, Operations
from sglab.events.cluster.columns import readable
from sglab.events.cluster.pipelines import role_key
from sglab.events.log import EventLog
from sglab.events.modelled import modelled
from sglab.events.spins import Spin, spins
from sglab.events.tables import COPY_KINDS, WAIT_KINDS
from sglab.events.timing import TimedLog
from sglab.words import plural
from sglab.workbench import Batch
from sglab.workbench.recorders.page_reads import PageReads

from .base import Widget, command
from .changes import Versions
from .following import failed_at, failure_told, follow, launch_name, not_a_launch, run_again
from .launch_code import code_table

ISSUE_ORDER = (
    "The emulator ran this launch and kept every warp-instruction. The axis is the order in which they were executed: "
    "one step is one instruction of one warp, not time."
)


class LaunchWidget(Widget):
    """Base of the widgets that show one cluster of a recorded launch."""

    title = ""

    launch = traitlets.Dict(help="geometry, rows, names: see `_launch`").tag(sync=True)
    now = traitlets.Int(-1, help="where the session is; -1 without one").tag(sync=True)

    def __init__(
        self,
        launch: EventLog | Session | Capture | CapturedLaunch,
        cluster: int = 0,
        *,
        batch: Batch | None = None,
        arch: str | None = None,
    ) -> None:
        """

        Args:
            launch: what `sglab.trace`, `gpu.capture` or `Kernel.record` returns; or a session, which the widget then
                moves and follows. If its kernel fails, what happened until then is shown.
            cluster: which of the grid's clusters (CTA pairs, or CTAs where the launch has no clusters).
            batch: whose KV pool the launch reads: its copies then name pages and requests, and selecting those selects
                the CTAs that read them. What `sglab.trace` returns knows its batch.
            arch: whose modelled clock the reader may switch to: "sm_90" (H100), "sm_100" (B200); None takes the one
                that the PTX was compiled for, and where the model knows none, issue order is all there is.

        Raises:
            TypeError, ValueError: naming the argument.
        """
        if batch is not None and not isinstance(batch, Batch):
            raise TypeError(f"batch must be what sglab.decode_batch returns; got {type(batch).__name__}")
        super().__init__()
        if isinstance(launch, Capture):
            batch = launch.subject if batch is None else batch
        if isinstance(launch, Capture | CapturedLaunch):
            launch = launch.session()
        self._batch, self._arch = batch, arch
        self._begin(launch, cluster)

    def _begin(self, launch: Session | EventLog, cluster: int) -> None:
        self.session = launch if isinstance(launch, Session) else None
        self.recording = _recording(launch)
        self.launch_name = launch_name(self.recording.kernel, self.recording.geometry)
        self.timed = modelled(self.recording, self._arch)
        self._spins = spins(self.recording) if self.timed else []
        self.reads = None if self._batch is None else PageReads.of(self.recording, self._batch)
        self.show(cluster)
        if self.session:
            self._versions, self.outdated = Versions.of(self.session), ""
            self.now = self.session.now
            follow(self.session, self, LaunchWidget._session_moved, LaunchWidget._restarted)

    @command
    def run_again(self) -> str:
        """Begins the session again, on what its tensors hold now, and goes to where it was."""
        return super().run_again() if self.session is None else run_again(self.session)

    @command
    def seek(self, position: int) -> None:
        """Moves the session, if the widget has one, to just after the launch's first `position` instructions."""
        if self.session and position != self.session.now:
            self.session.seek(position)

    @command
    def show(self, cluster: int) -> int:
        """Shows another cluster of the grid; returns the revision that does."""
        count = self.recording.geometry.clusters
        if isinstance(cluster, bool) or not isinstance(cluster, int) or not 0 <= cluster < count:
            raise ValueError(f"cluster: expected an integer from 0 to {count - 1}, got {cluster!r}")
        trace = self.recording.cluster(cluster)
        operations = trace.operations()
        tensors, launch = _tensors(trace, operations), _launch(trace, self._fault())
        tensors["page_reads"] = np.zeros((5, 0), np.int32) if self.reads is None else self.reads.of_cluster(trace)
        tensors["page_ctas"] = np.zeros((4, 0), np.int32) if self.reads is None else self.reads.ctas(self.recording)
        if failed := failed_at(self.recording.fault, self.recording.geometry):
            launch["failed"] = failed
        if self.timed:
            tensors |= _times(trace, operations, self.timed)
            launch["timed"] = {"product": self.timed.figures.product, "total": self.timed.total_ns}
            launch["spin"] = spin_told(self._spins)
        self.publish(tensors, launch=launch, header=self._header(trace))
        return self.revision

    @command
    def show_cta(self, cta: int) -> int:
        """Shows the cluster of a CTA, given by its linear index in the grid; returns the revision that does."""
        geometry = self.recording.geometry
        if isinstance(cta, bool) or not isinstance(cta, int) or not 0 <= cta < geometry.ctas:
            raise ValueError(f"cta: expected an integer from 0 to {geometry.ctas - 1}, got {cta!r}")
        return self.show(geometry.cluster_of(cta))

    def _fault(self) -> str:
        """Why the launch failed, with roles after its warps and its barriers by name where the kernel is at hand."""
        fault = self.recording.fault
        return LogCast(self.session.launch, self.recording).annotated(fault, (0, 0, 0)) if self.session else fault

    def _session_moved(self) -> None:
        if self.session:
            self.now = self.session.now

    def _restarted(self) -> None:
        if self.session:
            self._begin(self.session, int(self.launch["cluster"]))

    def _header(self, trace: ClusterTrace) -> dict[str, Any]:
        geometry = self.recording.geometry
        grid, block = "×".join(map(str, geometry.grid)), geometry.block
        ctas = ", ".join(map(str, trace.ctas))
        subject = (
            f"{readable(self.recording.kernel)} · grid {grid}, {plural(prod(block), 'thread')} · CTA {ctas} · "
            f"{plural(len(trace.positions), 'warp-instruction')}"
        )
        return {
            "title": self.title,
            "subject": subject,
            "whole": self.recording.kernel,
            "badge": {"text": "emulated · issue order", "title": ISSUE_ORDER},
        }


def spin_told(found: list[Spin]) -> str:
    """What modelled times of a launch with loops that wait for memory are worth; empty without any."""
    if not found:
        return ""
    longest, warps = found[0], len({(one.cta, one.warp) for one in found})
    others = f" ({plural(warps - 1, 'other warp')}: the same)" if warps > 1 else ""
    return (
        f"CTA {longest.cta} warp {longest.warp} tests a word of global memory at PTX line {longest.line} until it is "
        f"written, {longest.times:,} times{others}: as often as the emulator happened to. The model repeats these "
        "rounds and does not know the write that ends them: these modelled times say little. Issue order shows what "
        "happened."
    )


def _recording(launch: Any) -> EventLog:
    if isinstance(launch, Session):
        return launch.log
    if not isinstance(launch, EventLog):
        raise not_a_launch(launch, "sglab.trace, Kernel.record or Kernel.session")
    return launch


def _tensors(trace: ClusterTrace, operations: Operations) -> dict[str, Any]:
    return {
        "events": trace.events(),
        "waits": trace.waits(),
        "phases": trace.phases(),
        "states": trace.states(),
        "actions": trace.actions(),
        "operations": operations.table,
        "copies": trace.copies(),
        "code": code_table(trace.log.code, trace.log.pc[trace.positions]),
    }


def _times(trace: ClusterTrace, operations: Operations, timed: TimedLog) -> dict[str, Any]:
    """Modelled ns, aligned with the tensors of these names; the barriers' states are tables of their own."""
    states, changed = trace.timed_states(timed)
    return {
        "times.events": np.stack([timed.start[trace.positions], timed.end[trace.positions]]).astype(np.float32),
        "times.phases": timed.phases[trace.phase_rows][None].astype(np.float32),
        "times.operations": operations.times(timed).astype(np.float32),
        "times.states": changed,
        "timed.states": states,
    }


def _launch(trace: ClusterTrace, fault: str) -> dict[str, Any]:
    """What the page knows of the launch besides its tensors. fault: why it failed, if it did."""
    log = trace.log
    return {
        "kernel": readable(log.kernel),
        "length": len(log),
        "error": failure_told(fault),
        "cluster": trace.cluster,
        "clusters": log.geometry.clusters,
        "ctas": trace.ctas,
        "gridCtas": prod(log.geometry.grid),
        "warps": trace.warps,
        "roles": [role_key(log.roles.of(cta, warp).name) for cta in trace.ctas for warp in range(trace.warps)],
        "waitKinds": list(WAIT_KINDS),
        "operationKinds": list(KINDS),
        "actions": list(ACTIONS),
        "copyKinds": list(COPY_KINDS),
        "maps": [{"element": one.element, "dims": list(one.dims), "box": list(one.box)} for one in log.maps],
        "barriers": trace.barrier_names(),
        "pipelines": trace.pipelines(),
    }
