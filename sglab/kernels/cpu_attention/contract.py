"""What SGLang's two attention operators for CPUs ask of their arguments: one form of a call for both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values
from sglab.kernels.decode_attention.contract import check_cache_dtype, check_groups
from sglab.kernels.fp8 import CACHES
from sglab.kernels.scoring import Scoring

FP32 = (torch.float32,)
INT64 = (torch.int64,)


@dataclass(frozen=True)
class CpuAttentionArguments:
    """A checked call of decode_attention_cpu or extend_attention_cpu.

    Request i's slots are req_to_token[req_pool_indices[i], first[i] : first[i] + lengths[i]], of which the last
    new_lens[i] are its new tokens. Those are in k_new and v_new where these are given, else in the buffers.

    Attributes:
        q: (tokens, heads, qk_dim), request i's rows from starts[i] on, new_lens[i] of them.
        attn_logits: (batch, heads, splits, v_dim + 1) float32 partial outputs and LSEs, in decode.
        window: a query sees so many keys, itself included; 0 for all.
        causal: False in cross-attention, where every query sees all of lengths.
        k_scale, v_scale: what 8-bit buffers' keys and values are multiplied by; k_new and v_new are as they are.
        mask: flat bool or uint8, (new_lens[i], lengths[i]) of each request in turn; hides more of what a query sees.
    """

    operator: str
    q: torch.Tensor
    k_new: torch.Tensor | None
    v_new: torch.Tensor | None
    out: torch.Tensor
    k_buffer: torch.Tensor
    v_buffer: torch.Tensor
    attn_logits: torch.Tensor | None
    req_to_token: torch.Tensor
    req_pool_indices: torch.Tensor
    lengths: torch.Tensor
    first: torch.Tensor | None
    new_lens: torch.Tensor
    starts: torch.Tensor
    scoring: Scoring
    window: int
    causal: bool
    k_scale: float = 1.0
    v_scale: float = 1.0
    mask: torch.Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def mask_start(self) -> torch.Tensor:
        """(batch + 1,) int64: where each request's part of the mask starts, and the end."""
        sizes = self.new_lens.long() * self.lengths.long()
        return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])

    def slots(self, request: int) -> torch.Tensor:
        """int64 slots of a request, its new tokens' included."""
        first = 0 if self.first is None else int(self.first[request])
        row = self.req_to_token[self.req_pool_indices[request]]
        return row[first : first + int(self.lengths[request])].long()


def check(a: CpuAttentionArguments, check_values: bool | None) -> None:
    contract = Contract(a.operator)
    contract.tensor("q", a.q, "tokens heads qk_dim", FLOATS)
    contract.tensor("k_buffer", a.k_buffer, "slots kv_heads qk_dim", CACHES)
    contract.tensor("v_buffer", a.v_buffer, "slots kv_heads v_dim", CACHES)
    check_groups(contract, "q")
    check_cache_dtype(contract, a.k_buffer, a.v_buffer, q=a.q)
    contract.tensor("output", a.out, "tokens heads v_dim", FLOATS)
    contract.same_dtype(q=a.q, output=a.out)
    contract.apart("output", a.out, q=a.q, k_buffer=a.k_buffer, v_buffer=a.v_buffer)
    contract.tensor("seq_lens", a.lengths, "batch", INDEX)
    contract.tensor("req_to_token", a.req_to_token, "requests width", INDEX)
    contract.tensor("req_pool_indices", a.req_pool_indices, "batch", INT64)
    contract.tensor("extend_seq_lens", a.new_lens, "batch", INDEX)
    contract.tensor("extend_start_loc", a.starts, "batch", INDEX)
    if a.k_new is not None and a.v_new is not None:
        contract.tensor("k_extend", a.k_new, "tokens kv_heads qk_dim", FLOATS)
        contract.tensor("v_extend", a.v_new, "tokens kv_heads v_dim", FLOATS)
        contract.same_dtype(q=a.q, k_extend=a.k_new, v_extend=a.v_new)
    if a.first is not None:
        contract.tensor("encoder_lens", a.first, "batch", INDEX)
    if a.attn_logits is not None:
        contract.fix("partial", contract.size("v_dim") + 1, "v_buffer")
        contract.tensor("attn_logits", a.attn_logits, "batch heads splits partial", FP32)
    remedy = "Pass sliding_window_size + 1, or 0 for no window."
    contract.require(a.window >= 0, "sliding_window", "0 or positive", a.window, remedy)
    a.scoring.check(contract)
    eight_bit = a.k_buffer.dtype not in FLOATS
    for scale_name, scale in (("k_scale", a.k_scale), ("v_scale", a.v_scale)):
        fits = math.isfinite(scale) and scale > 0 and (eight_bit or scale == 1.0)
        expected = "positive and finite" if eight_bit else f"1 for buffers of {a.k_buffer.dtype}"
        contract.require(fits, scale_name, expected, scale, "Pass the layer's, of an 8-bit cache.")
    if a.mask is not None:
        contract.tensor("tree_mask", a.mask, "mask_values", (torch.bool, torch.uint8))
    if reads_values(check_values, a.device):
        _check_values(contract, a)


def _check_values(contract: Contract, a: CpuAttentionArguments) -> None:
    width, slots, tokens = contract.size("width"), contract.size("slots"), contract.size("tokens")
    rows = a.req_pool_indices
    inside = (rows >= 0) & (rows < contract.size("requests"))
    contract.elements("req_pool_indices", inside, "rows of req_to_token", rows, "Take them from the request pool.")
    fits = (a.lengths >= 0) & ((0 if a.first is None else a.first) + a.lengths <= width)
    contract.elements("seq_lens", fits, f"within req_to_token's {width} columns", a.lengths, "Lengths count tokens.")
    fits = (a.new_lens >= 0) & (a.starts >= 0) & (a.starts + a.new_lens <= tokens)
    contract.elements("extend_seq_lens", fits, f"within the {tokens} rows of q", a.new_lens, "Count q's rows.")
    if a.causal:
        fits = a.new_lens <= a.lengths
        contract.elements("extend_seq_lens", fits, "at most seq_lens", a.new_lens, "seq_lens counts new tokens, too.")
    if a.mask is not None:
        wanted, given = int(a.mask_start[-1]), len(a.mask)
        remedy = "It holds every new token's row over all keys of its request."
        contract.require(given >= wanted, "tree_mask", f"{wanted} values", given, remedy)
    for request in range(contract.size("batch")):
        used = a.slots(request)
        remedy = "token index out of scope!: rebuild req_to_token."
        contract.elements("req_to_token", (used >= 0) & (used < slots), f"slots from 0 to {slots - 1}", used, remedy)
        cached = used if a.k_new is None else used[: len(used) - int(a.new_lens[request])]
        for name, buffer in (("k_buffer", a.k_buffer), ("v_buffer", a.v_buffer)):
            finite = not len(cached) or bool(buffer[cached].float().abs().amax().isfinite())
            got = f"NaN or infinity of request {request}"
            contract.require(finite, name, "finite in every slot that is read", got, "Refill the slots.")
