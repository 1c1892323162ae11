"""KernelDebugger: a launch under control, in its source and its PTX."""

from .widget import KernelDebugger

__all__ = ["KernelDebugger"]
