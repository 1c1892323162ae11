"""The one selection of a notebook, shared by all its widgets and readable from Python."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import traitlets

FACETS = {
    "request": int,
    "rid": str,
    "page": int,
    "slot": int,
    "token": int,
    "tokens": int,
    "split": int,
    "work": int,
    "cta": int,
    "sm": int,
    "warp": int,
    "barrier": str,
    "address": str,
    "moment": int,
    "launch": str,
}


class Selection(traitlets.HasTraits):
    """What is selected, as a dict of facets: `{"request": 1, "page": 12}`. Observe `value` to hear of changes.

    Facets: request (its number in a batch), rid (its name, which it keeps in an engine), page, slot, token (with
    tokens: how many from there on), split, work, cta, sm, warp, barrier, address, moment (with launch: whose
    moment, and whose shared or tensor memory; `widget.launch_name` names it. Without one, every launch's).
    """

    value = traitlets.Dict(read_only=True)

    def __init__(self) -> None:
        super().__init__()
        self._widgets: weakref.WeakSet[traitlets.HasTraits] = weakref.WeakSet()
        self._turn = 0

    def set(self, **facets: Any) -> None:
        """Selects exactly these facets, in every widget of the notebook."""
        for name, value in facets.items():
            if name not in FACETS:
                raise ValueError(f"a selection has the facets {', '.join(FACETS)}; got {name!r}")
            if not isinstance(value, FACETS[name]) or isinstance(value, bool):
                raise TypeError(f"selection facet {name} must be {FACETS[name].__name__}; got {value!r}")
        self._turn += 1
        self.set_trait("value", facets)
        for widget in self._widgets:
            now = getattr(getattr(widget, "session", None), "now", None)
            at = {} if now is None else {"at": now}  # by which a page that is still loading knows that it missed this
            widget.set_trait("selected", {**facets, **at, "by": "python", "turn": self._turn})

    @property
    def widgets(self) -> list[traitlets.HasTraits]:
        """Those that are alive and were not closed."""
        return [each for each in self._widgets if getattr(each, "comm", self) is not None]

    def clear(self) -> None:
        self.set()

    def attach(self, widget: traitlets.HasTraits) -> None:
        """From now on the widget's trait `selected` follows, and a selection on its page is taken over."""
        self._widgets.add(widget)
        widget.observe(self._selected_on_page, "selected")

    def _selected_on_page(self, change: dict[str, Any]) -> None:
        value = change["new"]
        if value.get("by") == "page":
            self.take(value)

    def take(self, selected: Mapping[str, Any]) -> None:
        """Takes over what a page has selected; no widget hears of it from here."""
        self.set_trait("value", {name: selected[name] for name in selected if name in FACETS})


selection = Selection()
