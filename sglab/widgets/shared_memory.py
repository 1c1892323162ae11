"""SharedMemory: a CTA's shared memory as bytes and as tiles, its swizzles, descriptors, banks and cp.async groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import traitlets

from sglab.emulator.bank_conflicts import InstructionBanks, bank_conflicts
from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.moved_elements import MovedElements
from sglab.emulator.session import Session
from sglab.events.async_groups import async_groups
from sglab.events.cluster.columns import readable
from sglab.events.log import EventLog
from sglab.events.shared_memory import KINDS, ElementSpan, Extent, element_spans, window_areas

from .base import asset, command
from .following import failure_told
from .memory import MemoryWidget
from .shared_memory_rows import banks_dict, map_dict, pipeline_dict, span_dict, tile_dict

LINE = 128
"""Bytes of a row of the tensor `bytes`: all 32 banks once."""
TABS = ("descriptor", "instruction", "map", "array", "banks", "groups")


class SharedMemory(MemoryWidget):
    """Shared memory of a launch under control: what is where, as bytes and in logical coordinates side by side.

    Args:
        launch: what `sglab.trace` or `Kernel.session` returns. The widget moves the session, and follows when it is
            moved elsewhere.
        log: the events of the session's launch, where they were recorded already.
        cta: whose shared memory, as a linear index in the grid.
        tab: which tab is open at first, one of TABS; None for that of the first tile.
        saved_moments: how many moments `save` puts into a page.

    Raises:
        TypeError, ValueError: the argument is none of these.
    """

    bundle = "shared_memory"
    format = 2
    _module = asset("shared_memory.js")
    _css = asset("shared_memory.css")

    areas: traitlets.List[Any] = traitlets.List(help="named parts of the window").tag(sync=True)
    tiles: traitlets.List[Any] = traitlets.List(help="boxes and operands: bytes with a logical shape").tag(sync=True)
    maps: traitlets.List[Any] = traitlets.List(help="the tensor maps that copies used").tag(sync=True)
    pipelines: traitlets.List[Any] = traitlets.List(help="cp.async groups, by warp and lanes").tag(sync=True)
    banks: traitlets.List[Any] = traitlets.List(help="passes through the banks, by instruction").tag(sync=True)

    elements: traitlets.List[Any] = traitlets.List(help="what accesses say that bytes hold, and since when").tag(
        sync=True
    )

    session: Session

    def __init__(
        self,
        launch: Session | Capture | CapturedLaunch,
        log: EventLog | None = None,
        *,
        cta: int = 0,
        tab: str | None = None,
        saved_moments: int = 4,
    ) -> None:
        if tab is not None and tab not in TABS:
            raise ValueError(f"tab must be one of {', '.join(TABS)}; got {tab!r}")
        super().__init__(launch, log, saved_moments, needs_session=True)
        self._tab = tab or ""
        self._look_at(cta)

    def _restart(self) -> None:
        self._look_at(self._cta)

    @command
    def show_cta(self, cta: int) -> None:
        """Shows another CTA of the launch."""
        self._look_at(cta)

    def _look_at(self, cta: int) -> None:
        self._cta, self._total = cta, self.cta_count(cta)
        trace = self.recording.shared_memory(cta)
        self._traffic = trace.run
        self._moments = self._traffic.events
        self._facts = self._launch_facts(self.roles_of(trace.cluster))
        self._show()

    def _window(self) -> int:
        """Bytes of a CTA's window, the reserved ones included."""
        kernel = self.session.launch.kernel.emulated
        smem = self.session.launch.geometry.smem
        return kernel.dynamic_smem + smem if smem else 1024 + kernel.static_smem

    def _empty(self) -> str:
        name = readable(self.session.launch.kernel.name)
        if self._window() <= 1024:
            return f"{name} has no shared memory: no variable in it, and none requested at launch."
        if not len(self._moments):
            return f"CTA {self._cta} of {name} never touches shared memory."
        return ""

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
        accesses = [*self._last_access(), *self._next_accesses()]
        shared = self.ask("shared", self._cta)
        window = self._window()
        data = np.zeros((0 if shared is None else -(-window // LINE), LINE), np.uint8)
        written = np.zeros(data.shape, bool)
        if shared is not None:
            data.reshape(-1)[: min(window, len(shared))] = shared[:window]
            written.reshape(-1)[: min(window, len(shared))] = self.session.shared_written(self._cta)[:window]
        barriers = self.ask("mbarriers", self._cta) or []
        flying = self.ask("in_flight", self._cta) or []
        position = self.session.now
        return {
            "moment": self.moment,
            "position": position,
            "note": self.frame_note(),
            "findings": self.found("shared"),
            "alive": shared is not None,
            "accesses": accesses,
            "mbarriers": [
                {"offset": b.offset, "phase": b.phase, "pending": b.pending, "expected": b.expected, "tx": b.tx_count}
                for b in barriers
            ],
            "inFlight": [
                {"text": one.at.opcode, "warp": one.warp, "cta": one.cta, "start": one.shared, "bytes": one.nbytes}
                for one in flying
                if one.shared
            ][:200],
            "data": data,
            "written": np.packbits(written, axis=1, bitorder="little"),
        }

    def _last_access(self) -> list[dict[str, Any]]:
        """The lanes' addresses of the access that just happened: the session steps back before it and forward again."""
        number = self.moment
        if not number or int(self._moments[number - 1]) + 1 != self.session.now:
            return []
        event, cta, warp, _, kind = self._traffic.moments[number - 1, :5].tolist()
        if KINDS[kind] not in ("ld", "st") or cta != self._cta:
            return []
        self._seek(event)
        found = self._access(warp, 0)
        self._seek(event + 1)
        return [{**found, "when": "just made"}] if found else []

    def _next_accesses(self) -> list[dict[str, Any]]:
        """Those that warps are about to make."""
        found = []
        for warp in self.session.warps:
            if warp.cta.linear == self._cta:
                found += [self._access(warp.index, group) for group in range(len(warp.groups))]
        return [{**one, "when": "about to be made"} for one in found if one]

    def _access(self, warp: int, group: int) -> dict[str, Any] | None:
        found = self.session.shared_access(warp, group, self._cta)
        if found is None:
            return None
        return {
            "pc": found.at.pc,
            "warp": warp,
            "lanes": found.lanes,
            "bytes": found.nbytes,
            "reads": found.reads,
            "writes": found.writes,
            "turns": found.turns,
            "addresses": (found.addresses & 0xFFFFFF).tolist(),
        }

    def _publish(self, frames: list[dict[str, Any]]) -> None:
        ends = np.cumsum([len(frame["data"]) for frame in frames]).tolist()
        data, written = ([frame.pop(name) for frame in frames] for name in ("data", "written"))
        shown = [{**frame, "rows": [end - len(rows), end]} for frame, rows, end in zip(frames, data, ends, strict=True)]
        found = {one["pc"] for frame in shown for one in frame["accesses"]} - self._known
        if found:
            self._known |= found
            self._facts["code"] = self.code_of(list(self._known))
        self.publish(
            {
                "bytes": np.concatenate(data),
                "written": np.concatenate(written),  # a bit per byte
                "moments": self._traffic.moments,
            },
            frames=shown,
            header=self._header(),
            **self._facts,
        )

    def _launch_facts(self, roles: dict[str, str]) -> dict[str, Any]:
        """The traits that do not depend on the moment."""
        launch, recording = self.session.launch, self.recording
        kernel = launch.kernel.emulated
        areas = window_areas(kernel.shared_variables, kernel.dynamic_smem, self._window())
        banks = bank_conflicts(self.session, self._cta, recording)
        self._known = {*self._traffic.moments[:, 3].tolist(), *(one.instruction.pc for one in banks)}
        return {
            "launch": {
                "kernel": launch.kernel.name,
                "arch": str(self.session.device.arch),
                "warpsPerCta": -(-int(np.prod(launch.geometry.block)) // 32),
                "roles": roles,
                "cta": self._cta,
                "ctas": list(range(min(self._total, 4096))),
                "bytes": self._window(),
                "dynamic": kernel.dynamic_smem,
                "empty": self._empty(),
                "error": failure_told(recording.fault),
                "tab": self._tab,
            },
            "launch_key": f"{id(self)} {self._runs} {self._cta}",
            "code": self.code_of(list(self._known)),
            "areas": [asdict(area) for area in (*areas, *self._traffic.areas)],
            "tiles": [tile_dict(number, tile) for number, tile in enumerate(self._traffic.tiles)],
            "pipelines": [pipeline_dict(one) for one in async_groups(recording, self._cta)],
            "banks": [banks_dict(one) for one in banks],
            "elements": [span_dict(one) for one in self._elements(banks)],
            "maps": [map_dict(number, info) for number, info in enumerate(recording.maps)],
        }

    def _elements(self, banks: Sequence[InstructionBanks]) -> list[ElementSpan]:
        log = self.recording
        moved = MovedElements.of_launch(self.session.launch, log)
        rows = np.flatnonzero((log.copies.address != -1) & (log.copies.map < 0)).tolist()
        copied = {int(log.copies.event[row]): moved.at(int(log.copies.address[row])) for row in rows}
        extents = {one.instruction.pc: Extent(one.start, one.end, one.chunks, one.masks) for one in banks}
        return element_spans(self._traffic, moved.of, copied, extents)

    def _header(self) -> dict[str, Any]:
        nbytes = self._window() - 1024
        size = f"{nbytes:,} bytes" + (f", {nbytes / 1024:.1f} KiB" if nbytes >= 1024 else "")
        kernel = self.session.launch.kernel.name
        subject = f"{readable(kernel)} · CTA {self._cta} · {size}"
        return {"title": "Shared memory", "subject": subject, "whole": kernel, "badge": self.badge()}
