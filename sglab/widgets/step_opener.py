"""StepOpener: a widget of a recorded engine that opens what a layer attended to in one of its steps."""

from __future__ import annotations

from typing import Any

import traitlets

from sglab.engine.errors import BadArgumentError
from sglab.engine.recording import Recording
from sglab.workbench import Batch, step_batch

from .base import Widget, command
from .engine_lines import facts
from .opening import Opened, Opener, of_batch, one_of


class StepOpener(Opener):
    """The trail from a request to an instruction, by press or from Python.

    Attributes:
        batch: what `attention` made last: the batch of a step, as one of its layers saw it.
    """

    layers = traitlets.Int(0, help="whose attention can be opened; 0: none, the engine is not recorded").tag(sync=True)
    batch: Batch | None = None

    def opens_steps_of(self, recording: Recording | None) -> None:
        """From now on steps of this recording can be opened; None: none."""
        self.__dict__["_opened_recording"] = recording
        self.layers = 0 if recording is None else facts(recording)["layers"]

    @property
    def opened_recording(self) -> Recording | None:
        """Whose steps are opened."""
        return self.__dict__.get("_opened_recording")

    def attention(self, widget: Opened, step: int | None = None, layer: int = 0, dtype: str | None = None) -> Widget:
        """A widget on what one layer attended to in one step.

        Args:
            widget: "PageTable", "SplitKV" and "OnlineSoftmax" show the batch; "WarpRoles" and "KernelDebugger" run its
                attention kernel on the emulator.
            step: None: the last one.
            dtype: of the batch; None: "float16" for kernels and the model's own for PageTable.

        Raises:
            BadArgumentError, and what `sglab.step_batch` and the widget raise.
        """
        one_of(widget)
        recording = self.opened_recording
        if recording is None:
            remedy = "Call engine.record() before it runs, and make the widget from the engine."
            raise BadArgumentError("step", "a step of a recorded engine", "an engine that is not recorded", remedy)
        at = len(recording.steps) - 1 if step is None else step
        self.batch = step_batch(recording, at, layer, dtype=dtype or (None if widget == "PageTable" else "float16"))
        return self.keep(of_batch(widget, self.batch))

    @command
    def open_attention(self, widget: str, step: int, layer: int) -> dict[str, Any]:
        """Opens a widget: its model, for hosts that show it live, and a page of it, for all others."""
        return self.opened(self.attention(widget, step, layer), f"step {step}, layer {layer}")  # type: ignore[arg-type]
