"""Recorded runs of the index kernels, cut into moments that a reader can step through.

A moment is one element of a vector step: the entry that was read and the entry that was written, or one of the two. A
load and the store that follows it in the same program with as many elements are one vector step: in these kernels the
i-th element of the store is made from the i-th of the load, which `IndexRun` checks on the recorded values. Triton may
have another lane write an element than the one that read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from sglab.gpu.errors import LaunchError, missing
from sglab.kernels import kv_indices
from sglab.workbench.batch import Batch
from sglab.workbench.recorders.emulated import record_emulated
from sglab.workbench.recorders.memory import LOAD, STORE, MemoryTrace
from sglab.workbench.recorders.triton import record_triton

try:
    from sglab.kernels.kv_indices import triton as kernels
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "triton":
        raise
    raise missing("triton", "kernels", "PageTable, which steps through a Triton kernel,") from None

Kernel = Literal["flashmla", "flashinfer"]
OUTPUTS: dict[Kernel, str] = {"flashmla": "block_kv_indices", "flashinfer": "kv_indices"}
TILE_TOKENS = 128
SHOWN_WHOLE = 2**20
"""Entries of req_to_token up to which a run records all of it (4 MiB)."""

COLUMNS = (
    "program", "lane", "read_line", "read_tensor", "read_row", "read_column", "read_value",
    "write_line", "write_tensor", "write_row", "write_column", "write_value", "write_lane",
)  # fmt: skip
NONE = -1


@dataclass(frozen=True)
class IndexRun:
    """One run of an index kernel over a batch's page table.

    Attributes:
        inputs: what it read, by name; the tensors as they were.
        before, after: the output around the run; `before` holds what it was allocated with.
    """

    kernel: Kernel
    trace: MemoryTrace
    page_size: int
    inputs: dict[str, np.ndarray]
    before: np.ndarray
    after: np.ndarray

    @property
    def output(self) -> str:
        return OUTPUTS[self.kernel]

    @cached_property
    def steps(self) -> list[tuple[int, int | None]]:
        """Operations in order, paired: (load, store) of a vector step, or one operation and None."""
        trace, steps, operation = self.trace, [], 0
        while operation < trace.operations:
            partner = operation + 1 if self._feeds(operation) else None
            steps.append((operation, partner))
            operation += 1 if partner is None else 2
        return steps

    def _feeds(self, load: int) -> bool:
        trace, store = self.trace, load + 1
        if store >= trace.operations or (trace.kind[load], trace.kind[store]) != (LOAD, STORE):
            return False
        first = trace.first
        elements = first[load + 1] - first[load], first[store + 1] - first[store]
        same_program = trace.program[load] == trace.program[store] and trace.lanes[load] == trace.lanes[store]
        return bool(same_program and elements[0] == elements[1])

    @cached_property
    def moments(self) -> np.ndarray:
        """int32 [M, 13], the columns of COLUMNS; NONE where a moment reads or writes nothing."""
        parts = [self._moments_of(*step) for step in self.steps]
        table = np.concatenate(parts) if parts else np.zeros((0, len(COLUMNS)), np.int32)
        self._check_values(table)
        return table

    def _moments_of(self, operation: int, store: int | None) -> np.ndarray:
        trace = self.trace
        rows = trace.rows(operation)
        table = np.full((rows.stop - rows.start, len(COLUMNS)), NONE, dtype=np.int32)
        table[:, 0] = trace.program[operation]
        table[:, 1] = trace.lane[rows]
        read = operation if trace.kind[operation] == LOAD else None
        written = store if read is not None else operation
        if read is not None:
            table[:, 2:7] = self._accesses(read)
        if written is not None:
            table[:, 7:12] = self._accesses(written)
            table[:, 12] = trace.lane[trace.rows(written)]
        return table

    def _accesses(self, operation: int) -> np.ndarray:
        """line, tensor, row, column, value of every access of an operation; a vector's row is 0."""
        trace, rows = self.trace, self.trace.rows(operation)
        out = np.zeros((rows.stop - rows.start, 5), dtype=np.int64)
        out[:, 0], out[:, 1], out[:, 4] = trace.line[operation], trace.tensor[rows], self._values[rows]
        for number, tensor in enumerate(trace.tensors):
            mine = trace.tensor[rows] == number
            places = tensor.coordinates(trace.index[rows][mine])
            out[mine, 3] = places[-1]
            if len(places) > 1:
                out[mine, 2] = places[0]
        return out

    @cached_property
    def _values(self) -> np.ndarray:
        return self.trace.values()

    def _check_values(self, table: np.ndarray) -> None:
        paired = (table[:, 3] != NONE) & (table[:, 8] != NONE)
        divisor = self.page_size if self.kernel == "flashmla" else 1
        if not np.array_equal(table[paired, 6] // divisor, table[paired, 11]):
            raise RuntimeError(f"{self.trace.kernel}: an element was stored that is not what was read for it")

    @cached_property
    def step_ends(self) -> np.ndarray:
        """int32: how many moments there are up to the end of each vector step."""
        first = self.trace.first
        return np.cumsum([first[load + 1] - first[load] for load, _ in self.steps]).astype(np.int32)

    @cached_property
    def program_ends(self) -> np.ndarray:
        """int32 [programs]: how many moments there are up to the end of each program."""
        counts = np.bincount(self.moments[:, 0], minlength=int(np.prod(self.trace.grid)))
        return np.cumsum(counts).astype(np.int32)

    @cached_property
    def touched_at(self) -> dict[str, np.ndarray]:
        """int32 arrays shaped like the inputs and the output: the number (from 1) of the moment that last read an entry
        of an input or wrote one of the output, 0 where none did."""
        arrays = {**self.inputs, self.output: self.after}
        touched = {name: np.zeros(array.shape, dtype=np.int32) for name, array in arrays.items()}
        for number, tensor in enumerate(self.trace.tensors):
            first = 8 if tensor.name == self.output else 3
            moments = np.flatnonzero(self.moments[:, first] == number)
            rows, columns = self.moments[moments, first + 1], self.moments[moments, first + 2]
            place = touched[tensor.name]
            place[(rows, columns) if place.ndim == 2 else columns] = moments + 1
        return touched


def run_index_kernel(kernel: Kernel, batch: Batch) -> IndexRun:
    """Run an index kernel on the page table of `batch` as it is now, and record it.

    flashmla: create_flashmla_kv_indices into block_kv_indices, −1 in every entry before, as wide as the longest request
    needs, rounded up to the 128-token tiles of the CUTLASS MLA kernel. flashinfer: create_flashinfer_kv_indices into
    kv_indices, one slot per token. Tensors on a GPU are copied first: the recorder runs on the CPU.
    """
    inputs = {
        "seq_lens": batch.seq_lens.cpu().clone(),
        "req_pool_indices": batch.req_pool_indices.cpu().clone(),
        "req_to_token": _used_columns(batch),
    }
    if kernel == "flashmla":
        return _run_flashmla(batch.page_size, inputs)
    return _run_flashinfer(batch.page_size, inputs)


def _used_columns(batch: Batch) -> torch.Tensor:
    """The whole of req_to_token; of a very large one the columns in use: no kernel reads the rest."""
    if batch.req_to_token.numel() <= SHOWN_WHOLE:
        return batch.req_to_token.cpu().clone()
    longest = int(batch.seq_lens.max()) if batch.batch_size else 1
    width = -(-longest // batch.page_size) * batch.page_size
    return batch.req_to_token[:, :width].cpu().contiguous().clone()


def _run_flashmla(page_size: int, inputs: dict[str, torch.Tensor]) -> IndexRun:
    lens = inputs["seq_lens"]
    per_tile = max(1, TILE_TOKENS // page_size)
    pages = -(-int(lens.max() if len(lens) else 0) // page_size)
    out = torch.full((len(lens), -(-pages // per_tile) * per_tile), -1, dtype=torch.int32)
    before = out.numpy().copy()
    tensors = {**inputs, "block_kv_indices": out}

    def launch() -> None:
        kv_indices.create_flashmla_kv_indices(
            inputs["req_to_token"],
            inputs["req_pool_indices"],
            lens,
            None,
            out,
            page_size=page_size,
            implementation="triton",
        )

    trace = _recorded(kernels.create_flashmla_kv_indices_triton, tensors, launch)
    return IndexRun("flashmla", trace, page_size, _arrays(inputs), before, out.numpy())


def _run_flashinfer(page_size: int, inputs: dict[str, torch.Tensor]) -> IndexRun:
    lens = inputs["seq_lens"]
    indptr = torch.zeros(len(lens) + 1, dtype=torch.int32)
    indptr[1:] = lens.cumsum(0)
    inputs = {**inputs, "kv_indptr": indptr}
    out = torch.zeros(int(indptr[-1]), dtype=torch.int32)
    before = out.numpy().copy()

    def launch() -> None:
        kv_indices.create_flashinfer_kv_indices(
            inputs["req_to_token"], inputs["req_pool_indices"], lens, indptr, None, out, implementation="triton"
        )

    trace = _recorded(kernels.create_flashinfer_kv_indices_triton, {**inputs, "kv_indices": out}, launch)
    return IndexRun("flashinfer", trace, page_size, _arrays(inputs), before, out.numpy())


def _recorded(kernel: Any, tensors: dict[str, torch.Tensor], launch: Callable[[], None]) -> MemoryTrace:
    """The compiled kernel on the emulator; where nothing can be compiled or emulated, Triton's interpreter."""
    try:
        return record_emulated(kernel, tensors, launch)
    except LaunchError:  # the launch went to the interpreter, or its grid is empty; running it again writes the same
        with record_triton(kernel, tensors) as recording:
            launch()
        return recording.trace()


def _arrays(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
