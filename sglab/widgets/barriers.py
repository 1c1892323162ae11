"""Barriers: every mbarrier and named barrier of a cluster at any moment of a recorded launch."""

from __future__ import annotations

from .base import asset
from .launch_view import LaunchWidget


class Barriers(LaunchWidget):
    """Phase, pending arrivals, tx-count and waiting warps of every barrier of one cluster, with its history.

    launch: what `sglab.trace` or `Kernel.record` returns; or a session, which the widget then moves and follows. If its
        kernel fails, what happened until then is shown.
    cluster: which of the grid's clusters (CTA pairs, or CTAs where the launch has no clusters).

    Raises:
        TypeError, ValueError: naming the argument.
    """

    bundle = "barriers"
    format = 1
    title = "Barriers"
    _esm = asset("barriers.js")
    _css = asset("barriers.css")
