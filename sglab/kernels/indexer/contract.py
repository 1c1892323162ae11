"""What the indexer's operators ask of their arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, INT32, Contract, reads_values
from sglab.kernels.indexer.layout import DIM, SCALE_BYTES, keys_and_scales, page_bytes

E4M3 = torch.float8_e4m3fn
POWERS = (None, "ue8m0")


@dataclass(frozen=True)
class QuantArguments:
    """Checked: x (rows, blocks, size) becomes out, e4m3, and scales (rows, blocks) float32; powers of two if asked."""

    x: torch.Tensor
    out: torch.Tensor
    scales: torch.Tensor
    power_of_two: bool

    @property
    def device(self) -> torch.device:
        return self.x.device


@dataclass(frozen=True)
class LogitArguments:
    """Checked: q (rows, heads, dim) against keys of its dtype; logits (rows, width) float32.

    Attributes:
        k, scales: (pages, page_size, dim) and (pages, page_size) float32; ragged keys are one page. scales: None: 1.
        weights: (rows, heads) float32.
        first, end: (rows,) int32, the keys of a row.
        block_table: (requests, width) int32, row r // per_request is a row's; None: all keys are in page 0.
        request_of: (rows,) int32, whose block_table a row reads instead.
        logits: −inf where it was clean, else anything outside first … end.
    """

    q: torch.Tensor
    k: torch.Tensor
    scales: torch.Tensor | None
    weights: torch.Tensor
    first: torch.Tensor
    end: torch.Tensor
    block_table: torch.Tensor | None
    per_request: int
    logits: torch.Tensor
    request_of: torch.Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.q.device


def check_quant(x: torch.Tensor, block_size: int, scale_fmt: str | None) -> QuantArguments:
    contract = Contract("act_quant")
    contract.tensor(
        "x", x[None] if isinstance(x, torch.Tensor) and x.ndim == 1 else x.flatten(0, -2), "rows dim", FLOATS
    )
    dim = contract.size("dim")
    divides = block_size > 0 and block_size & (block_size - 1) == 0 and dim % block_size == 0
    contract.require(divides, "block_size", f"a power of two that divides {dim}", block_size, "Pass 128.")
    contract.require(scale_fmt in POWERS, "scale_fmt", "None or 'ue8m0'", repr(scale_fmt), "ue8m0: powers of two.")
    rows = x.reshape(-1, dim // block_size, block_size)
    out = torch.empty(rows.shape, dtype=E4M3, device=x.device)
    scales = torch.empty(rows.shape[:2], device=x.device)
    return QuantArguments(rows, out, scales, scale_fmt == "ue8m0")


def check_ragged(
    q: torch.Tensor,
    kv: tuple[torch.Tensor, torch.Tensor],
    weights: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
    clean_logits: bool,
    check_values: bool | None,
) -> LogitArguments:
    contract = Contract("fp8_mqa_logits")
    contract.tensor("q", q, f"rows heads {DIM}", (E4M3,))
    contract.tensor("k", kv[0], f"keys {DIM}", (E4M3,))
    contract.tensor("k_scale", kv[1].flatten(), "keys", (torch.float32,))
    contract.tensor("weights", weights, "rows heads", (torch.float32,))
    contract.tensor("cu_seqlen_ks", ks, "rows", INT32)
    contract.tensor("cu_seqlen_ke", ke, "rows", INT32)
    keys = contract.size("keys")
    if reads_values(check_values, q.device):
        remedy = "ks and ke are rows of k: where the request starts, and one past what its query sees."
        contract.elements("cu_seqlen_ks", (ks >= 0) & (ks <= keys), f"from 0 to {keys}", ks, remedy)
        contract.elements("cu_seqlen_ke", (ke >= 0) & (ke <= keys), f"from 0 to {keys}", ke, remedy)
    logits = _logits(len(q), keys, q.device, clean_logits)
    return LogitArguments(q, kv[0][None], kv[1].view(1, -1), weights, ks, ke, None, 1, logits)


def check_paged(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
    max_context_len: int,
    clean_logits: bool,
    check_values: bool | None,
) -> LogitArguments:
    contract = Contract("fp8_paged_mqa_logits")
    contract.tensor("q", q, f"batch next_n heads {DIM}", (E4M3,))
    contract.tensor("kv_cache", kv_cache, f"pages page_size 1 {DIM + SCALE_BYTES}", (torch.uint8,))
    contract.require(kv_cache[0].is_contiguous(), "kv_cache", "of contiguous pages", kv_cache.stride(), "Copy it.")
    contract.tensor("block_table", block_table, "batch width", INT32)
    batch, next_n, page_size = (contract.size(each) for each in ("batch", "next_n", "page_size"))
    contract.fix("rows", batch * next_n, "q")
    contract.tensor("weights", weights, "rows heads", (torch.float32,))
    flat = context_lens.ndim == 1 if isinstance(context_lens, torch.Tensor) else False
    contract.tensor("context_lens", context_lens, "batch" if flat else "batch next_n", INT32)
    if flat:  # the last of a request's queries sees all its keys
        hidden = torch.arange(next_n - 1, -1, -1, dtype=torch.int32, device=q.device)
        context_lens = (context_lens[:, None] - hidden).clamp(min=0)
    ends = context_lens.reshape(-1)
    remedy = "Widen it to the longest request."
    if reads_values(check_values, q.device):
        capacity = min(block_table.shape[1] * page_size, max_context_len)
        contract.elements("context_lens", (ends >= 0) & (ends <= capacity), f"from 0 to {capacity}", ends, remedy)
        entry = torch.arange(block_table.shape[1], device=q.device)
        used = entry < -(-context_lens.amax(1, keepdim=True) // page_size)
        inside = ~used | ((block_table >= 0) & (block_table < len(kv_cache)))
        contract.elements("block_table", inside, f"from 0 to {len(kv_cache) - 1}", block_table, "Rebuild it.")
    keys, scales = keys_and_scales(kv_cache.view(len(kv_cache), page_bytes(page_size)), page_size)
    logits = _logits(batch * next_n, max_context_len, q.device, clean_logits)
    first = torch.zeros_like(ends)
    return LogitArguments(q.flatten(0, 1), keys, scales, weights, first, ends, block_table, next_n, logits)


def check_slots(
    q: torch.Tensor,
    k_buffer: torch.Tensor,
    weights: torch.Tensor,
    lengths: torch.Tensor,
    page_table_1: torch.Tensor,
    request_of: torch.Tensor | None,
    width: int | None,
    check_values: bool | None,
) -> LogitArguments:
    contract = Contract("slot_mqa_logits")
    contract.tensor("q", q, "rows heads dim", FLOATS)
    contract.tensor("k_buffer", k_buffer, "slots dim", FLOATS)
    contract.same_dtype(q=q, k_buffer=k_buffer)
    table = ("page_table_1", page_table_1)
    return _check_rows(contract, q, (k_buffer[:, None], None), weights, lengths, table, request_of, width, check_values)


def check_pages(
    q: torch.Tensor,
    buf: torch.Tensor,
    weights: torch.Tensor,
    lengths: torch.Tensor,
    page_table: torch.Tensor,
    request_of: torch.Tensor | None,
    width: int | None,
    check_values: bool | None,
) -> LogitArguments:
    contract = Contract("page_mqa_logits")
    contract.tensor("q", q, f"rows heads {DIM}", (E4M3,))
    contract.tensor("buf", buf, "pages page_bytes", (torch.uint8,))
    page_size = buf.shape[1] // (DIM + SCALE_BYTES)
    whole = page_size > 0 and page_bytes(page_size) == buf.shape[1]
    remedy = "Pass the pool's get_index_k_with_scale_buffer."
    contract.require(whole, "buf", f"of pages of whole {DIM + SCALE_BYTES} bytes", buf.shape[1], remedy)
    table, stored = ("page_table", page_table), keys_and_scales(buf, page_size)
    return _check_rows(contract, q, stored, weights, lengths, table, request_of, width, check_values)


def _check_rows(
    contract: Contract,
    q: torch.Tensor,
    stored: tuple[torch.Tensor, torch.Tensor | None],
    weights: torch.Tensor,
    lengths: torch.Tensor,
    named_table: tuple[str, torch.Tensor],
    request_of: torch.Tensor | None,
    width: int | None,
    check_values: bool | None,
) -> LogitArguments:
    """What rows of any request ask: `stored` are the keys, page by page, and their scales."""
    (name, table), (keys, scales) = named_table, stored
    pages, page_size = keys.shape[:2]
    contract.tensor("weights", weights, "rows heads", (torch.float32,))
    contract.tensor("lengths", lengths, "rows", INT32)
    contract.tensor(name, table, "requests columns", INT32)
    context = contract.size("columns") * page_size
    width = context if width is None else width
    contract.require(0 <= width <= context, "width", f"from 0 to {context}, that of {name}", width, "Widen it.")
    if request_of is None:
        expected = f"of {len(q)} rows, one per row of q"
        remedy = "Pass request_of where requests have several rows."
        contract.require(len(table) == len(q), name, expected, len(table), remedy)
    else:
        contract.tensor("request_of", request_of, "rows", INT32)
    if reads_values(check_values, q.device):
        contract.elements("lengths", (lengths >= 0) & (lengths <= width), f"from 0 to {width}", lengths, "Widen it.")
        most = lengths
        if request_of is not None:
            whose = (request_of >= 0) & (request_of < len(table))
            contract.elements("request_of", whose, f"from 0 to {len(table) - 1}", request_of, f"Rows of {name}.")
            most = torch.zeros(len(table), dtype=torch.int32).scatter_reduce(0, request_of.long(), lengths, "amax")
        unread = torch.arange(table.shape[1]) * page_size >= most[:, None]
        inside = unread | ((table >= 0) & (table < pages))
        contract.elements(name, inside, f"from 0 to {pages - 1}", table, "Rebuild it.")
    logits = torch.empty(len(q), width, device=q.device)
    first = torch.zeros_like(lengths)
    return LogitArguments(q, keys, scales, weights, first, lengths, table, 1, logits, request_of=request_of)


def check_buffer(
    operator: str, buf: torch.Tensor, loc: torch.Tensor, page_size: int, check_values: bool | None = None
) -> Contract:
    contract = Contract(operator)
    contract.tensor("buf", buf, "pages page_bytes", (torch.uint8,))
    wanted = page_bytes(page_size)
    contract.require(buf.shape[1] == wanted, "buf", f"of {wanted} bytes a page", buf.shape[1], "Check page_size.")
    contract.tensor("loc", loc, "tokens", INDEX)
    if reads_values(check_values, buf.device):
        slots = len(buf) * page_size
        contract.elements("loc", (loc >= 0) & (loc < slots), f"from 0 to {slots - 1}", loc, "Pass out_cache_loc.")
    return contract


def _logits(rows: int, width: int, device: torch.device, clean: bool) -> torch.Tensor:
    return torch.full((rows, width), -torch.inf, device=device) if clean else torch.empty(rows, width, device=device)
