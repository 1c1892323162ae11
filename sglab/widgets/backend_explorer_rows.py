"""A backend's answer as the page of BackendExplorer reads it."""

from __future__ import annotations

import re
from typing import Any

from sglab.attention.capabilities import NAMED
from sglab.attention.explore import Answer, BuiltArray, Cost, Exploration
from sglab.attention.explore.built import TABLES
from sglab.attention.explore.plans import PlanFacts
from sglab.attention.origins import ORIGINS
from sglab.words import plural
from sglab.workbench import Batch
from sglab.workbench.explore import HEADS, Question

HEAD = 48
"""Elements of an array that a page shows."""
LISTED = 16
"""Entries of a list on the host that a page shows."""
COUNTED = (
    "Arrays are what the backends built for this pass, over real page tables. Bytes and FLOPs are counted from them, "
    "from its lengths, its mask and the plan. Times are bounds: bytes over published bandwidth, or FLOPs over "
    "published peaks, whichever is longer. No attention kernel ran."
)


def header(asked: Question, found: Exploration) -> dict[str, Any]:
    tokens, count = sum(asked.seq_lens), len(asked.seq_lens)
    heads, kv_heads = asked.heads
    spread = "".join(f" · {name} {size}" for name, size in _sizes(asked).items() if size > 1)
    subject = (
        f"{asked.mode} of {plural(count, 'request')}, {plural(tokens, 'KV token')} · {asked.model}, "
        f"{plural(heads, 'head')} on {plural(kv_heads, 'KV head')}{spread} · {asked.machine} · SGLang {asked.version}"
    )
    return {"title": "Backends", "subject": subject, "badge": {"text": "built · counted", "title": COUNTED}}


def _sizes(asked: Question) -> dict[str, int]:
    return {"dcp_size": asked.dcp_size, "attn_cp_size": asked.attn_cp_size}


def choice_lines(found: Exploration) -> list[dict[str, Any]]:
    """SGLang's choice by version: backend, rule, page size, notes; or its refusal to start."""
    lines: list[dict[str, Any]] = []
    for version, choice in found.choices.items():
        if isinstance(choice, str):
            lines.append({"version": version, "refused": choice})
            continue
        lines.append(
            {
                "version": version,
                "prefill": choice.prefill,
                "decode": choice.decode,
                "reason": choice.reason,
                "pageSize": choice.page_size,
                "graph": choice.cuda_graph,
                "notes": list(choice.notes),
            }
        )
    return lines


def row(answer: Answer, found: Exploration, asked: Question, batch: Batch | None) -> dict[str, Any]:
    """All that a page shows of one backend."""
    origin = ORIGINS.get(answer.name)
    prefill = asked.mode in ("extend", "mixed")
    made: dict[str, Any] = {
        "name": answer.name,
        "chosen": answer.name == found.chosen(prefill),
        "pageSize": answer.page_size,
        "servedBy": answer.served_by,
        "refusals": [
            {"by": each.by, "text": _advised(each.text, found), "argument": each.argument} for each in answer.refusals
        ],
        "named": [] if answer.selection is None else list(answer.selection.notes),
        "kernels": origin.kernels if origin else "",
        "machine": origin.machine if origin else "",
        "source": origin.source if origin else "",
        "here": origin.here if origin else "",
        "differs": origin.differs if origin else "",
        "notes": list(answer.notes),
        "arrays": [],
        "numbers": {},
        "scratch": [],
        "closed": openings(answer, asked, batch),
    }
    if answer.built is None:
        return made
    cost = {} if answer.cost is None else {"cost": _cost(answer.cost, found.hardware.name)}
    return {
        **made,
        **cost,
        "arrays": [_array(each) for each in answer.built.arrays],
        "arrayBytes": answer.built.nbytes,
        "numbers": {name: _number(value) for name, value in answer.built.numbers.items()},
        "scratch": [{"name": each.name, "bytes": each.nbytes, "kept": each.kept} for each in answer.built.scratch],
        "passScratch": answer.built.pass_scratch,
        "keptScratch": answer.built.kept_scratch,
        "graphBytes": answer.built.graph_bytes,
        "plan": _plan(answer.plan),
    }


