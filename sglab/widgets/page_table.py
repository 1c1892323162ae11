"""PageTable: requests → token slots → pages, and the kernel that builds the page table, access by access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import traitlets

from sglab.workbench import Batch
from sglab.workbench.recorders.index_runs import IndexRun, Kernel, run_index_kernel
from sglab.workbench.recorders.page_pool import PagePool, read_pool
from sglab.workbench.recorders.triton import MACHINE as INTERPRETER
from sglab.workbench.transaction import Snapshot

from . import page_table_text as text
from .base import Widget, asset, command
from .cells import changed
from .changes import Versions

KERNELS: tuple[Kernel, ...] = ("flashmla", "flashinfer")
Action = Literal["allocate", "extend", "share", "free", "evict"]
UNDONE = 20
"""Edits that can be undone at most: each keeps the rows of the table, and the KV that it gave away."""


class PageTable(Widget):
    """The page table of a live batch: step through its construction, edit the batch, watch the pool.

    Attributes:
        kernel: which index kernel to show first: "flashmla" builds block_kv_indices (one page per entry), "flashinfer"
            builds kv_indices (one token slot per entry). Both are Triton kernels, compiled and run on the emulator, or,
            where that cannot be, by Triton's interpreter.

    Args:
        batch: what `sglab.decode_batch` or `sglab.extend_batch` returns. The widget edits it through its own methods
            (allocate, extend_by_token, share_prefix, free), reruns the index kernel after every edit, and follows edits
            made in other cells.
    """

    bundle = "page_table"
    format = 2
    _module = asset("page_table.js")
    _css = asset("page_table.css")

    kernel = traitlets.Unicode("flashmla").tag(sync=True)
    names = traitlets.List(traitlets.Unicode(), help="the requests' names").tag(sync=True)
    pool = traitlets.Dict(help="see PagePool.summary").tag(sync=True)
    runs = traitlets.Dict(help="kernel -> what there is to step through").tag(sync=True)
    changed_pages = traitlets.List(traitlets.Int(), help="pages that the last edit took, gave back or grew into").tag(
        sync=True
    )

    stale = traitlets.Int(0, help="grows when the batch was edited elsewhere").tag(sync=True)

    def __init__(self, batch: Batch, kernel: Kernel = "flashmla") -> None:
        if not isinstance(batch, Batch):
            raise TypeError(f"batch must be what sglab.decode_batch returns; got {type(batch).__name__}")
        super().__init__(kernel=_kernel(kernel))
        self.batch = batch
        self._edits: list[tuple[int, str, Snapshot]] = []
        self._edit_count = 0
        self.refresh()

    def refresh(self) -> None:
        """Reads the batch again and reruns the shown kernel. Notebooks do it by themselves, other code must."""
        self._reread(())

    def _reread(self, changed_pages: Sequence[int], pool: PagePool | None = None) -> None:
        kernel = _kernel(self.kernel)
        self.batch.check_page_table()
        self._runs = {kernel: run_index_kernel(kernel, self.batch)}
        self._page_pool = pool or read_pool(self.batch)
        self._seen = self._witnesses()
        self._versions, self.outdated = Versions([("req_to_token", self.batch.req_to_token)]), ""
        self._publish(kernel, changed_pages)

    def after_cell(self) -> None:
        """Notifies the pages that show this widget if the batch was edited elsewhere; they then ask to `catch_up`.
        A table that was written to by hand need not make sense: it is read when the reader says so."""
        if self._outdated():
            self.stale += 1
        else:
            super().after_cell()

    @command
    def run_again(self) -> str:
        """Runs the kernel on what the table holds now."""
        self.refresh()
        return ""

    @command
    def catch_up(self) -> None:
        """Reads the batch again if it was edited since."""
        if self._outdated():
            self.refresh()

    def _outdated(self) -> bool:
        return any(now is not then for now, then in zip(self._witnesses(), self._seen, strict=True))

    def _edited_elsewhere(self) -> bool:
        return self._outdated() or bool(self._versions.changed())

    def _witnesses(self) -> tuple[object, ...]:
        """Objects that an edit replaces: every edit makes a new ForwardBatch, every eviction a new free list."""
        allocator = self.batch.runner.token_to_kv_pool_allocator
        return self.batch.forward_batch, allocator.free_pages, allocator.release_pages

    @command
    def show_kernel(self, kernel: Kernel) -> None:
        """Shows the other index kernel, recording it on the batch as it is now."""
        self.catch_up()
        kernel = _kernel(kernel)
        self._record(kernel)
        self._publish(kernel, self.changed_pages)

    def _record(self, kernel: Kernel) -> None:
        if kernel not in self._runs:
            self._runs[kernel] = run_index_kernel(kernel, self.batch)

    @command
    def edit(self, action: Action, request: int = 0, tokens: int = 1) -> dict[str, Any]:
        """Edits the batch with its real allocator and says what happened: `message`, the request to look at, and the
        edit's number, for `undo`.

        An edit that the batch refuses raises what the batch raises, and nothing has changed.
        """
        self.batch.check_page_table()
        if self._edited_elsewhere():
            self._edits.clear()
        leaves = action == "free" and 0 <= request < self.batch.batch_size
        snapshot = self.batch.snapshot(request if leaves else None)
        before = read_pool(self.batch)
        name, looked_at = self._apply(action, request, tokens)
        after = read_pool(self.batch)
        self._reread(text.changed_pages(before, after), after)
        self._edit_count += 1
        self._edits = [*self._edits, (self._edit_count, f"{action} {name}".strip(), snapshot)][-UNDONE:]
        said = text.after_edit(action, name, looked_at, tokens, before, after)
        changed(self)
        return {"message": said, "request": looked_at, "number": self._edit_count}

    @command
    def undo(self, number: int) -> dict[str, Any]:
        """Takes back the last edit, which must be this one, with the KV that it gave away.

        Raises:
            RuntimeError: the batch was edited otherwise since; nothing has changed.
        """
        if not self._edits or self._edits[-1][0] != number or self._edited_elsewhere():
            raise RuntimeError("The batch was edited elsewhere since: undoing this would undo that as well.")
        before = read_pool(self.batch)
        _, name, snapshot = self._edits.pop()
        snapshot.restore()
        after = read_pool(self.batch)
        self._reread(text.changed_pages(before, after), after)
        changed(self)
        return {"message": f"Undone: {name}.", "request": None, "number": number}

    def _apply(self, action: Action, request: int, tokens: int) -> tuple[str, int | None]:
        """Does the edit. Returns the name to speak of and the index of the request to look at."""
        batch = self.batch
        if action == "allocate":
            new = batch.allocate(tokens)
            return batch.reqs[new].rid, new
        if action == "evict":
            batch.evict(batch.runner.token_to_kv_pool.size)
            return "", None
        name = self.names[request] if 0 <= request < len(self.names) else f"request {request}"
        if action == "extend":
            batch.extend_by_token(request)
            return name, request
        if action == "share":
            new = batch.share_prefix(request, tokens)
            return f"{batch.reqs[new].rid} (from {name})", new
        if action == "free":
            batch.free(request)
            return name, None
        raise ValueError(f"action must be allocate, extend, share, free or evict; got {action!r}")

    def saved(self) -> dict[str, Any]:
        self.catch_up()
        for kernel in KERNELS:
            self._record(kernel)
        self._publish(_kernel(self.kernel), self.changed_pages)
        return super().saved()

    def _publish(self, kernel: Kernel, changed_pages: Sequence[int]) -> None:
        pool, runs = self._page_pool, self._runs
        tensors: dict[str, Any] = {
            "requests": pool.requests,
            "request_pages": pool.request_pages,
            "request_indptr": pool.request_indptr,
            "pages": pool.pages,
        }
        for each, run in runs.items():
            tensors |= {f"{each}.{name}": value for name, value in _run_tensors(run).items()}
        self.publish(
            tensors,
            kernel=kernel,
            names=[req.rid for req in self.batch.reqs],
            pool=pool.summary(),
            runs={each: _run_facts(run) for each, run in runs.items()},
            changed_pages=list(changed_pages),
            header=_header(self.batch, runs[kernel], pool),
        )


def _run_tensors(run: IndexRun) -> dict[str, Any]:
    return {
        **run.inputs,
        run.output: run.after,
        f"{run.output}.before": run.before,
        **{f"{name}.touched_at": moments for name, moments in run.touched_at.items()},
        "moments": run.moments,
        "step_ends": run.step_ends,
        "program_ends": run.program_ends,
    }


def _run_facts(run: IndexRun) -> dict[str, Any]:
    source = run.trace.source
    assert source is not None
    arrays = {**run.inputs, run.output: run.after}
    return {
        "kernel": run.trace.kernel,
        "threads": run.trace.machine != INTERPRETER,
        "moments": len(run.moments),
        "output": run.output,
        "tensors": [tensor.name for tensor in run.trace.tensors],
        "arrays": [
            {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()
        ],
        "source": {"file": source.file, "first_line": source.first_line, "text": source.text},
    }


def _header(batch: Batch, run: IndexRun, pool: PagePool) -> dict[str, Any]:
    tokens = int(pool.requests[:, 1].sum())
    machine, kernel = run.trace.machine, run.trace.kernel
    if machine == INTERPRETER:
        how = (
            f"{kernel} was interpreted by Triton on this batch's own tensors, as it could not be compiled or emulated."
        )
    else:
        how = f"{kernel}, compiled by Triton, ran on the emulator on this batch's own tensors."
    badge = {"text": machine, "title": f"{how} Every access that is drawn was recorded from that run."}
    subject = text.subject(batch.batch_size, tokens, pool)
    return {"title": "Page table", "subject": subject, "badge": badge}


def _kernel(name: str) -> Kernel:
    for kernel in KERNELS:
        if name == kernel:
            return kernel
    raise ValueError(f"kernel must be one of {', '.join(KERNELS)}; got {name!r}")
