"""Widgets in a browser without Jupyter: a page of this process, alive as long as it is."""

from .server import LivePage

__all__ = ["LivePage"]
