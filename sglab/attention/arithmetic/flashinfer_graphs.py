"""FlashInfer's wrappers in CUDA graphs: made by the runs before a capture, planned again before every replay.

A wrapper with use_cuda_graph launches the same kernels for a batch size whatever its lengths are, over buffers that
`plan` fills. So what a graph needs of the host, the plan, is made outside of it, as SGLang 0.5.23's
`flashinfer_backend.py` has it (init_forward_metadata_out_graph, fast_decode_plan): from lengths that the host knows,
where it knows them, so that nothing waits for the device.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch

from sglab.attention.arithmetic import flashinfer as library
from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.kernels.scoring import Scoring


class GraphPlans:
    """The wrappers that one graph runs over the arrays of one batch size: one for each kind of layer.

    Every `plan` plans them all again. A kind of layer that a capture meets first has none, and is refused.
    """

    def __init__(self) -> None:
        self._wrappers: dict[tuple[Any, ...], GraphWrapper] = {}
        self._rows: PagedRows | None = None
        self._lens: Sequence[int] | None = None

    def plan(self, rows: PagedRows, lens: Sequence[int] | None) -> None:
        """Contents of the arrays have changed: before a capture's warm-up, and before a replay.

        Args:
            rows: the graph's arrays, the same memory every time.
            lens: keys of each request, or None where only the device knows.
        """
        self._rows, self._lens = rows, lens
        for wrapper in self._wrappers.values():
            wrapper.plan(rows, lens)

    def refuses(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
    ) -> str | None:
        """Why a graph that is being captured cannot run this, or None."""
        if self._key(q, keys, values, rows, scoring) in self._wrappers:
            return None
        return "no run before the capture had such a layer, for which a plan would have to be made within the graph"

    def of(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
    ) -> GraphWrapper:
        """The wrapper for a layer, made and planned if it is the first of its kind."""
        key = self._key(q, keys, values, rows, scoring)
        found = self._wrappers.get(key)
        if found is None:
            if self._rows is None:
                raise RuntimeError("plan comes before a run")
            kind = MlaGraphWrapper if library.is_mla(q, values) else HeadsGraphWrapper
            found = self._wrappers[key] = kind(q, keys, rows, scoring)
            found.plan(self._rows, self._lens)
        return found

    def run(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `dense.run`, outside of a capture or in one. Rows without keys get o = 0 and LSE −inf."""
        made = self.of(q, keys, values, rows, scoring)
        o, lse = made.run(q.contiguous(), keys, values)
        empty = made.without_keys(len(q))
        lse = lse.masked_fill(empty[:, None], -torch.inf) * math.log(2)  # the library's is of base 2
        return o.masked_fill(empty[:, None, None], 0), lse

    @staticmethod
    def _key(
        q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
    ) -> tuple[Any, ...]:
        heads = (q.shape, keys.shape[1:], values.shape[1:], q.dtype, keys.dtype)
        return (*heads, rows.causal, rows.window, scoring.sm_scale, scoring.logit_cap)


