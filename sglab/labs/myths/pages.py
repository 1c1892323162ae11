"""Statements on page tables and pools: what index kernels read, what padding is for, how rows may move."""

from __future__ import annotations

import numpy as np
import torch

from sglab.kernels import (
    ContractError,
    copy_all_layer_kv_cache,
    create_flashinfer_kv_indices,
    cutlass_mla_decode,
    cutlass_mla_get_workspace_size,
    flash_mla_with_kvcache,
    get_mla_metadata,
)
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS
from sglab.workbench import decode_batch
from sglab.workbench.recorders.index_runs import run_index_kernel

from .statement import Found, statement

SECTOR = 32
"""Bytes that a GPU's memory delivers at least."""


def _decode(lengths: list[int], page_size: int, table: torch.Tensor) -> torch.Tensor:
    """cutlass_mla_decode of random tensors, the same ones for the same lengths and pages."""
    random = torch.Generator().manual_seed(0)
    q = torch.randn(len(lengths), NUM_HEADS, HEAD_DIM, generator=random).half()
    cache = torch.randn(int(table.max()) + 8, page_size, HEAD_DIM, generator=random)[:8].half()
    workspace = torch.empty(cutlass_mla_get_workspace_size(512, len(lengths)), dtype=torch.uint8)
    q_nope, q_pe = q[..., :LATENT_DIM], q[..., LATENT_DIM:]
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    return cutlass_mla_decode(q_nope, q_pe, cache, seq_lens, table, workspace, 192**-0.5)


