"""TensorMemory: the 128 lanes × 512 columns of a CTA or a pair, moment by moment, in a live session."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from sglab.emulator.moved_elements import MovedElements
from sglab.events.cluster.columns import readable
from sglab.events.log import MMA_KINDS, EventLog
from sglab.events.tensor_memory import TensorMatrix, cta_group, uses_tensor_memory
from sglab.events.tensor_memory.cells import COLUMNS, LANES
from sglab.events.tensor_memory.writes import KINDS, UNIT

from .base import asset, command
from .following import failure_told
from .memory import Launched, MemoryWidget
from .tensor_memory_names import matrix_names

EMPTY = np.zeros((0, 10), np.int32)


class TensorMemory(MemoryWidget):
    """Tensor memory of a launch under control: who owns, wrote and will read every cell, and what it holds.

    Args:
        launch: what `sglab.trace` or `Kernel.session` returns: the widget moves the session, and follows when it is
            moved elsewhere. Or what `Kernel.record` returns: everything but what cells hold.
        log: the events of the session's launch, where they were recorded already.
        cta: whose tensor memory, as a linear index in the grid; with cta_group::2 its pair is shown.
        saved_moments: how many moments `save` puts into a page.

    Raises:
        TypeError, ValueError: the argument is none of these.
    """

    bundle = "tensor_memory"
    format = 2
    _module = asset("tensor_memory.js")
    _css = asset("tensor_memory.css")

    tiles: traitlets.List[Any] = traitlets.List(help="the matrices that MMAs keep in tensor memory").tag(sync=True)
    elements: traitlets.Dict[str, Any] = traitlets.Dict(help="what loads and stores move, by pc").tag(sync=True)

    def __init__(self, launch: Launched, log: EventLog | None = None, *, cta: int = 0, saved_moments: int = 6) -> None:
        super().__init__(launch, log, saved_moments, needs_session=False)
        self._look_at(cta)

    def _restart(self) -> None:
        self._look_at(self._ctas[0])

    @command
    def show_cluster(self, cta: int) -> None:
        """Shows another CTA (or pair) of the launch."""
        self._look_at(cta)

    def _look_at(self, cta: int) -> None:
        log = self.recording
        group = cta_group(log)
        total = self.cta_count(cta)
        self._ctas = self.pair_of(cta, group)
        trace = log.tensor_memory(self._ctas)
        self._traffic, self._history = trace.run, trace.history
        self._moments = self._traffic.events
        self._roles = self.roles_of(self._ctas)
        self._names = matrix_names(self._traffic.tiles, self._traffic.moments, self._roles, self._ctas)
        self._elements = self._moved(log)
        self._code = self.code_of(self._traffic.moments[:, 3].tolist())
        self._clusters = list(dict.fromkeys(tuple(self.pair_of(each, group)) for each in range(min(total, 4096))))
        self._show()

    def _moved(self, log: EventLog) -> dict[str, str]:
        if self.session is None:
            return {}  # nor are there words to be read
        kinds = [KINDS.index(kind) for kind in ("ld", "st")]
        moments = self._traffic.moments
        moved = MovedElements.of_launch(self.session.launch, log)
        pcs = np.unique(moments[np.isin(moments[:, 4], kinds), 3]).tolist()
        return {str(pc): element for pc in pcs if (element := moved.of(pc).element)}

    def _empty(self) -> str:
        name = self.recording.kernel
        if not uses_tensor_memory(self.recording):
            return f"{name} uses no tensor memory: it executes no tcgen05 instruction."
        if not len(self._moments):
            return f"CTA {self._ctas[0]} of {name} never touches tensor memory."
        return ""

    @property
    def note(self) -> str:
        """Block-scaled MMAs read scales, and sparse ones metadata, that the recording does not place."""
        mmas = self.recording.mmas
        scaled = bool(np.isin(mmas.kind, [MMA_KINDS.index(kind) for kind in MMA_KINDS if kind.startswith("mx")]).any())
        return "Not listed: where block-scaled MMAs read their scales in tensor memory." if scaled else ""

    def _show(self) -> None:
        self._publish([self._frame()])

    def _frames(self, moments: Sequence[int]) -> None:
        frames = []
        for moment in moments:
            self._seek(int(self._moments[moment - 1]) + 1 if moment else 0)
            frames.append(self._frame())
        self._publish(frames)

    def _frame(self) -> dict[str, Any]:
        """What there is to see where the session is."""
        cells = np.zeros((len(self._ctas), COLUMNS, LANES), np.int32)
        owner = self._traffic.owner(self.position)
        for rank, cta in enumerate(self._ctas):
            memory = self.ask("tensor_memory", cta)
            if self.session:
                owner[rank] = 0 if memory is None else memory.owner
            if memory is not None:
                cells[rank] = np.where(memory.owner.repeat(UNIT)[:, None] != 0, memory.cells, 0).view(np.int32)
        flying = [one for one in self.ask("in_flight", self._ctas[0]) or [] if one.at.opcode.startswith("tcgen05")]
        allocated = owner.repeat(UNIT, axis=1) != 0
        return {
            "moment": self.moment,
            "position": self.position,
            "note": self.frame_note(),
            "findings": self.found("tensor"),
            "allocations": [_allocations(each) for each in owner],
            "in_flight": [f"{one.at.opcode}, warp {one.warp} of CTA {one.cta}" for one in flying],
            "cells": cells,
            "regions": self._history.regions(self.position, allocated) if allocated.any() else EMPTY,
        }

    def _publish(self, frames: list[dict[str, Any]]) -> None:
        ends = np.cumsum([len(frame["regions"]) for frame in frames]).tolist()
        shown = [
            {
                "moment": frame["moment"],
                "position": frame["position"],
                "note": frame["note"],
                "findings": frame["findings"],
                "allocations": frame["allocations"],
                "regions": [end - len(frame["regions"]), end],
                "inFlight": _counted(frame["in_flight"]),
            }
            for frame, end in zip(frames, ends, strict=True)
        ]
        warps = -(-int(np.prod(self.recording.geometry.block)) // 32)
        self.publish(
            {
                "cells": np.concatenate([frame["cells"].reshape(-1, LANES) for frame in frames]),
                "regions": np.concatenate([frame["regions"] for frame in frames]),
                "moments": self._traffic.moments,
            },
            frames=shown,
            launch={
                "kernel": self.recording.kernel,
                "warpsPerCta": warps,
                "roles": self._roles,
                "ctas": self._ctas,
                "clusters": [list(each) for each in self._clusters],
                "empty": self._empty(),
                "error": failure_told(self.recording.fault),
                "values": self.session is not None,
                "note": self.note,
            },
            launch_key=f"{id(self)} {self._runs} {self._ctas}",
            code=self._code,
            tiles=_tiles(self._traffic.tiles, self._names),
            elements=self._elements,
            header=self._header(),
        )

    def _header(self) -> dict[str, Any]:
        who = f"CTA {self._ctas[0]}" if len(self._ctas) == 1 else f"CTAs {self._ctas[0]} and {self._ctas[1]}, a pair"
        kernel = self.recording.kernel
        subject = f"{readable(kernel)} · {who} · 128 lanes × 512 columns of 32 bits each"
        return {"title": "Tensor memory", "subject": subject, "whole": kernel, "badge": self.badge()}


def _allocations(owner: npt.NDArray[np.int64]) -> list[dict[str, int]]:
    """Runs of columns with one owner."""
    edges = [0, *(np.flatnonzero(owner[1:] != owner[:-1]) + 1).tolist(), len(owner)]
    return [
        {"number": int(owner[first]), "column": first * UNIT, "columns": (last - first) * UNIT}
        for first, last in itertools.pairwise(edges)
        if owner[first]
    ]


def _tiles(tiles: Sequence[TensorMatrix], names: Sequence[str]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for number, (tile, name) in enumerate(zip(tiles, names, strict=True)):
        shown.append(
            {
                "id": number,
                "name": name,
                "role": tile.role,
                "type": tile.type,
                "rows": tile.rows,
                "columns": tile.columns,
                "ctaGroup": tile.cta_group,
                "packed": tile.packed,
                "blocks": [list(block) for block in tile.blocks],
            }
        )
    return shown


def _counted(texts: list[str]) -> list[str]:
    """Equal texts once, with their number."""
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return [text if count == 1 else f"{count} × {text}" for text, count in counts.items()]
