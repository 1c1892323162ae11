"""Widgets that a widget opens on what it shows: the trail from a request to an instruction."""

from __future__ import annotations

from typing import Any, Literal

from sglab.engine.errors import BadArgumentError
from sglab.workbench import Batch, trace

from .base import Widget
from .page import html_page

Opened = Literal["PageTable", "SplitKV", "OnlineSoftmax", "WarpRoles", "KernelDebugger"]
OF_A_BATCH = ("PageTable", "SplitKV", "OnlineSoftmax")
OF_A_LAUNCH = ("WarpRoles", "KernelDebugger")


class Opener(Widget):
    """A widget that makes others; they live as long as it does."""

    def opened(self, made: Widget, of: str) -> dict[str, Any]:
        """What the page needs of a widget: its model, for hosts that show it live, and a page of it, for all others.

        Args:
            of: what it is of, such as "step 3, layer 0".
        """
        title = f"{made.header['title']} of {of}"
        found = {"widget": type(made).__name__, "title": title, "model": str(made.model_id)}
        return {**found, "page": html_page([self.keep(made)], title)}

    def keep(self, made: Widget) -> Widget:
        """Keeps what was made until this widget is closed."""
        if made not in self._made:
            self._made.append(made)
        return made

    @property
    def _made(self) -> list[Widget]:
        made: list[Widget] = self.__dict__.setdefault("_widgets_made", [])
        return made


def of_batch(widget: str, batch: Batch) -> Widget:
    """A widget on a batch, or on its attention kernel, which then runs on the emulator.

    Raises:
        BadArgumentError, and what the widget raises.
    """
    if one_of(widget) in OF_A_LAUNCH:
        return of_launch(widget, trace(batch, backend=kernel_for(batch)))
    return _made(widget, batch)


def of_launch(widget: str, launch: Any) -> Widget:
    """WarpRoles or KernelDebugger on a launch."""
    return _made(one_of(widget, OF_A_LAUNCH), launch)


def one_of(widget: str, known: tuple[str, ...] = (*OF_A_BATCH, *OF_A_LAUNCH)) -> str:
    if widget not in known:
        raise BadArgumentError("widget", f"one of {', '.join(known)}", widget, "Choose one of them.")
    return widget


def _made(widget: str, shown: Any) -> Widget:
    from sglab import widgets

    made: Widget = getattr(widgets, widget)(shown)
    return made


def kernel_for(batch: Batch) -> str:
    """The backend whose kernel is stepped: ours for MLA in pages that it reads, Triton's otherwise."""
    decodes = batch.forward_mode.is_decode()
    if decodes and batch.kind == "mla" and batch.page_size == 64:
        return "flashmla"
    if decodes and batch.kind == "mla" and batch.page_size >= 16:
        return "cutlass_mla"
    return "triton"