def _advised(text: str, found: Exploration) -> str:
    """A refusal whose advice names backends that run on the machine that is asked about, else that serve the pass
    elsewhere: a backend by itself knows only who is like it, not who refuses this pass, too."""
    chosen = (found.chosen(prefill=True), found.chosen(prefill=False))
    advice = re.search(r" Use [^.]*\.$", text)
    runs = [each.name for each in found.answers if each.runs]
    serve = runs or [each.name for each in found.answers if each.built is not None]
    if advice is None or not serve:
        return text
    *first, last = sorted(serve, key=lambda name: name not in chosen)[:NAMED]
    listed = f"{', '.join(first)} or {last}" if first else last
    where = f"On {found.hardware.name} use" if runs else f"Nothing serves it on {found.hardware.name}; elsewhere"
    return f"{text[: advice.start()]} {where} {listed}{'' if runs else ' would'}."


def openings(answer: Answer, asked: Question, batch: Batch | None) -> dict[str, str]:
    """Widget -> why it cannot show this backend's; "" where it can."""
    if answer.built is None:
        refused = "It refuses this pass."
        return {"SplitKV": refused, "PageTable": refused, "KernelDebugger": refused, "run": refused}
    if max(_sizes(asked).values()) > 1:
        shared = "What one of several ranks has is not opened: other widgets show whole passes."
        return {"SplitKV": shared, "PageTable": shared, "KernelDebugger": shared, "run": shared}
    drafts = "Drafts are opened from a run: see DraftTree." if asked.mode.startswith("verify") else ""
    fp8 = "Rows of an FP8 pool are opened from an engine." if asked.kv_cache_dtype != "auto" else ""
    flags = "A window, sinks or a cap are not in the batches that are opened." if _has_flags(asked) else ""
    plan = answer.plan
    if isinstance(plan, PlanFacts) and plan.planner:
        own = not asked.is_mla and HEADS[asked.model].head_dim != 128 and batch is None
        split = "SplitKV plans heads of 128 and MLA's; this model has others." if own else ""
    elif isinstance(plan, PlanFacts):
        split = "SplitKV shows plans of a decode."
    else:
        split = str(plan)
    arrays = {array.name for array in answer.built.arrays}
    tabled = any(name.endswith(TABLES) for name in arrays)
    library = {
        "torch_native": "PyTorch's own call runs in it, no kernel that can be stepped.",
        "flex_attention": "PyTorch's own call runs in it, no kernel that can be stepped.",
        "intel_amx": "Its kernels here are C++ for the host, no kernel that can be stepped.",
    }
    table = drafts or ("" if tabled else "It builds no page table: it walks the requests' rows on the host.")
    return {
        "SplitKV": split,
        "PageTable": table,
        "KernelDebugger": drafts or fp8 or flags or library.get(answer.name, ""),
        "run": drafts or fp8 or flags,
    }


def _has_flags(asked: Question) -> bool:
    return asked.sliding_window >= 0 or asked.logit_cap > 0 or HEADS[asked.model].sinks


def _array(array: BuiltArray) -> dict[str, Any]:
    values = array.values
    return {
        "name": array.name,
        "dtype": str(values.dtype).removeprefix("torch."),
        "shape": list(values.shape),
        "bytes": array.nbytes,
        "sameAs": array.same_as,
        "host": array.on_host,
        "head": [int(each) for each in values.flatten()[:HEAD].tolist()],
    }


def _number(value: Any) -> Any:
    """A number or a word as it is; of a list its beginning."""
    if isinstance(value, list | tuple):
        more = [f"… {len(value) - LISTED:,} more"] if len(value) > LISTED else []
        return ", ".join(map(str, [*value[:LISTED], *more])) or "none"
    return value if isinstance(value, bool | int | float | str) else str(value)


def _plan(plan: PlanFacts | str | None) -> dict[str, Any]:
    if not isinstance(plan, PlanFacts):
        return {"none": plan or ""}
    return {
        "planner": plan.planner,
        "title": plan.title,
        "why": plan.why,
        "workspaceBytes": plan.workspace_bytes,
        "arrayBytes": plan.array_bytes,
        "partialBytes": plan.partial_bytes,
        "ctas": plan.ctas,
        "waves": plan.waves,
        "splits": None if plan.splits is None else list(plan.splits),
    }


def _cost(cost: Cost, machine: str) -> dict[str, Any]:
    bound = cost.bound(machine)
    return {
        "rows": cost.kv_rows,
        "kv": cost.kv_bytes,
        "other": cost.other_bytes,
        "copied": cost.copied_bytes,
        "qo": cost.qo_bytes,
        "index": cost.index_bytes,
        "partial": cost.partial_bytes,
        "bytes": cost.nbytes,
        "flops": cost.flops,
        "wasted": cost.wasted_flops,
        "intensity": cost.intensity,
        "bound": None if bound is None else {"ns": bound[0], "by": bound[1]},
        "notes": list(cost.notes),
    }
