"""Every planner's plan in one form: exact arrays, work units with a modelled place and time, and their totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sglab.planning.check import Int64Array
from sglab.planning.placement import place

Array = NDArray[Any]


@dataclass(frozen=True)
class Units:
    """Work units before they are placed, int64 columns of one length: who launched each and what it covers.

    `launch` is the launch order of the CTA, or of the cluster where clusters are larger than one; `head_block` the
    cluster's block of query rows; `split` the part of the request's KV, tokens [token_start, token_end).
    """

    launch: Int64Array
    request: Int64Array
    head_block: Int64Array
    split: Int64Array
    token_start: Int64Array
    token_end: Int64Array

    def select(self, keep: NDArray[np.bool_] | Int64Array) -> Units:
        return Units(*(getattr(self, field.name)[keep] for field in fields(self)))


@dataclass(frozen=True)
class Work:
    """One row per CTA and work unit, int64 columns of one length.

    `start` and `end` are modelled times in KV tokens (see `placement`); `wave` counts the work units on one
    slot of one SM. `head_block` is a block of query rows, numbered within its request; `Plan.head_block_is` says
    what it stands for.
    """

    request: Int64Array
    head_block: Int64Array
    split: Int64Array
    token_start: Int64Array
    token_end: Int64Array
    cta: Int64Array
    cluster: Int64Array
    sm: Int64Array
    slot: Int64Array
    wave: Int64Array
    start: Int64Array
    end: Int64Array

    def __len__(self) -> int:
        return self.request.size

    def columns(self) -> dict[str, Int64Array]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Merge:
    """What is merged after the splits: `partials` rows of O and LSE, one per query head and split, into `outputs`."""

    partials: int = 0
    outputs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @classmethod
    def of(cls, partials: int, outputs: int, head_dim: int, *, partial_bytes: int = 4, output_bytes: int = 2) -> Merge:
        """Partials are `head_dim` elements of `partial_bytes` and an fp32 LSE; outputs `head_dim` of `output_bytes`."""
        partials, outputs = int(partials), int(outputs)
        return cls(partials, outputs, partials * (head_dim * partial_bytes + 4), outputs * head_dim * output_bytes)


@dataclass(frozen=True)
class LaunchShape:
    """What is launched: the grid, CTAs per cluster, and how many CTAs fit on an SM at once."""

    grid: tuple[int, int, int]
    cluster_size: int
    ctas_per_sm: int
    sm_count: int

    @property
    def num_ctas(self) -> int:
        x, y, z = self.grid
        return x * y * z

    @property
    def num_slots(self) -> int:
        """CTAs that run at once."""
        return self.sm_count * self.ctas_per_sm


@dataclass(frozen=True)
class Plan:
    """A planner's output. `arrays` and `scalars` are exact and under their real names; times in `work` are modelled."""

    planner: str
    source: str
    launch: LaunchShape
    head_block_is: str
    arrays: Mapping[str, Array]
    scalars: Mapping[str, int | float | bool]
    work: Work
    workspace_bytes: int
    merge: Merge
    rule: str
    """How the planner came to these splits, with this plan's own numbers."""

    def why(self) -> str:
        """How the planner came to these splits, and how many of the launched CTAs have no work."""
        busy, launched = np.unique(self.work.cta).size, self.launch.num_ctas
        idle = f" {launched - busy:,} of the {launched:,} CTAs have no work." if busy < launched else ""
        return self.rule + idle

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.launch.grid

    @property
    def makespan(self) -> int:
        """Modelled time of the last CTA's end, in KV tokens."""
        return int(self.work.end.max(initial=0))

    @property
    def waves(self) -> float:
        """CTAs launched, over CTAs that run at once."""
        return self.launch.num_ctas / self.launch.num_slots

    @property
    def occupancy(self) -> float:
        """Share of the SMs that get any work."""
        return np.unique(self.work.sm).size / self.launch.sm_count

    @property
    def idle_share(self) -> float:
        """Share of the modelled slot time, until the last CTA ends, in which slots have no work."""
        available = self.launch.num_slots * self.makespan
        return 1 - int((self.work.end - self.work.start).sum()) / available if available else 0.0


def assemble(
    planner: str,
    source: str,
    launch: LaunchShape,
    units: Units,
    *,
    rule: str,
    head_block_is: str,
    arrays: Mapping[str, Array],
    scalars: Mapping[str, int | float | bool],
    workspace_bytes: int = 0,
    merge: Merge | None = None,
    persistent_tiles: int | None = None,
) -> Plan:
    """Place the units. `persistent_tiles` says that `units.launch` counts tiles fetched one by one by resident CTAs."""
    size = launch.cluster_size
    slots_across = launch.sm_count // size
    launched = persistent_tiles if persistent_tiles is not None else launch.num_ctas // size
    placed = place(units.launch, units.token_end - units.token_start, launched, slots_across * launch.ctas_per_sm)

    cluster = placed.slot if persistent_tiles is not None else units.launch
    rank = np.tile(np.arange(size), units.request.size)
    work = Work(
        request=np.repeat(units.request, size),
        head_block=np.repeat(units.head_block, size) * size + rank,
        split=np.repeat(units.split, size),
        token_start=np.repeat(units.token_start, size),
        token_end=np.repeat(units.token_end, size),
        cta=np.repeat(cluster, size) * size + rank,
        cluster=np.repeat(cluster, size),
        sm=np.repeat(placed.slot % slots_across, size) * size + rank,
        slot=np.repeat(placed.slot // slots_across, size),
        wave=np.repeat(placed.wave, size),
        start=np.repeat(placed.start, size),
        end=np.repeat(placed.end, size),
    )
    size_of_workspace, merged = int(workspace_bytes), merge or Merge()
    return Plan(planner, source, launch, head_block_is, arrays, scalars, work, size_of_workspace, merged, rule)