@statement(
    "a",
    a=(False, "4,096 tokens, whatever the page size; and memory comes in sectors of 32 bytes, eight entries each."),
    b=(False, "The steps are of 4,096 tokens. But one entry of 4 bytes costs a sector of 32."),
    c=(True, "Divide a step's tokens by the pages that it made, and count sectors, not entries."),
)
def index_kernel_4_kb(tokens: int = 9000) -> Found:
    """SGLang's page-table kernel for MLA reads chunks of 4 KB of token slots, and by taking one slot per page of 128 it
    saves a factor of 128 in bandwidth."""
    steps: dict[int, list[int]] = {}
    for page_size in (64, 128):
        run = run_index_kernel("flashmla", decode_batch([tokens], page_size=page_size, max_context_len=16384))
        steps[page_size] = [int(count) for count in np.diff(run.step_ends[1:])]
    used = np.unique(np.arange(0, tokens, 128) * 4 // SECTOR).size
    found: dict[str, object] = {f"pages made per step, page size {size}": counts for size, counts in steps.items()}
    found |= {"tokens per step": {size: counts[0] * size for size, counts in steps.items()}}
    saved = tokens * 4 / SECTOR / used
    return saved > 100, {**found, "sectors saved at page size 128": f"{saved:.1f} times"}


@statement(
    "c",
    a=(True, "Nothing in the message is about alignment: it speaks of whole tiles of page numbers."),
    b=(False, "A table of width 1 is refused, too. The reason is how many entries the kernel reads at a time."),
    c=(False, "A tile is 128 tokens: two pages of 64. The kernel always reads both entries, past a short row's end."),
)
def table_width_for_alignment() -> Found:
    """With pages of 64 the page table needs an even width, since its rows have to be aligned in memory."""
    found: dict[str, object] = {}
    reason = ""
    for width in (4, 5):
        try:
            shape = tuple(_decode([200], 64, torch.arange(width, dtype=torch.int32)[None]).shape)
            found[f"a table {width} pages wide"] = f"runs, output {shape}"
        except ContractError as error:
            reason = str(error)
            found[f"a table {width} pages wide"] = reason
    return "align" in reason, found


@statement(
    "b",
    a=(True, "Fill the spare entries with 0: no error, and not one bit of the output changes."),
    b=(False, "A page number is a coordinate of a copy, never a divisor. Any page that exists will do."),
    c=(False, "−1 is a page that does not exist: with small pages its rows would be addressed. 0 is harmless."),
)
def padding_divides() -> Found:
    """Spare entries of the page table are filled with 1, because the kernel divides by page numbers."""
    outs = {}
    for fill in (0, 1, 3):
        table = torch.tensor([[2, fill, fill], [4, 5, 6]], dtype=torch.int32)
        outs[fill] = _decode([100, 300], 128, table)
    same = {fill: torch.equal(out, outs[1]) for fill, out in outs.items()}
    return not all(same.values()), {f"bit-equal to fill 1, fill {fill}": equal for fill, equal in same.items()}


@statement(
    "a",
    a=(False, "One entry per token, and the entries are slots: SGLang calls FlashInfer with page_size 1."),
    b=(False, "FlashInfer's kernels can take pages of any size. It is SGLang that gives them slots."),
    c=(True, "Count the entries: there are as many as tokens."),
)
def flashinfer_gets_pages(tokens: int = 300, page_size: int = 64) -> Found:
    """If the pool has pages of 64 tokens, SGLang's FlashInfer decode gets a table of pages."""
    batch = decode_batch([tokens], page_size=page_size)
    lengths = torch.tensor([tokens])
    indptr = torch.tensor([0, tokens])
    indices = create_flashinfer_kv_indices(batch.req_to_token, batch.req_pool_indices, lengths, indptr)
    slots = batch.slots(0)
    found = {"entries": len(indices), "pages of the request": len(batch.pages(0))}
    return len(indices) != tokens, {**found, "equal to its slots": indices.tolist() == list(slots)}


@statement(
    "b",
    a=(True, "Compare the two numbers: the tensor is a page longer. And which page did no request get?"),
    b=(False, "size + page_size rows: page 0 is a dummy, to which padded rows of a graph write."),
    c=(False, "There is one more page, and it is the first one that no request gets, not the last."),
)
def pool_rows() -> Found:
    """A KV pool for `size` tokens has `size` rows, and the first request's first token goes into slot 0."""
    batch = decode_batch([300, 200], page_size=64)
    pool = batch.runner.token_to_kv_pool
    rows = pool.get_key_buffer(0).shape[0]
    found = {"size": pool.size, "rows": rows, "lowest page in use": min(batch.pages(0) + batch.pages(1))}
    return rows == pool.size, {**found, "lowest slot in use": int(min(batch.slots(0)))}


@statement(
    "c",
    a=(True, "Look at the loop's result: row 2 got what the loop had just written into row 1."),
    b=(False, "Backwards works for this move and fails for the opposite one. What always works?"),
    c=(False, "Read all, then write. SGLang's kernel loads a block of up to 256 rows before it stores any."),
)
def rows_one_after_the_other() -> Found:
    """After verification the accepted rows of the cache may be moved one after the other, first to last."""
    source, target = torch.tensor([0, 1]), torch.tensor([1, 2])
    one_by_one = torch.arange(3.0)[:, None]
    for t, s in zip(target.tolist(), source.tolist(), strict=True):
        one_by_one[t] = one_by_one[s]
    together = torch.arange(3.0)[:, None]
    copy_all_layer_kv_cache([together], target, source)
    found = {"rows before": [0, 1, 2], "moves": "0 → 1, 1 → 2", "one by one": one_by_one[:, 0].tolist()}
    return torch.equal(one_by_one, together), {**found, "copy_all_layer_kv_cache": together[:, 0].tolist()}


@statement(
    "c",
    a=(False, "It is not slower with other sizes: it refuses them. Look at the message."),
    b=(True, "True, but not for TMA's sake: the sparse kernels of the same package have other pages."),
    c=(True, "Its tile is 64 tokens, one page. CUTLASS's kernel wants 128 or gathers smaller ones."),
)
def flashmla_pages() -> Found:
    """FlashMLA's dense decode takes pages of 64 tokens and nothing else."""
    lengths = torch.tensor([100], dtype=torch.int32)
    q = torch.randn(1, 1, 16, HEAD_DIM).half()
    metadata = get_mla_metadata(lengths, 16)
    found: dict[str, object] = {}
    for page_size in (32, 64, 128):
        cache = torch.randn(4, page_size, 1, HEAD_DIM).half()
        table = torch.arange(4, dtype=torch.int32)[None]
        try:
            flash_mla_with_kvcache(q, cache, table, lengths, LATENT_DIM, *metadata, softmax_scale=192**-0.5)
            found[f"pages of {page_size}"] = "runs"
        except ContractError as error:
            found[f"pages of {page_size}"] = str(error)[:110]
    return [name for name, what in found.items() if what == "runs"] == ["pages of 64"], found
