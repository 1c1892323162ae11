"""The tables of `sglab backends` and of docs/backends.md: what each backend serves, and what is real of it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from sglab.attention.capabilities import Capabilities
from sglab.attention.origins import ORIGINS
from sglab.attention.registry import backend_factory, capabilities_by_name
from sglab.attention.selection import (
    HARDWARE,
    VERSIONS,
    BackendSelection,
    Hardware,
    Model,
    SelectionError,
    select_attention_backend,
)
from sglab.attention.upstream import ABSENT

_LAYER_OPTIONS = (
    "sliding_window",
    "windows_in_trees",
    "chunked",
    "logit_cap",
    "xai_temperature",
    "sinks",
    "cross_attention",
    "encoders_in_graphs",
    "bidirectional",
    "bidirectional_window",
    "bidirectional_drafts",
    "image_conditioning",
    "image_masks",
    "topk_indices",
    "alibi",
    "score_mod",
)
MODELS = {
    "MHA": Model(use_mla=False),
    "MLA": Model(use_mla=True),
    "DeepSeek-V3": Model(use_mla=True, architecture="DeepseekV3ForCausalLM"),
    "DeepSeek-V3.2": Model(use_mla=True, architecture="DeepseekV3ForCausalLM", sparse=True),
    "GPT-OSS": Model(use_mla=False, architecture="GptOssForCausalLM", attention_sinks=True),
    "Llama 4": Model(use_mla=False, architecture="Llama4ForConditionalGeneration"),
    "Qwen3-Next": Model(use_mla=False, architecture="Qwen3NextForCausalLM"),
}
"""Models that selection is asked about."""


def capabilities_table(names: Sequence[str] = ()) -> str:
    """A block per backend, a line per capability, and the names that SGLang has beyond them.

    Args:
        names: of the backends to show; none: all.

    Raises:
        UnknownBackendError: no backend has this name.
    """
    for name in names:
        backend_factory(name)
    lines = []
    for name, capabilities in capabilities_by_name().items():
        if names and name.partition(" ")[0] not in names:
            continue
        rows = {**_column(capabilities), **_origin(name.partition(" ")[0])}
        for row, entry in rows.items():
            lines += [name] if row == "attention" else []
            lines.append(textwrap.fill(entry, 110, initial_indent=f"  {row:14} ", subsequent_indent=" " * 17))
        lines.append("")
    lines += [] if names else ["SGLang 0.5.23 takes these names, too; here they are refused:"]
    for name, absent in () if names else ABSENT.items():
        text = f"{name}: {absent.what}; {absent.why}"
        lines.append(textwrap.fill(text, 110, initial_indent="  ", subsequent_indent="    "))
    return "\n".join(lines)


def _column(c: Capabilities) -> dict[str, str]:
    """Row name -> a backend's entry."""
    return {
        "attention": _listed([kind.upper() for kind in c.kinds]),
        "modes": _listed([mode.name for mode in c.modes]),
        "other modes": c.fallback or "-",
        "drafts": c.drafts or "-",
        "CUDA graphs": _listed([mode.name for mode in c.graph_modes]),
        "bits": "a row's are the same in every batch (deterministic mode)" if c.deterministic else "-",
        "page sizes": _listed(c.page_sizes, "any"),
        "dtypes": _listed(c.dtypes),
        "KV dtypes": _listed(
            ("the queries'", *c.kv_dtypes, *c.in_prompts, *(["656-byte records"] if c.kv_records else []))
        ),
        "head dims": _listed(c.head_dims, "any"),
        "layer options": _listed([name for name in _LAYER_OPTIONS if getattr(c, name)]),
        "dcp_size": _spread(c),
        "attn_cp_size": _prompts(c),
    }


def _spread(c: Capabilities) -> str:
    """What is served of contexts that ranks share."""
    if c.dcp is None:
        return "-"
    kinds = [kind.upper() for kind in c.dcp.kinds if kind in c.kinds]
    parts = [_listed(kinds), _listed([mode.name for mode in c.dcp.modes])]
    parts.append("prefixes gathered" if c.dcp.gathers_prefix else "shares of prefixes joined")
    if c.dcp.graph_modes:
        parts.append(f"graphs of {_listed([mode.name for mode in c.dcp.graph_modes])}")
    parts += [f"pages of {_listed(c.dcp.page_sizes)}"] if c.dcp.page_sizes else []
    options = [*c.dcp.kv_dtypes, *(name for name in _LAYER_OPTIONS if getattr(c.dcp, name))]
    return "; ".join([*parts, *([_listed(options)] if options else [])])


