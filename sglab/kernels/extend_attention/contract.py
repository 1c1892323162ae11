"""What extend attention requires of its arguments, and which tokens may see which."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, INT32, Contract, reads_values
from sglab.kernels.decode_attention.contract import check_cache, check_cache_dtype, check_csr, check_groups
from sglab.kernels.fp8 import CACHES, check_scale
from sglab.kernels.scoring import Scoring

MASKS = (torch.bool, torch.uint8)


@dataclass(frozen=True)
class Visibility:
    """Which keys a query sees. Position p of a request: prefix tokens first, then its new tokens.

    Attributes:
        is_causal: a new token sees new tokens up to itself; otherwise all of them. A custom mask takes its place.
        custom_mask: request i's (new tokens, window_kv_offsets[i] + prefix + new tokens) matrix, flat, at
            mask_indptr[i].
        skip_prefix_custom_mask: the custom mask rules the new tokens alone; the prefix is seen whole.
        sliding_window_size: a query at p sees keys from p − this on, and where it is not causal up to p + this; ≤ 0 for
            no window.
        window_kv_offsets: (batch,) columns of each request's mask before its prefix, or None for 0.
    """

    is_causal: bool
    custom_mask: torch.Tensor | None
    mask_indptr: torch.Tensor | None
    skip_prefix_custom_mask: bool
    sliding_window_size: int
    window_kv_offsets: torch.Tensor | None

    def matrix(self, request: int, prefix: int, new: int, device: torch.device) -> torch.Tensor:
        """(new, prefix + new) bool for one request."""
        query = torch.arange(prefix, prefix + new, device=device)[:, None]
        key = torch.arange(prefix + new, device=device)[None, :]
        seen = torch.ones(new, prefix + new, dtype=torch.bool, device=device)
        if self.custom_mask is not None and self.mask_indptr is not None:
            offset = 0 if self.window_kv_offsets is None else int(self.window_kv_offsets[request])
            start, width = int(self.mask_indptr[request]), offset + prefix + new
            mask = self.custom_mask[start : start + new * width].view(new, width)[:, offset:].bool()
            seen &= mask | ((key < prefix) & self.skip_prefix_custom_mask)
        elif self.is_causal:
            seen &= query >= key
        if self.sliding_window_size > 0:
            seen &= query <= key + self.sliding_window_size
            if not self.is_causal:
                seen &= key <= query + self.sliding_window_size
        return seen


@dataclass(frozen=True)
class ExtendArguments:
    """Checked arguments of extend_attention_fwd; o_extend and lse are outputs."""

    q_extend: torch.Tensor
    k_extend: torch.Tensor
    v_extend: torch.Tensor
    o_extend: torch.Tensor
    k_buffer: torch.Tensor
    v_buffer: torch.Tensor
    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    max_len_extend: int
    scoring: Scoring
    visibility: Visibility
    lse: torch.Tensor | None
    k_scale: float | torch.Tensor = 1.0
    v_scale: float | torch.Tensor = 1.0

    @property
    def device(self) -> torch.device:
        return self.q_extend.device

    @property
    def batch(self) -> int:
        return len(self.qo_indptr) - 1

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.q_extend.shape[1] // self.k_extend.shape[1]


def check(arguments: ExtendArguments, check_values: bool | None) -> None:
    contract = Contract("extend_attention_fwd")
    contract.tensor("q_extend", arguments.q_extend, "tokens heads qk_dim", FLOATS)
    contract.tensor("k_extend", arguments.k_extend, "tokens kv_heads qk_dim", FLOATS)
    check_groups(contract, "q_extend")
    contract.tensor("v_extend", arguments.v_extend, "tokens kv_heads v_dim", FLOATS)
    contract.tensor("o_extend", arguments.o_extend, "tokens heads v_dim", FLOATS)
    contract.tensor("k_buffer", arguments.k_buffer, "slots kv_heads qk_dim", CACHES)
    contract.tensor("v_buffer", arguments.v_buffer, "slots kv_heads v_dim", CACHES)
    floats = ("q_extend", "k_extend", "v_extend", "o_extend")
    contract.same_dtype(**{name: getattr(arguments, name) for name in floats})
    check_cache_dtype(contract, arguments.k_buffer, arguments.v_buffer, q_extend=arguments.q_extend)
    check_scale(contract, "k_scale", arguments.k_scale, "kv_heads")
    check_scale(contract, "v_scale", arguments.v_scale, "kv_heads")
    contract.tensor("qo_indptr", arguments.qo_indptr, "qo_indptr", INT32)
    contract.tensor("kv_indptr", arguments.kv_indptr, "indptr", INT32)
    contract.tensor("kv_indices", arguments.kv_indices, "indices", INDEX)
    contract.require(arguments.batch >= 0, "qo_indptr", "at least 1 long", "length 0", "Start it with 0.")
    contract.require(
        len(arguments.kv_indptr) > arguments.batch,
        "kv_indptr",
        f"at least {arguments.batch + 1} long, as qo_indptr is",
        f"length {len(arguments.kv_indptr)}",
        "One entry per request, after a leading 0.",
    )
    if arguments.lse is not None:
        contract.tensor("lse", arguments.lse, "tokens heads", (torch.float32,))
        contract.require(
            arguments.lse.is_contiguous(), "lse", "contiguous", arguments.lse.stride(), "Allocate a contiguous one."
        )
    arguments.scoring.check(contract)
    _check_visibility(contract, arguments)
    if reads_values(check_values, arguments.device):
        _check_values(contract, arguments)


def _check_visibility(contract: Contract, arguments: ExtendArguments) -> None:
    visibility, batch = arguments.visibility, arguments.batch
    if visibility.custom_mask is None:
        return
    contract.tensor("custom_mask", visibility.custom_mask, "mask_elements", MASKS)
    contract.tensor("mask_indptr", visibility.mask_indptr, "mask_indptr", INDEX)
    contract.require(
        contract.size("mask_indptr") >= batch,
        "mask_indptr",
        f"at least {batch} long",
        f"length {contract.size('mask_indptr')}",
        "It says where each request's mask starts.",
    )
    if visibility.window_kv_offsets is not None:
        contract.fix("batch", batch, "qo_indptr")
        contract.tensor("window_kv_offsets", visibility.window_kv_offsets, "batch", INDEX)


def _check_values(contract: Contract, arguments: ExtendArguments) -> None:
    batch, visibility = arguments.batch, arguments.visibility
    new = arguments.qo_indptr.diff()
    steps = torch.cat([arguments.qo_indptr[:1], new])
    remedy = "Use a cumulative sum of the new lengths."
    contract.elements("qo_indptr", steps >= 0, "non-negative and non-decreasing", arguments.qo_indptr, remedy)
    tokens, total = contract.size("tokens"), int(arguments.qo_indptr[-1])
    contract.require(total <= tokens, "qo_indptr", f"at most {tokens}, the rows of q_extend", total, remedy)
    contract.require(
        batch == 0 or arguments.max_len_extend >= int(new.max()),
        "max_len_extend",
        "at least the longest request's new tokens",
        arguments.max_len_extend,
        f"Pass {int(new.max()) if batch else 0}; queries beyond it would get no output.",
    )
    used = check_csr(contract, arguments.kv_indptr[: batch + 1], arguments.kv_indices)
    check_cache(contract, used, arguments.k_buffer, arguments.v_buffer)
    if visibility.custom_mask is not None and visibility.mask_indptr is not None:
        offset = 0 if visibility.window_kv_offsets is None else visibility.window_kv_offsets
        width = offset + arguments.kv_indptr[: batch + 1].diff() + new
        starts = visibility.mask_indptr[:batch]
        contract.elements(
            "mask_indptr",
            (starts >= 0) & (starts + new * width <= len(visibility.custom_mask)),
            f"such that each request's mask is within custom_mask's {len(visibility.custom_mask)} elements",
            starts,
            "A request's mask has new tokens × (offset + prefix + new tokens) elements.",
        )
