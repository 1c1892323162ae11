"""Interactive widgets: each draws a trace recorded from a real run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import Widget, command
from .page import html_page
from .recordings import recording
from .selection import selection

if TYPE_CHECKING:
    from .backend_explorer import BackendExplorer
    from .barriers import Barriers
    from .draft_tree import DraftTree
    from .experts import Experts
    from .graph import Graph
    from .kernel_debugger import KernelDebugger
    from .layout import Layout
    from .nan_spread import NanSpread
    from .online_softmax import OnlineSoftmax
    from .page_table import PageTable
    from .radix_tree import RadixTree
    from .ranks import Ranks
    from .roofline import Roofline
    from .scheduler import Scheduler
    from .shared_memory import SharedMemory
    from .sparse_attention import SparseAttention
    from .split_kv import SplitKV
    from .tensor_memory import TensorMemory
    from .warp_roles import WarpRoles

__all__ = [
    "BackendExplorer",
    "Barriers",
    "DraftTree",
    "Experts",
    "Graph",
    "KernelDebugger",
    "Layout",
    "NanSpread",
    "OnlineSoftmax",
    "PageTable",
    "RadixTree",
    "Ranks",
    "Roofline",
    "Scheduler",
    "SharedMemory",
    "SparseAttention",
    "SplitKV",
    "TensorMemory",
    "WarpRoles",
    "Widget",
    "command",
    "html_page",
    "recording",
    "selection",
]

_LAZY = {
    "BackendExplorer": "backend_explorer",
    "Barriers": "barriers",
    "DraftTree": "draft_tree",
    "Experts": "experts",
    "Graph": "graph",
    "KernelDebugger": "kernel_debugger",
    "Layout": "layout",
    "NanSpread": "nan_spread",
    "OnlineSoftmax": "online_softmax",
    "PageTable": "page_table",
    "Ranks": "ranks",
    "RadixTree": "radix_tree",
    "Roofline": "roofline",
    "Scheduler": "scheduler",
    "SharedMemory": "shared_memory",
    "SparseAttention": "sparse_attention",
    "SplitKV": "split_kv",
    "TensorMemory": "tensor_memory",
    "WarpRoles": "warp_roles",
}
"""Widget -> its module, imported when it is first used: one widget's needs are not another's."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'sglab.widgets' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