def _prompts(c: Capabilities) -> str:
    """What is served of prompts that ranks share."""
    if c.cp is None:
        return "-"
    kinds = [kind.upper() for kind in c.cp.kinds if kind in c.kinds]
    parts = [_listed(kinds), _listed([mode.name for mode in c.cp.modes])]
    parts.append("tokens take turns" if c.cp.interleaves else "blocks in a zigzag")
    parts += [f"pages of {_listed(c.cp.page_sizes)}"] if c.cp.page_sizes else []
    options = [*c.cp.kv_dtypes, *(name for name in _LAYER_OPTIONS if getattr(c.cp, name))]
    return "; ".join([*parts, *([_listed(options)] if options else [])])


def cp_table() -> str:
    """Markdown: a row per backend that serves prompts that ranks share."""
    lines = [_row(("backend", "attn_cp_size")), _row(["---"] * 2)]
    shared = {name: c for name, c in capabilities_by_name().items() if c.cp is not None}
    return "\n".join([*lines, *(_row((f"`{name}`", _prompts(c))) for name, c in shared.items())])


def dcp_table() -> str:
    """Markdown: a row per backend that serves contexts that ranks share."""
    lines = [_row(("backend", "dcp_size")), _row(["---"] * 2)]
    shared = {name: c for name, c in capabilities_by_name().items() if c.dcp is not None}
    return "\n".join([*lines, *(_row((f"`{name}`", _spread(c))) for name, c in shared.items())])


def _origin(name: str) -> dict[str, str]:
    origin = ORIGINS.get(name)
    if origin is None:
        return {}
    rows = {"in SGLang": f"{origin.kernels}; {origin.machine}", "here": origin.here}
    return {**rows, "otherwise": origin.differs} if origin.differs else rows


def matrix_table() -> str:
    """Markdown: a row per backend, a column per capability."""
    common = ("attention", "modes", "other modes", "drafts", "CUDA graphs", "page sizes", "dtypes", "KV dtypes")
    names = (*common, "head dims", "layer options", "bits")
    lines = [_row(("backend", *names)), _row(["---"] * (len(names) + 1))]
    for listed, capabilities in capabilities_by_name().items():
        column = {**_column(capabilities), "bits": "fixed" if capabilities.deterministic else "-"}
        lines.append(_row((f"`{listed}`", *(column[name] for name in names))))
    return "\n".join(lines)


def origins_table() -> str:
    """Markdown: what SGLang runs in each backend, what is real of it here, and what is otherwise."""
    lines = [_row(("backend", "in SGLang", "there it runs on", "here", "otherwise")), _row(["---"] * 5)]
    for name, origin in ORIGINS.items():
        source = f"{origin.kernels} (`{origin.source.split(' ')[0].rstrip(',')}`)"
        lines.append(_row((f"`{name}`", source, origin.machine, origin.here, origin.differs or "-")))
    return "\n".join(lines)


def absent_table() -> str:
    """Markdown: SGLang's names that are refused here, what they are, and why."""
    lines = [_row(("name", "in SGLang 0.5.23", "why it is not here", "nearest here")), _row(["---"] * 4)]
    for name, absent in ABSENT.items():
        lines.append(_row((f"`{name}`", absent.what, absent.why, f"`{absent.nearest}`")))
    return "\n".join(lines)


def selection_table() -> str:
    """Markdown: SGLang's choice by machine, model and version; where versions differ each is named."""
    lines = [_row(("machine", *MODELS)), _row(["---"] * (len(MODELS) + 1))]
    for name, hardware in HARDWARE.items():
        lines.append(_row((name, *(_choices(hardware, model) for model in MODELS.values()))))
    return "\n".join(lines)


def reasons_table() -> str:
    """Markdown: every reason that decides in `selection_table`, and in which versions."""
    found: dict[str, dict[str, list[str]]] = {}
    for hardware in HARDWARE.values():
        for model in MODELS.values():
            for version in VERSIONS:
                choice = _chosen(hardware, model, version)
                if isinstance(choice, str):
                    continue
                named = found.setdefault(choice.reason, {}).setdefault(version, [])
                if choice.decode not in named:
                    named.append(choice.decode)
    lines = [_row(("rule", *VERSIONS)), _row(["---"] * (len(VERSIONS) + 1))]
    lines += [_row((why, *(_listed(by.get(version, [])) for version in VERSIONS))) for why, by in found.items()]
    return "\n".join(lines)


def _chosen(hardware: Hardware, model: Model, version: str) -> BackendSelection | str:
    try:
        return select_attention_backend(hardware, model, version=version)
    except SelectionError as refused:
        return f"refused: {refused}"


def _choices(hardware: Hardware, model: Model) -> str:
    named = {}
    for version in VERSIONS:
        choice = _chosen(hardware, model, version)
        named[version] = "refused" if isinstance(choice, str) else choice.decode
    if len(set(named.values())) == 1:
        return next(iter(named.values()))
    return ", ".join(f"{version}: {name}" for version, name in named.items())


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _listed(entries: Sequence[object], none: str = "-") -> str:
    return ", ".join(map(str, entries)) or none
