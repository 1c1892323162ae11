"""Barriers: every mbarrier and named barrier of a cluster at any moment of a recorded launch."""

from __future__ import annotations

from .base import asset
from .launch_view import LaunchWidget


class Barriers(LaunchWidget):
    """Phase, pending arrivals, tx-count and waiting warps of every barrier of one cluster, with its history."""

    bundle = "barriers"
    format = 2
    title = "Barriers"
    _module = asset("barriers.js")
    _css = asset("barriers.css")
