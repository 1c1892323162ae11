"""What sparse MLA asks of its arguments: every query names the keys that it attends to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import INT32, Contract, reads_values
from sglab.kernels.k_records.layout import NOPE, RECORD, ROPE

HEAD_DIM = NOPE + ROPE
DTYPES = (torch.bfloat16, torch.float16)
RECORDS = (torch.float8_e4m3fn, torch.uint8)


@dataclass(frozen=True)
class Keys:
    """A cache, and which of its keys each query attends to.

    Attributes:
        kv: (slots, 576) of q's dtype, or 656-byte records (slots, 656) uint8.
        indices: (tokens, topk) int32 slots; negative ones and those from the number of slots on count for nothing.
        lengths: (tokens,) int32: only so many of a row's indices count; None for all.
    """

    kv: torch.Tensor
    indices: torch.Tensor
    lengths: torch.Tensor | None

    @property
    def records(self) -> bool:
        return self.kv.shape[1] == RECORD

    def counted(self) -> torch.Tensor:
        """(tokens, topk) bool: which indices name a key."""
        valid = (self.indices >= 0) & (self.indices < len(self.kv))
        if self.lengths is not None:
            valid &= torch.arange(self.indices.shape[1], device=self.kv.device) < self.lengths[:, None]
        return valid


@dataclass(frozen=True)
class SparseArguments:
    """A checked call.

    Attributes:
        q: (tokens, heads, 576).
        keys: of the cache; extra: of a second one, under the same softmax; None for none.
        sink: (heads,) float32, in the output's denominator alone; None for none.
        out: output (tokens, heads, 512).
        top: output (tokens, heads) float32, the largest scaled score, −inf where there is none; None: not wanted.
        lse: output (tokens, heads) float32, natural, over the keys alone; +inf where there is none.
    """

    q: torch.Tensor
    keys: Keys
    extra: Keys | None
    sink: torch.Tensor | None
    sm_scale: float
    out: torch.Tensor
    top: torch.Tensor | None
    lse: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def caches(self) -> tuple[Keys, ...]:
        return (self.keys,) if self.extra is None else (self.keys, self.extra)

    @property
    def records(self) -> bool:
        return any(keys.records for keys in self.caches)


def check(
    operator: str,
    q: torch.Tensor,
    keys: Keys,
    extra: Keys | None,
    sm_scale: float,
    d_v: int,
    sink: torch.Tensor | None,
    want_top: bool,
    check_values: bool | None,
) -> SparseArguments:
    contract = Contract(operator)
    contract.tensor("q", q, f"tokens heads {HEAD_DIM}", DTYPES)
    keys = _checked(contract, q, keys, ("kv", "indices", "topk_length", ""))
    if extra is not None:
        names = "extra_k_cache", "extra_indices_in_kvcache", "extra_topk_length", "extra_"
        extra = _checked(contract, q, extra, names)
    contract.require(d_v == NOPE, "d_v", str(NOPE), d_v, "It is MLA's latent rank.")
    positive = math.isfinite(sm_scale) and sm_scale > 0
    contract.require(positive, "sm_scale", "positive and finite", sm_scale, "Pass 192 ** -0.5, say.")
    if sink is not None:
        contract.tensor("attn_sink", sink, "heads", (torch.float32,))
    tokens, heads, _ = q.shape
    out = torch.empty(tokens, heads, NOPE, dtype=q.dtype, device=q.device)
    top, lse = (torch.empty(tokens, heads, device=q.device) for _ in range(2))
    arguments = SparseArguments(q, keys, extra, sink, float(sm_scale), out, top if want_top else None, lse)
    if reads_values(check_values, q.device):
        contract.elements("q", q.isfinite(), "finite", q, "Look for it in the projection.")
        _check_keys(contract, "kv", keys)
        if extra is not None:
            _check_keys(contract, "extra_k_cache", extra)
    return arguments


def _checked(contract: Contract, q: torch.Tensor, keys: Keys, names: tuple[str, str, str, str]) -> Keys:
    cache, indices, lengths, prefix = names
    kv = keys.kv
    if isinstance(kv, torch.Tensor) and kv.dtype in RECORDS:
        contract.tensor(cache, kv, f"{prefix}slots {RECORD}", RECORDS)
        kv = kv.view(torch.uint8)
    else:
        contract.tensor(cache, kv, f"{prefix}slots {HEAD_DIM}", DTYPES)
        contract.same_dtype(**{"q": q, cache: kv})
    contract.tensor(indices, keys.indices, f"tokens {prefix}topk", INT32)
    if keys.lengths is not None:
        contract.tensor(lengths, keys.lengths, "tokens", INT32)
    return Keys(kv, keys.indices, keys.lengths)


def _check_keys(contract: Contract, name: str, keys: Keys) -> None:
    """No NaN in any key that counts; records are not read."""
    if keys.records or not len(keys.kv):
        return
    finite = keys.kv.isfinite().all(1)[keys.indices.clamp(0, len(keys.kv) - 1).long()]
    named = f"finite in every slot that indices name ({len(keys.kv)} slots)"
    contract.elements(name, finite | ~keys.counted(), named, keys.indices, "Refill the slot.")
