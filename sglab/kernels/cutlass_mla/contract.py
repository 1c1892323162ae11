"""What cutlass_mla_decode asks of its arguments: the SM100 kernel's rules, which hold for every implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sglab.kernels import devices
from sglab.kernels.contract import INT32, Contract, reads_values
from sglab.kernels.cutlass_mla.dispatch import check_page_size
from sglab.kernels.finite import all_finite
from sglab.kernels.scoring import Scoring
from sglab.planning.cutlass_mla_workspace import cutlass_workspace_size
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS, ROPE_DIM
from sglab.planning.set_split_kv import MAX_SPLITS, TILE_S, set_split_kv

DTYPES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class CutlassMLAArguments:
    """Checked arguments of cutlass_mla_decode; out and lse are outputs, split_kv is 1 or more, seq_lens_cpu the lengths
    where the host knows them."""

    q_nope: torch.Tensor
    q_pe: torch.Tensor
    kv_c_and_k_pe_cache: torch.Tensor
    seq_lens: torch.Tensor
    page_table: torch.Tensor
    workspace: torch.Tensor
    sm_scale: float
    split_kv: int
    out: torch.Tensor
    lse: torch.Tensor | None
    seq_lens_cpu: tuple[int, ...] | None = None

    @property
    def device(self) -> torch.device:
        return self.q_nope.device

    @property
    def page_size(self) -> int:
        return self.kv_c_and_k_pe_cache.shape[1]

    def settle_empty_requests(self) -> None:
        """O = 0 and LSE = −inf without keys; a kernel leaves NaN there (one split) or an LSE of +infinity (several)."""
        empty = self.seq_lens == 0
        self.out[empty] = 0
        if self.lse is not None:
            self.lse[empty] = -torch.inf

    def partials(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The workspace as the kernel lays it out: O (batch, 128, split_kv, 512), then LSE (batch, split_kv, 128)."""
        batch, floats = len(self.seq_lens), self.workspace.view(torch.float32)
        size = batch * NUM_HEADS * self.split_kv * LATENT_DIM
        o = floats[:size].view(batch, NUM_HEADS, self.split_kv, LATENT_DIM)
        lse = floats[size : size + batch * self.split_kv * NUM_HEADS].view(batch, self.split_kv, NUM_HEADS)
        return o, lse


def check(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv_c_and_k_pe_cache: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    workspace: torch.Tensor,
    sm_scale: float,
    num_kv_splits: int,
    lse: torch.Tensor | None,
    check_values: bool | None,
    seq_lens_cpu: torch.Tensor | Sequence[int] | None = None,
) -> CutlassMLAArguments:
    contract = Contract("cutlass_mla_decode")
    contract.tensor("q_nope", q_nope, f"batch heads {LATENT_DIM}", DTYPES)
    contract.tensor("q_pe", q_pe, f"batch heads {ROPE_DIM}", DTYPES)
    heads = contract.size("heads")
    contract.require(
        1 <= heads <= NUM_HEADS,
        "q_nope",
        f"of 1 to {NUM_HEADS} heads",
        f"{heads} heads",
        "Shard the heads over more GPUs (tensor parallelism).",
    )
    contract.tensor("kv_c_and_k_pe_cache", kv_c_and_k_pe_cache, f"pages page_size {HEAD_DIM}", DTYPES)
    contract.require(
        contract.size("pages") > 0, "kv_c_and_k_pe_cache", "of at least one page", "none", "Allocate a pool."
    )
    contract.same_dtype(q_nope=q_nope, q_pe=q_pe, kv_c_and_k_pe_cache=kv_c_and_k_pe_cache)
    contract.tensor("seq_lens", seq_lens, "batch", INT32)
    contract.tensor("page_table", page_table, "batch width", INT32)
    contract.tensor("workspace", workspace, "bytes", (torch.uint8,))
    if lse is not None:
        contract.tensor("lse", lse, "batch heads", (torch.float32,))
        contract.require(lse.is_contiguous(), "lse", "contiguous", f"strides {lse.stride()}", "Allocate it again.")
        check_apart(lse, q_nope, q_pe, kv_c_and_k_pe_cache, page_table)
    _check_pages(contract)
    Scoring(sm_scale).check(contract)
    out = q_nope.new_empty(len(q_nope), heads, LATENT_DIM)
    splits = _resolved(contract, q_nope.device, num_kv_splits)
    tensors = (q_nope, q_pe, kv_c_and_k_pe_cache, seq_lens, page_table, workspace)
    on_host = lengths_on_host(contract, seq_lens_cpu, contract.size("batch"))
    arguments = CutlassMLAArguments(*tensors, sm_scale, splits, out, lse, on_host)
    _check_splits(contract, arguments)
    if reads_values(check_values, arguments.device):
        _check_values(contract, arguments)
    return arguments


