"""A widget's picture in the notebook itself: what a reader sees who opens it without a kernel, or on a page that runs
no widgets."""

from __future__ import annotations

import html
import re

PICTURE = re.compile(r"data:image/(png|webp);base64,[A-Za-z0-9+/=]+")
MOST_CHARACTERS = 1_500_000
TO_DARK = "invert(0.88) hue-rotate(180deg)"
"""White becomes JupyterLab's dark ground."""
TO_LIGHT = "invert(1) hue-rotate(180deg) brightness(1.15)"
"""JupyterLab's dark ground becomes white."""


def make_room(model_id: str) -> str:
    """Adds an empty output to the running cell, which the picture will fill; returns the output's class and display_id,
    empty where no notebook is."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import publish_display_data
    except ImportError:
        return ""
    if not hasattr(get_ipython(), "kernel"):
        return ""
    place = f"sglab-{model_id}"
    publish_display_data({"text/html": f'<div class="{place}"></div>'}, transient={"display_id": place})
    return place


def keep(place: str, picture: str, words: str, dark: bool = False) -> None:
    """Fills that output, in every notebook that is open on this kernel.

    Args:
        dark: in which theme the picture was taken. Where the reader's theme is another, or on paper, its brightness is
            turned round and its hues stay: two pictures would double what a notebook holds.

    Raises:
        ValueError: there is no such output, or the picture is none, or too large to store.
    """
    from IPython.display import publish_display_data

    if not place:
        raise ValueError("this widget has no output in a notebook: display it there first")
    if not PICTURE.fullmatch(picture):
        raise ValueError("picture must be a data URL of a PNG or WebP image")
    if len(picture) > MOST_CHARACTERS:
        raise ValueError(f"picture: expected at most {MOST_CHARACTERS:,} characters, got {len(picture):,}")
    image = f'<img src="{picture}" alt="{html.escape(words)}" style="max-width: 100%">'
    note = "A picture, stored with the notebook; run the cell for the widget."
    text = f'<style>{_turned(place, dark)}</style><div class="{place}">{image}<div><small>{note}</small></div></div>'
    publish_display_data({"text/html": text}, transient={"display_id": place}, update=True)


def _turned(place: str, dark: bool) -> str:
    """JupyterLab says its theme on the page's body."""
    rule = f".{place} img {{ filter: {TO_LIGHT if dark else TO_DARK}; }}"
    other = f'body[data-jp-theme-light="{"true" if dark else "false"}"] {rule}'
    return f"@media screen {{ {other} }}" + (f" @media print {{ {rule} }}" if dark else "")
