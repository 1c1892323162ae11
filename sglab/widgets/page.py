"""Self-contained HTML pages of saved widgets: everything inline, nothing fetched, works from the file system."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any, Protocol

STYLE = """
body { margin: 0 auto; padding: 16px; max-width: 1800px; font-family: system-ui, sans-serif }
body { background: #fff; color: #1f2328 }
body[data-sg-theme="dark"] { background: #0e1013; color: #e6e8eb }
header.page { display: flex; align-items: center; gap: 12px; margin-bottom: 12px }
header.page h1 { flex: 1; margin: 0; font-size: 18px }
:root:has(body[data-sg-theme="dark"]) { color-scheme: dark }
header.page button { font: inherit; font-size: 13px; padding: 4px 10px; color: inherit }
header.page button { background: none; border: 1px solid #80868d; border-radius: 4px; cursor: pointer }
header.page button:empty { display: none }
main > * + * { margin-top: 16px }
@media print { body { padding: 0 } header.page { margin: 0; break-after: avoid } header.page button { display: none } }
"""

WITHOUT_SCRIPTS = (
    "<noscript><p>This page draws its pictures with JavaScript, which may not run here. In JupyterLab press "
    "<b>Trust HTML</b> above this page; elsewhere allow it scripts, or open the file in a browser.</p></noscript>"
)
"""JupyterLab lets no page run scripts before its reader says that it may."""

SCRIPT = """
const button = document.getElementById("theme");
const apply = (theme) => {
  document.body.dataset.sgTheme = theme;
  button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
};
apply(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
button.onclick = () => apply(document.body.dataset.sgTheme === "dark" ? "light" : "dark");
const widgets = globalThis[Symbol.for("sglab.widgets.v1")];
for (const data of document.querySelectorAll("script[data-sglab]"))
  widgets[data.dataset.sglab](document.getElementById(data.dataset.into), JSON.parse(data.textContent));
"""


class Savable(Protocol):
    """What a page takes of a widget."""

    bundle: str
    _module: Any
    _css: Any

    def saved(self) -> dict[str, Any]:
        """Its traits as JSON, its tensors as gzip."""


def html_page(widgets: Sequence[Savable], title: str, body: str = "") -> str:
    """The text of an HTML page with `widgets` one below the other, sharing a selection, below the HTML of `body`."""
    bundles = {widget.bundle: widget for widget in widgets}.values()
    styles = "".join(f"<style>{widget._css}</style>" for widget in bundles)
    scripts = "".join(f'<script type="module">{_inline(str(widget._module))}</script>' for widget in bundles)
    places, data = "", ""
    for i, widget in enumerate(widgets):
        places += f'<div id="widget-{i}"></div>'
        saved = json.dumps(widget.saved(), separators=(",", ":")).replace("<", "\\u003c")
        data += f'<script type="application/json" data-sglab="{widget.bundle}" data-into="widget-{i}">{saved}</script>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>{styles}</head><body>"
        f'<header class="page"><h1>{html.escape(title)}</h1><button id="theme" type="button"></button></header>'
        f"{WITHOUT_SCRIPTS}<main>{body}{places}</main>"
        f'{data}{scripts}<script type="module">{SCRIPT}</script></body></html>\n'
    )


def _inline(script: str) -> str:
    """A script that may be placed between tags: both replacements mean the same inside a JavaScript string."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
