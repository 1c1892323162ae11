"""Which attention backend SGLang would run, and why."""

from sglab.attention.selection.hardware import HARDWARE, Hardware, this_machine
from sglab.attention.selection.select import VERSIONS, BackendSelection, select_attention_backend
from sglab.attention.selection.settings import Model, SelectionError, Settings

__all__ = [
    "HARDWARE",
    "VERSIONS",
    "BackendSelection",
    "Hardware",
    "Model",
    "SelectionError",
    "Settings",
    "select_attention_backend",
    "this_machine",
]