class GraphWrapper(ABC):
    """One wrapper, its buffers, and what it is planned with.

    Attributes:
        indptr: int32 (batch + 1,) on the device, where each request's keys start.
    """

    indptr: torch.Tensor

    @abstractmethod
    def plan(self, rows: PagedRows, lens: Sequence[int] | None) -> None:
        """Plan for the arrays' contents. Waits for the device only where the host does not know the lengths."""

    @abstractmethod
    def run(self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """O and the LSE in base 2, as planned."""

    def without_keys(self, tokens: int) -> torch.Tensor:
        """bool (tokens,): of requests without keys, as many tokens of each; made in the graph, for each replay."""
        empty = self.indptr.diff() == 0
        return empty.repeat_interleave(tokens // len(empty))


class MlaGraphWrapper(GraphWrapper):
    """Of absorbed MLA. Its kernels' grid depends on the heads and on how many queries there are, not on lengths.

    Args:
        q, keys: of a layer: shapes and dtypes.
        rows: the graph's arrays; the wrapper reads them where they lie, but the lengths, which are its own.
    """

    def __init__(self, q: torch.Tensor, keys: torch.Tensor, rows: PagedRows, scoring: Scoring) -> None:
        import flashinfer

        self._heads, self._causal, self._scoring = q.shape[1], rows.causal, scoring
        self._dtypes, self.indptr = (q.dtype, keys.dtype), rows.kv_indptr
        self.wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(
            library.workspace(q.device),
            use_cuda_graph=True,
            qo_indptr=rows.qo_indptr,
            kv_indptr=rows.kv_indptr,
            kv_indices=rows.kv_indices,
            kv_len_arr=torch.zeros(rows.batch, dtype=torch.int32, device=q.device),
        )

    def plan(self, rows: PagedRows, lens: Sequence[int] | None) -> None:
        indptr = rows.kv_indptr.cpu() if lens is None else _indptr(lens)
        arrays = (_indptr([rows.max_q] * rows.batch), indptr, rows.kv_indices[: int(indptr[-1])])
        library.plan_mla(self.wrapper, *arrays, self._heads, self._causal, self._scoring.sm_scale, self._dtypes)

    def run(self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return library.run_mla(self.wrapper, q, keys)


class HeadsGraphWrapper(GraphWrapper):
    """Of layers with K and V apart.

    Args:
        q, keys: of a layer: shapes and dtypes.
        rows: the graph's arrays; the wrapper reads them where they lie, but those of a window, which are its own.
    """

    def __init__(self, q: torch.Tensor, keys: torch.Tensor, rows: PagedRows, scoring: Scoring) -> None:
        import flashinfer

        heads, kv_heads = q.shape[1], keys.shape[1]
        self._causal, self._scoring, self._window = rows.causal, scoring, rows.window
        self._one_row = rows.max_q == 1 and rows.custom_mask is None
        self._shape, self._dtypes = (heads, kv_heads, q.shape[2]), (q.dtype, keys.dtype)
        self._last = torch.ones(rows.batch, dtype=torch.int32)  # on the host, as all that a plan reads
        last = torch.ones(rows.batch, dtype=torch.int32, device=q.device)
        self.indptr, indices = rows.kv_indptr, rows.kv_indices
        if self._one_row and rows.window >= 0:
            self.indptr = torch.zeros_like(rows.kv_indptr)
            indices = torch.zeros(rows.batch * (rows.window + 1), dtype=torch.int32, device=q.device)
        workspace = library.workspace(q.device)
        if self._one_row:
            on_tensor_cores = heads // kv_heads >= library.LEAST_GROUP or keys.dtype != q.dtype
            self.wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
                workspace,
                use_cuda_graph=True,
                use_tensor_cores=on_tensor_cores,
                backend="fa2",
                paged_kv_indptr_buffer=self.indptr,
                paged_kv_indices_buffer=indices,
                paged_kv_last_page_len_buffer=last,
            )
            return
        masks: dict[str, torch.Tensor] = {}
        if rows.custom_mask is not None:  # packed, each request's in bytes of its own
            room = rows.custom_mask.numel() // 8 + rows.batch
            masks["custom_mask_buf"] = torch.zeros(room, dtype=torch.uint8, device=q.device)
            masks["mask_indptr_buf"] = torch.zeros(rows.batch + 1, dtype=torch.int32, device=q.device)
        self.wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            workspace,
            use_cuda_graph=True,
            qo_indptr_buf=rows.qo_indptr,
            paged_kv_indptr_buf=self.indptr,
            paged_kv_indices_buf=indices,
            paged_kv_last_page_len_buf=last,
            backend="fa2",
            **masks,
        )

    def plan(self, rows: PagedRows, lens: Sequence[int] | None) -> None:
        rows = replace(rows, window=self._window)
        if self._one_row and self._window >= 0:
            rows = rows.windowed()
            lens = None if lens is None else [min(length, self._window + 1) for length in lens]
        indptr = rows.kv_indptr.cpu() if lens is None else _indptr(lens)
        indices = rows.kv_indices[: int(indptr[-1])].int()
        options: dict[str, Any] = {
            "sm_scale": self._scoring.sm_scale,
            "window_left": rows.window,
            "logits_soft_cap": self._scoring.logit_cap,
            "q_data_type": self._dtypes[0],
            "kv_data_type": self._dtypes[1],
        }
        heads, kv_heads, dim = self._shape
        if self._one_row:
            self.wrapper.plan(indptr, indices, self._last, heads, kv_heads, dim, 1, **options)
            return
        queries = _indptr([rows.max_q] * rows.batch)
        mask = None if rows.custom_mask is None else library.mask_of(rows)
        options |= {"custom_mask": mask, "causal": self._causal and mask is None}
        self.wrapper.plan(queries, indptr, indices, self._last, heads, kv_heads, dim, 1, **options)

    def run(self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        o, lse = self.wrapper.run(q, (keys.unsqueeze(1), values.unsqueeze(1)), return_lse=True)
        return o, lse


def _indptr(lens: Sequence[int]) -> torch.Tensor:
    return torch.tensor([0, *accumulate(lens)], dtype=torch.int32)
