"""What block-sparse attention asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INT32, Contract, reads_values
from sglab.kernels.scoring import Scoring

BLOCK_M = BLOCK_N = 64
"""Queries of a row, keys of a block: what sgl-kernel's sparse attention was built for."""


@dataclass(frozen=True)
class BlockSparseArguments:
    """Checked: requests after one another, q (tokens, heads, dim), k and v (key tokens, kv_heads, dim).

    Attributes:
        cu_q, cu_k: (batch + 1,) int32.
        block_count, column_count: (batch, heads, rows) int32; block_offset, column_index: (batch, heads, rows, most).
        out: output (tokens, heads, dim); lse: output (heads, tokens) float32, natural.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cu_q: torch.Tensor
    cu_k: torch.Tensor
    block_count: torch.Tensor
    block_offset: torch.Tensor
    column_count: torch.Tensor
    column_index: torch.Tensor
    causal: bool
    scoring: Scoring
    out: torch.Tensor
    lse: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.q.device

    def visible(self, request: int, head: int, queries: int, keys: int) -> torch.Tensor:
        """(queries, keys) bool: the union of a row's blocks and columns, bottom-right causal."""
        seen = torch.zeros(queries, keys, dtype=torch.bool, device=self.device)
        for row in range(-(-queries // BLOCK_M)):
            at = (request, head, row)
            own = seen[row * BLOCK_M : (row + 1) * BLOCK_M]
            for first in self.block_offset[at][: int(self.block_count[at])].tolist():
                own[:, first : first + BLOCK_N] = True
            own[:, self.column_index[at][: int(self.column_count[at])].long()] = True
        if self.causal:
            position = torch.arange(queries, device=self.device)[:, None] + keys - queries
            seen &= torch.arange(keys, device=self.device) <= position
        return seen


def check(operator: str, a: BlockSparseArguments, check_values: bool | None) -> None:
    contract = Contract(operator)
    contract.tensor("q", a.q, "tokens heads dim", FLOATS)
    contract.tensor("k", a.k, "key_tokens kv_heads dim", FLOATS)
    contract.tensor("v", a.v, "key_tokens kv_heads dim", FLOATS)
    contract.same_dtype(q=a.q, k=a.k, v=a.v)
    heads, kv_heads = contract.size("heads"), contract.size("kv_heads")
    divides = kv_heads > 0 and heads % kv_heads == 0
    contract.require(divides, "q", f"of heads divisible by {kv_heads}", f"{heads} heads", "Heads form groups.")
    contract.tensor("cu_seqlens_q", a.cu_q, "cu_seqlens", INT32)
    contract.tensor("cu_seqlens_k", a.cu_k, "cu_seqlens", INT32)
    contract.fix("batch", len(a.cu_q) - 1, "cu_seqlens_q")
    contract.tensor("block_count", a.block_count, "batch heads rows", INT32)
    contract.tensor("block_offset", a.block_offset, "batch heads rows nnz_s", INT32)
    contract.tensor("column_count", a.column_count, "batch heads rows", INT32)
    contract.tensor("column_index", a.column_index, "batch heads rows nnz_v", INT32)
    contract.tensor("out", a.out, "tokens heads dim", FLOATS)
    a.scoring.check(contract)
    if reads_values(check_values, a.device):
        longest = int(a.cu_q.diff().max()) if len(a.cu_q) > 1 else 0
        expected = f"at least {-(-longest // BLOCK_M)} rows of {BLOCK_M} queries"
        room = contract.size("rows") * BLOCK_M >= longest
        contract.require(room, "block_count", expected, contract.size("rows"), "Enlarge context_size.")
        for name, counts, width in (
            ("block_count", a.block_count, contract.size("nnz_s")),
            ("column_count", a.column_count, contract.size("nnz_v")),
        ):
            fits = (counts >= 0) & (counts <= width)
            contract.elements(name, fits, f"from 0 to {width}, the room for them", counts, "Convert again.")
        keys = a.cu_k.diff()[:, None, None, None]
        for name, index, counts in (
            ("block_offset", a.block_offset, a.block_count),
            ("column_index", a.column_index, a.column_count),
        ):
            used = torch.arange(index.shape[-1], device=a.device) < counts[..., None]
            inside = ~used | ((index >= 0) & (index < keys))
            contract.elements(name, inside, "of keys that the request has", index, "Convert for these lengths.")
            rises = torch.nn.functional.pad(index.diff(dim=-1), (1, 0), value=1) > 0
            contract.elements(name, ~used | rises, "ascending, none twice", index, "Sort them.")
        for name, x in (("q", a.q), ("k", a.k), ("v", a.v)):
            contract.elements(name, x.isfinite(), "finite", x, "0 · NaN is NaN: what is masked must be finite, too.")
