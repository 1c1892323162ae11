"""BackendExplorer: what every attention backend would build, run, cost and refuse, and which of them SGLang takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import traitlets

from sglab.attention.explore import Exploration
from sglab.attention.selection import HARDWARE, VERSIONS
from sglab.engine import BadArgumentError
from sglab.workbench import Batch, attend, trace
from sglab.workbench.explore import HEADS, KV_CACHE_DTYPES, MODES, Question, ask, question_of
from sglab.workbench.float64 import max_error, reference

from .backend_explorer_rows import choice_lines, header, openings, row
from .backend_explorer_runs import Runnable, attention_kernel, runnable, split_kv
from .base import Widget, asset, command
from .page import html_page
from .page_table import PageTable

OPENED = ("SplitKV", "PageTable", "KernelDebugger")


class BackendExplorer(Widget):
    """Every backend's answer to one pass, side by side, with SGLang's choice and the rule that made it.

    Attributes:
        exploration: what is shown, as `sglab.workbench.explore_backends` returns it.

    Args:
        seq_lens: KV tokens per request, or a live batch, whose lengths, heads, mode and pages then stay.
        question: the other arguments of `sglab.workbench.explore_backends`: model, machine, version, mode and flags.

    Raises:
        BadArgumentError, naming the argument.
    """

    bundle = "backend_explorer"
    format = 1
    _module = asset("backend_explorer.js")
    _css = asset("backend_explorer.css")

    question = traitlets.Dict(help="the fields of Question").tag(sync=True)
    options = traitlets.Dict(
        help="what each may be: models, machines, versions, modes, kvDtypes; fixed: by a live batch"
    ).tag(sync=True)
    choices: traitlets.List[Any] = traitlets.List(help="SGLang's choice by version").tag(sync=True)
    rows: traitlets.List[Any] = traitlets.List(help="a backend each, see `backend_explorer_rows.row`").tag(sync=True)

    def __init__(self, seq_lens: Sequence[int] | Batch = Question.seq_lens, **question: Any) -> None:
        batch = seq_lens if isinstance(seq_lens, Batch) else None
        _check_names(question, {field.name for field in fields(Question)} - {"seq_lens"})
        if batch is not None:
            asked = question_of(batch, **question)
        else:
            asked = Question(seq_lens=tuple(seq_lens), **question).checked()  # type: ignore[arg-type]
        found = ask(asked, batch)
        super().__init__()
        self._batch = batch
        self._opened: list[Widget] = []
        self._show(asked, found)

    def ask(self, **changes: Any) -> None:
        """Ask again, with other values of some fields. What is refused changes nothing.

        Raises:
            BadArgumentError, naming the argument.
        """
        _check_names(changes, {field.name for field in fields(Question)})
        fixed = sorted(set(changes) & set(self.options["fixed"]))
        if fixed:
            remedy = "Build another batch, or pass lengths instead of one."
            raise BadArgumentError(fixed[0], "the batch's own", changes[fixed[0]], remedy)
        whole = {**asdict(self._asked), **changes}
        if "model" in changes:  # its own heads, unless others are asked for with it
            whole |= {name: changes.get(name) for name in ("num_heads", "num_kv_heads") if self._batch is None}
        if not isinstance(whole["seq_lens"], list | tuple):
            raise BadArgumentError("seq_lens", "tokens per request", repr(whole["seq_lens"]), "Pass a list.")
        whole["seq_lens"] = tuple(whole["seq_lens"])
        asked = Question(**whole).checked()
        if self._batch is not None and asked.is_mla != (self._batch.kind == "mla"):
            raise BadArgumentError("model", f"one of {self._batch.kind.upper()}", asked.model, "Build another batch.")
        self._show(asked, ask(asked, self._batch))

    @command
    def change(self, question: dict[str, Any]) -> int:
        """What the page asks when a control changes; answers with the revision that shows it."""
        if not isinstance(question, dict):
            raise BadArgumentError("question", "fields by name", repr(question), "Pass a dict.")
        self.ask(**question)
        return self.revision

    @command
    def run(self, backend: str) -> dict[str, Any]:
        """Runs a backend here, on a small batch of the same shape, and compares with float64."""
        made = self._runnable(backend)
        out = attend(made.batch, backend, implementation=made.implementation)
        info: Any = out.info  # type: ignore[attr-defined]
        return {
            "backend": backend,
            "batch": made.text,
            "runs": [
                {"operator": each.operator, "implementation": each.implementation, "machine": each.machine}
                for each in info.runs
            ],
            "notes": list(info.notes),
            "error": max_error(out, reference(made.batch).o),
            "dtype": str(made.batch.dtype).removeprefix("torch."),
        }

    def view(self, widget: str, backend: str) -> Widget:
        """A backend's plan in SplitKV, its arrays in PageTable, or its kernel in KernelDebugger.

        Raises:
            BadArgumentError: it has none for this pass; the message says why.
        """
        if widget not in OPENED:
            raise BadArgumentError("widget", f"one of {', '.join(OPENED)}", repr(widget), "Choose one of these.")
        closed = openings(self._answer(backend), self._asked, self._batch)[widget]
        if closed:
            raise BadArgumentError("backend", f"one that {widget} can show", backend, closed)
        made: Widget
        if widget == "SplitKV":
            made = split_kv(self.exploration[backend], self._asked)
        elif widget == "PageTable":
            shown = self._runnable(backend)
            slots = any(array["name"].endswith("kv_indices") for array in self._row(backend)["arrays"])
            made = PageTable(shown.batch, "flashinfer" if slots else "flashmla")
        else:
            from .kernel_debugger import KernelDebugger

            shown = self._runnable(backend)
            made = KernelDebugger(
                attention_kernel(trace(shown.batch, backend, implementation=shown.emulated)).session()
            )
        self._opened.append(made)
        return made

    @command
    def open_widget(self, widget: str, backend: str) -> dict[str, Any]:
        """Opens one: its model, for hosts that show it live, and a page of it, for all others."""
        made = self.view(widget, backend)
        title = f"{made.header['title']} of {backend}"
        return {"widget": widget, "title": title, "model": str(made.model_id), "page": html_page([made], title)}

    def after_cell(self) -> None:
        if self._batch is None:
            return
        now = tuple(self._batch.seq_lens.tolist())
        changed = bool(now) and now != self._asked.seq_lens
        self.outdated = "The batch has other lengths than those that were asked about." if changed else ""

    @command
    def run_again(self) -> str:
        """Asks about the batch as it is now."""
        if self._batch is None:
            return super().run_again()
        kept = {field.name for field in fields(Question)} - set(self.options["fixed"])
        asked = question_of(self._batch, **{name: getattr(self._asked, name) for name in kept})
        self.outdated = ""
        self._show(asked, ask(asked, self._batch))
        return ""

    def _answer(self, backend: str) -> Any:
        names = [each.name for each in self.exploration.answers]
        if backend not in names:
            raise BadArgumentError("backend", f"one of {', '.join(names)}", repr(backend), "Choose one of these.")
        return self.exploration[backend]

    def _row(self, backend: str) -> dict[str, Any]:
        return next(each for each in self.rows if each["name"] == backend)

    def _runnable(self, backend: str) -> Runnable:
        return runnable(self._answer(backend), self._asked, self._batch)

    def _show(self, asked: Question, found: Exploration) -> None:
        self._asked, self.exploration = asked, found
        live = self._batch is not None
        own = ("seq_lens", "mode", "new_tokens", "num_heads", "num_kv_heads", "page_size", "dcp_size")
        fixed = own if live else ()
        heads, kv_heads = asked.heads
        models = [
            {"name": name, "like": shape.like}
            for name, shape in HEADS.items()
            if self._batch is None or Question(model=name).is_mla == (self._batch.kind == "mla")
        ]
        self.publish(
            {},
            question={**asdict(asked), "num_heads": heads, "num_kv_heads": kv_heads},
            options={
                "models": models,
                "machines": list(HARDWARE),
                "versions": list(VERSIONS),
                "modes": list(MODES),
                "kvDtypes": list(KV_CACHE_DTYPES),
                "fixed": list(fixed),
            },
            choices=choice_lines(found),
            rows=[row(each, found, asked, self._batch) for each in found.answers],
            header=header(asked, found),
        )


def _check_names(given: dict[str, Any], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise BadArgumentError(name, f"one of {', '.join(sorted(known))}", "another name", "Rename it.")
