"""What decode attention asks of its arguments, and how it cuts a request into splits."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, INT32, Contract, reads_values
from sglab.kernels.finite import all_finite
from sglab.kernels.fp8 import CACHES, FP8, check_scale
from sglab.kernels.launch_cache import Known, shaped
from sglab.kernels.scoring import Scoring
from sglab.planning.num_kv_splits import kv_len_per_split

_right = Known()


@dataclass(frozen=True)
class DecodeArguments:
    """Checked arguments of decode_attention_fwd; o, attn_logits, attn_lse and lse are outputs."""

    q: torch.Tensor
    k_buffer: torch.Tensor
    v_buffer: torch.Tensor
    o: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    attn_logits: torch.Tensor
    attn_lse: torch.Tensor
    num_kv_splits: torch.Tensor
    max_kv_splits: int
    scoring: Scoring
    lse: torch.Tensor | None
    k_scale: float | torch.Tensor = 1.0
    v_scale: float | torch.Tensor = 1.0

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.q.shape[1] // self.k_buffer.shape[1]

    @property
    def v_is_k(self) -> bool:
        """Whether a token's value is the front part of its key, as in MLA: k = [latent, rope], v = latent."""
        k, v = self.k_buffer, self.v_buffer
        return k.data_ptr() == v.data_ptr() and k.stride() == v.stride() and v.shape[-1] <= k.shape[-1]


def split_ranges(length: int, splits: int) -> list[tuple[int, int]]:
    """(first, end) token of every split of one request; splits that would be empty are left out."""
    if length == 0:
        return []
    per_split = int(kv_len_per_split([length], [splits])[0])
    return [(first, min(first + per_split, length)) for first in range(0, length, per_split)]


def check(arguments: DecodeArguments, check_values: bool | None) -> None:
    known = _known(arguments)
    if known in _right and not reads_values(check_values, arguments.device):
        return
    contract = Contract("decode_attention_fwd")
    contract.tensor("q", arguments.q, "batch heads qk_dim", FLOATS)
    contract.tensor("k_buffer", arguments.k_buffer, "slots kv_heads qk_dim", CACHES)
    check_groups(contract, "q")
    contract.tensor("v_buffer", arguments.v_buffer, "slots kv_heads v_dim", CACHES)
    contract.tensor("o", arguments.o, "batch heads v_dim", FLOATS)
    check_cache_dtype(contract, arguments.k_buffer, arguments.v_buffer, q=arguments.q)
    contract.same_dtype(q=arguments.q, o=arguments.o)
    check_scale(contract, "k_scale", arguments.k_scale, "kv_heads")
    check_scale(contract, "v_scale", arguments.v_scale, "kv_heads")
    contract.tensor("kv_indptr", arguments.kv_indptr, "indptr", INT32)
    contract.tensor("kv_indices", arguments.kv_indices, "indices", INDEX)
    contract.tensor("num_kv_splits", arguments.num_kv_splits, "splits", INT32)
    contract.tensor("attn_logits", arguments.attn_logits, "rows heads max_kv_splits v_dim", (torch.float32,))
    contract.tensor("attn_lse", arguments.attn_lse, "rows heads max_kv_splits", (torch.float32,))
    if arguments.lse is not None:
        contract.tensor("lse", arguments.lse, "batch heads", (torch.float32,))
        contract.require(
            arguments.lse.is_contiguous(), "lse", "contiguous", arguments.lse.stride(), "Allocate a contiguous one."
        )
    batch = contract.size("batch")
    for name, tensor, least in (
        ("kv_indptr", arguments.kv_indptr, batch + 1),
        ("num_kv_splits", arguments.num_kv_splits, batch),
        ("attn_logits", arguments.attn_logits, batch),
    ):
        contract.require(
            len(tensor) >= least, name, f"at least {least} long", f"length {len(tensor)}", "One entry per request."
        )
    contract.require(
        arguments.max_kv_splits == contract.size("max_kv_splits"),
        "max_kv_splits",
        f"{contract.size('max_kv_splits')}, the third dimension of attn_logits",
        arguments.max_kv_splits,
        "Allocate attn_logits and attn_lse with max_kv_splits.",
    )
    arguments.scoring.check(contract)
    if reads_values(check_values, arguments.device):
        _check_values(contract, arguments)
    _right.add(known)


