"""What can go wrong between a Python call and a running kernel."""

from __future__ import annotations


class GpuError(Exception):
    """Base of every error this package raises on purpose."""


class LaunchError(GpuError, ValueError):
    """A launch was refused before anything ran: an argument, a dimension or a device does not fit."""


class SessionError(GpuError, ValueError):
    """A session was asked for what does not exist: a line without code, a CTA that is not running, a position past the
    end."""


class CompileError(GpuError):
    """A compiler refused the source; the message holds what it said."""


class MissingDependencyError(GpuError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


def missing(package: str, extra: str, purpose: str) -> MissingDependencyError:
    return MissingDependencyError(f"{purpose} needs the package '{package}': pip install 'sglab[{extra}]'")
