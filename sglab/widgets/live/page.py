"""The HTML of a live page."""

from __future__ import annotations

import html

from ..page import STYLE


def live_html(title: str, widgets: int) -> str:
    """A page that loads `widgets` widgets from beside itself; see host.js."""
    numbers = range(widgets)
    styles = "".join(f'<link rel="stylesheet" href="{number}.css">' for number in numbers)
    places = "".join(f'<div data-widget="{number}"></div>' for number in numbers)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>{styles}</head><body>"
        f'<header class="page"><h1>{html.escape(title)}</h1><button id="theme" type="button"></button></header>'
        f'<main>{places}</main><script type="module" src="host.js"></script></body></html>\n'
    )
