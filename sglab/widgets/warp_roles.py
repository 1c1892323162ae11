"""WarpRoles: a timeline of every warp of a CTA pair, what runs beside them, and who waits for whom."""

from __future__ import annotations

from .base import asset
from .launch_view import LaunchWidget


class WarpRoles(LaunchWidget):
    """Every warp of one cluster of a recorded launch on a timeline, with copies, matrix products, tensor memory, waits
    and the pipelines between roles.

    launch: what `sglab.trace` or `Kernel.record` returns; or a session, which the widget then moves and follows. If its
        kernel fails, what happened until then is shown.
    cluster: which of the grid's clusters (CTA pairs, or CTAs where the launch has no clusters).

    Raises:
        TypeError, ValueError: naming the argument.
    """

    bundle = "warp_roles"
    format = 1
    title = "Warp roles"
    _esm = asset("warp_roles.js")
    _css = asset("warp_roles.css")
