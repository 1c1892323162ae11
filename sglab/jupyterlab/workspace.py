"""The JupyterLab workspace "sglab": the gallery with its page table, plan, timeline and debugger beside it."""

from __future__ import annotations

import json
from typing import Any

NAME = "sglab"
NOTEBOOK = "gallery.ipynb"
PAGES, PLAN = ("PageTable", "batch"), ("SplitKV", "batch")
TIMELINE, DEBUGGER = ("WarpRoles", "session"), ("KernelDebugger", "session")
"""Widgets, and what the notebook calls that which they open on."""


def workspace(notebook: str) -> dict[str, Any]:
    """What JupyterLab keeps of a workspace: which tabs there are, and where. The tabs wait until the notebook has what
    they show.

    Args:
        notebook: its path below the server's root.
    """
    keys = {tab: f"sglab:{notebook}:{':'.join(tab)}" for tab in (PAGES, PLAN, TIMELINE, DEBUGGER)}
    opened = {keys[tab]: {"path": notebook, "widget": tab[0], "name": tab[1]} for tab in keys}
    shown = f"notebook:{notebook}"
    opened[shown] = {"path": notebook, "factory": "Notebook"}
    left = _split("vertical", _tabs(shown, keys[PAGES]), _tabs(keys[PLAN], keys[TIMELINE]))
    layout = {
        "main": {"dock": _split("horizontal", left, _tabs(keys[DEBUGGER])), "current": shown},
        "left": {"collapsed": True, "visible": True},
        "right": {"collapsed": True, "visible": True},
    }
    data = {key: {"data": arguments} for key, arguments in opened.items()}
    return {"data": {"layout-restorer:data": layout, **data}, "metadata": {"id": NAME}}


def _split(orientation: str, *children: dict[str, Any]) -> dict[str, Any]:
    sizes = [1 / len(children)] * len(children)
    return {"type": "split-area", "orientation": orientation, "sizes": sizes, "children": list(children)}


def _tabs(*widgets: str) -> dict[str, Any]:
    return {"type": "tab-area", "currentIndex": 0, "widgets": list(widgets)}


def offer_workspace(notebook: str) -> bool:
    """Puts the workspace among the user's, unless there is one of this name; returns whether it did.

    Raises:
        ImportError: there is no JupyterLab.
        OSError: the folder of workspaces cannot be written.
    """
    from jupyterlab.commands import get_workspaces_dir
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    manager = WorkspacesManager(get_workspaces_dir())
    if any(each["metadata"]["id"] == NAME for each in manager.list_workspaces()):
        return False
    manager.save(NAME, json.dumps(workspace(notebook)))
    return True