def _known(a: DecodeArguments) -> Hashable:
    """All that `check` looks at but contents: no addresses, and no length of the indices, which grow every step."""
    scales = [one if isinstance(one, int | float) else shaped(one) for one in (a.k_scale, a.v_scale)]
    scoring = (a.scoring.sm_scale, a.scoring.logit_cap, a.scoring.xai_temperature_len)
    tensors = (a.q, a.k_buffer, a.v_buffer, a.o, a.kv_indptr, a.attn_logits, a.attn_lse, a.num_kv_splits)
    indices = shaped(
        a.kv_indices[:0] if isinstance(a.kv_indices, torch.Tensor) and a.kv_indices.dim() else a.kv_indices
    )
    return (shaped(*tensors, a.scoring.sinks, a.lse), indices, a.max_kv_splits, *scoring, *scales)


def check_cache_dtype(
    contract: Contract, k_buffer: torch.Tensor, v_buffer: torch.Tensor, **queries: torch.Tensor
) -> None:
    """A cache holds the dtype of the queries, or an 8-bit one."""
    contract.same_dtype(k_buffer=k_buffer, v_buffer=v_buffer)
    if k_buffer.dtype not in FP8:
        contract.same_dtype(**queries, k_buffer=k_buffer)


def check_groups(contract: Contract, argument: str) -> None:
    heads, kv_heads = contract.size("heads"), contract.size("kv_heads")
    contract.require(
        kv_heads > 0 and heads % kv_heads == 0,
        argument,
        f"of a number of heads divisible by the cache's {kv_heads} KV heads",
        f"{heads} heads",
        "Every KV head serves the same number of query heads.",
    )


def _check_values(contract: Contract, arguments: DecodeArguments) -> None:
    batch = contract.size("batch")
    used = check_csr(contract, arguments.kv_indptr[: batch + 1], arguments.kv_indices)
    check_cache(contract, used, arguments.k_buffer, arguments.v_buffer)
    splits = arguments.num_kv_splits[:batch]
    empty = arguments.kv_indptr[: batch + 1].diff() == 0
    contract.elements(
        "num_kv_splits",
        ((splits >= 1) & (splits <= arguments.max_kv_splits)) | empty,
        f"from 1 to max_kv_splits = {arguments.max_kv_splits}",
        splits,
        "Tokens of splits beyond max_kv_splits would be left out of the result.",
    )


def check_csr(contract: Contract, kv_indptr: torch.Tensor, kv_indices: torch.Tensor) -> torch.Tensor:
    """Check kv_indptr against kv_indices; returns the part of kv_indices that it spans."""
    steps = torch.cat([kv_indptr[:1], kv_indptr.diff()])
    contract.elements("kv_indptr", steps >= 0, "non-negative and non-decreasing", kv_indptr, "Use a cumulative sum.")
    total = int(kv_indptr[-1])
    contract.require(
        total <= len(kv_indices),
        "kv_indices",
        f"at least kv_indptr[-1] = {total} long",
        f"length {len(kv_indices)}",
        "Fill it with create_flashinfer_kv_indices.",
    )
    return kv_indices[int(kv_indptr[0]) : total]


def check_cache(contract: Contract, used: torch.Tensor, k_buffer: torch.Tensor, v_buffer: torch.Tensor) -> None:
    """Check that slots exist and that their keys and values are finite: 0 · NaN is NaN, also under a mask."""
    slots = contract.size("slots")
    contract.elements(
        "kv_indices",
        (used >= 0) & (used < slots),
        f"from 0 to {slots - 1}, the slots of the cache",
        used,
        "Rebuild it from req_to_token.",
    )
    for name, buffer in (("k_buffer", k_buffer), ("v_buffer", v_buffer)):
        rows = buffer[used.long()]
        if not all_finite(rows):
            slot = int(used[~rows.float().isfinite().flatten(1).all(1)][0])
            contract.fail(
                name,
                "finite in every slot that kv_indices names",
                f"NaN or infinity in slot {slot}",
                "Refill the slot.",
            )
