"""The table that `sglab backends` prints: what each registered backend serves, read off its capabilities."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from sglab.attention.capabilities import Capabilities
from sglab.attention.registry import ATTENTION_BACKENDS, capabilities_by_name
from sglab.attention.upstream import SGLANG_BACKENDS

_LAYER_OPTIONS = ("sliding_window", "logit_cap", "xai_temperature", "sinks", "cross_attention", "bidirectional")


def capabilities_table() -> str:
    """A block per backend, a line per capability, and the names that SGLang has beyond them."""
    declared = capabilities_by_name()
    lines = []
    for name, capabilities in declared.items():
        lines += [name, *(f"  {row:14} {entry}" for row, entry in _column(capabilities).items()), ""]
    for version in ("0.5.9", "0.5.23"):
        absent = ", ".join(name for name in SGLANG_BACKENDS[version] if name not in ATTENTION_BACKENDS)
        if not absent:
            continue
        lines.append(textwrap.fill(f"SGLang {version} has these too: {absent}", 100, subsequent_indent="  "))
    return "\n".join(lines)


def _column(c: Capabilities) -> dict[str, str]:
    """Row name -> a backend's entry."""
    return {
        "attention": _listed([kind.upper() for kind in c.kinds]),
        "modes": _listed([mode.name for mode in c.modes]),
        "other modes": c.fallback or "-",
        "drafts": c.drafts or "-",
        "CUDA graphs": _listed([mode.name for mode in c.graph_modes]),
        "page sizes": _listed(c.page_sizes, "any"),
        "dtypes": _listed(c.dtypes),
        "head dims": _listed(c.head_dims, "any"),
        "layer options": _listed([name for name in _LAYER_OPTIONS if getattr(c, name)]),
    }


def _listed(entries: Sequence[object], none: str = "-") -> str:
    return ", ".join(map(str, entries)) or none
