"""Interactive widgets: each draws a trace recorded from a real run."""

from .base import Widget, command
from .page import html_page
from .selection import selection

__all__ = ["Widget", "command", "html_page", "selection"]
