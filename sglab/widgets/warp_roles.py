"""WarpRoles: a timeline of every warp of a CTA pair, what runs beside them, and who waits for whom."""

from __future__ import annotations

from .base import asset
from .launch_view import LaunchWidget


class WarpRoles(LaunchWidget):
    """Every warp of one cluster of a recorded launch on a timeline, with copies, matrix products, tensor memory, waits
    and the pipelines between roles."""

    bundle = "warp_roles"
    format = 2
    title = "Warp roles"
    _module = asset("warp_roles.js")
    _css = asset("warp_roles.css")