def check_apart(
    lse: torch.Tensor, q_nope: torch.Tensor, q_pe: torch.Tensor, kv_cache: torch.Tensor, page_table: torch.Tensor
) -> None:
    """What depends on where tensors lie, and is checked at each call."""
    inputs = {"q_nope": q_nope, "q_pe": q_pe, "kv_c_and_k_pe_cache": kv_cache, "page_table": page_table}
    Contract("cutlass_mla_decode").apart("lse", lse, **inputs)


def lengths_on_host(
    contract: Contract, seq_lens_cpu: torch.Tensor | Sequence[int] | None, batch: int
) -> tuple[int, ...] | None:
    """seq_lens_cpu, one length per request, as numbers."""
    if seq_lens_cpu is None:
        return None
    if isinstance(seq_lens_cpu, torch.Tensor):
        place = seq_lens_cpu.device
        contract.require(place.type == "cpu", "seq_lens_cpu", "on the CPU", f"on {place}", "Pass None, or a copy.")
        seq_lens_cpu = seq_lens_cpu.tolist()
    lengths = tuple(map(int, seq_lens_cpu))
    remedy = "They are seq_lens, on the host."
    contract.require(len(lengths) == batch, "seq_lens_cpu", f"{batch} lengths", len(lengths), remedy)
    return lengths


def _resolved(contract: Contract, device: torch.device, num_kv_splits: int) -> int:
    """num_kv_splits, or below 1 what set_split_kv chooses for the longest request that the page table can hold."""
    batch, longest = contract.size("batch"), contract.size("width") * contract.size("page_size")
    if num_kv_splits >= 1 or batch == 0:
        return max(num_kv_splits, 1)
    return set_split_kv(longest, batch, devices.sm_count(device)).split_kv


def _check_pages(contract: Contract) -> None:
    page_size, width = contract.size("page_size"), contract.size("width")
    check_page_size(contract, page_size)
    per_tile = TILE_S // page_size
    contract.require(
        width > 0 and width % per_tile == 0,
        "page_table",
        f"as wide as a positive multiple of {per_tile} pages (one {TILE_S}-token tile)",
        f"width {width}",
        "The kernel reads whole tiles of page numbers; widen the table and fill the rest with any valid page.",
    )


def _check_splits(contract: Contract, arguments: CutlassMLAArguments) -> None:
    splits = arguments.split_kv
    contract.require(
        splits <= MAX_SPLITS,
        "num_kv_splits",
        f"at most {MAX_SPLITS}, what the reduction kernel merges",
        splits,
        "Pass fewer splits, or −1 to have them chosen.",
    )
    needed = cutlass_workspace_size(splits, max(contract.size("batch"), 1))
    contract.require(
        len(arguments.workspace) >= needed and arguments.workspace.data_ptr() % 16 == 0,
        "workspace",
        f"at least {needed} bytes, 16-byte aligned ((4 · {LATENT_DIM} + 4) · {NUM_HEADS} · splits · batch)",
        f"{len(arguments.workspace)} bytes at {arguments.workspace.data_ptr():#x}",
        "Allocate cutlass_mla_get_workspace_size(max_seq_len, batch, num_kv_splits=...) bytes.",
    )


def _check_values(contract: Contract, arguments: CutlassMLAArguments) -> None:
    page_size, width, pages = arguments.page_size, contract.size("width"), contract.size("pages")
    lens, table = arguments.seq_lens, arguments.page_table
    contract.elements(
        "seq_lens",
        (lens >= 0) & (lens <= width * page_size),
        f"from 0 to {width * page_size}, the {width} pages of {page_size} tokens of a page_table row",
        lens,
        "Widen the page table.",
    )
    if arguments.seq_lens_cpu is not None:
        same = tuple(lens.tolist()) == arguments.seq_lens_cpu
        given = str(arguments.seq_lens_cpu)
        contract.require(
            same, "seq_lens_cpu", f"equal to seq_lens, {tuple(lens.tolist())}", given, "Pass None if in doubt."
        )
    tiles = (lens.long() + TILE_S - 1) // TILE_S
    column = torch.arange(width, device=table.device)
    read = column[None, :] < (tiles * (TILE_S // page_size))[:, None]
    contract.elements(
        "page_table",
        ~read | ((table >= 0) & (table < pages)),
        f"from 0 to {pages - 1} in every entry of a tile that is read ({TILE_S // page_size} per {TILE_S} tokens)",
        table,
        "Entries past the last page are read too, to the end of the last tile: fill them with a valid page, not −1.",
    )
    touched = table[read].unique().long()
    pages_read = arguments.kv_c_and_k_pe_cache[touched]
    if not all_finite(pages_read):
        finite = pages_read.isfinite().flatten(1).all(1)
        contract.fail(
            "kv_c_and_k_pe_cache",
            "finite in every row of the pages that are read",
            f"NaN or infinity in page {int(touched[~finite][0])}",
            "Rows past a request's end get weight 0, but 0 · NaN is NaN: zero the pool when it is allocated.",
        )
