"""The emulated GPU: its device, launches under control, captured launches, sanitizers, and what steps a session."""

from sglab.emulator.captures import Capture, CapturedLaunch, capture
from sglab.emulator.device import EmulatedDevice, default_device
from sglab.emulator.nans import NanEvent, NanTrace, find_nans
from sglab.emulator.session import Session

__all__ = [
    "Capture",
    "CapturedLaunch",
    "EmulatedDevice",
    "NanEvent",
    "NanTrace",
    "Session",
    "capture",
    "default_device",
    "find_nans",
]
