"""Req: one request, from arrival to the last token. Source: SGLang 0.5.9 `managers/schedule_batch.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from sglab.engine.batch.finish import FinishLength, FinishMatchedStr, FinishMatchedToken, FinishReason
from sglab.engine.batch.sampling_params import SamplingParams
from sglab.engine.batch.token_logprob import TokenLogprob
from sglab.engine.cache.radix_node import PrefixCache, RadixKey, TreeNode

Decode = Callable[[Sequence[int]], str]
"""Token ids to text: a tokenizer's `decode`."""

TAIL = 8
"""Tokens decoded besides those that a stop string can be in: of a character that began before them, and marks."""


def _no_slots() -> torch.Tensor:
    return torch.empty(0, dtype=torch.int64)


@dataclass(eq=False)
class Req:
    """A request and what it holds of the pools."""

    rid: str
    """Its name, in messages, recordings and pictures: of no other request of its scheduler."""
    origin_input_ids: list[int]
    """The prompt."""
    output_ids: list[int] = field(default_factory=list)
    """Tokens generated so far; the scheduler appends one per decode step."""
    extra_key: str | None = None
    """Namespace in the radix tree."""
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    eos_token_ids: frozenset[int] = frozenset()
    """The model's end-of-sequence tokens."""
    return_logprob: bool = False
    top_logprobs_num: int = 0
    """Besides the chosen token's, so many of the likeliest tokens' log probabilities."""
    logprob_start_len: int = -1
    """With return_logprob: the prompt's tokens after this position get a log probability, too; -1: none."""
    token_ids_logprob: tuple[int, ...] = ()
    """With return_logprob: tokens whose log probabilities are wanted at every place."""
    encoder_len: int = 0
    """Tokens of the prompt that a model's encoder reads; those after them begin what the decoder says."""

    fill_ids: list[int] = field(default_factory=list)
    """Tokens whose KV this round leaves in the pool: all of them, unless a chunked prefill cuts it short."""
    prefix_indices: torch.Tensor = field(default_factory=_no_slots)
    """int64, slots of the leading tokens already in the pool; filled from the radix tree."""
    last_node: TreeNode | None = None
    """Where the shared prefix ends in the tree, locked while the request runs."""
    holds_lock: bool = False
    """Whether this request has locked `last_node`."""
    last_host_node: TreeNode | None = None
    """Hierarchical cache: where the prefix ends that the host has."""
    host_hit_length: int = 0
    """Hierarchical cache: tokens after `prefix_indices` whose KV the host has."""
    cache_protected_len: int = 0
    """Leading tokens whose slots the tree owns: the request never frees them."""
    extend_input_len: int = 0
    """Tokens to compute this round."""
    req_pool_idx: int | None = None
    """Row of ReqToTokenPool; None when not running."""
    kv_committed_len: int = 0
    """Tokens whose KV is in the pool."""
    kv_allocated_len: int = 0
    """During a verification: tokens that have a slot, drafts included; 0: as many as are committed."""

    finished_reason: FinishReason | None = None
    to_finish: FinishReason | None = None
    """An end asked for from outside, which the scheduler carries out before its next step."""
    client_rid: str = ""
    """The name that it came with, which a request that has ended may have had, too."""
    retraction_count: int = 0
    """How often it was taken out of the running batch for its memory, to wait again."""
    cached_tokens: int = 0
    """Prompt tokens found in the cache when the request was first scheduled."""
    prefix_found: int = 0
    """Tokens found in the cache when it was last taken from the queue: again after a retraction."""
    output_logprobs: list[float] = field(default_factory=list)
    """With return_logprob: the log probability (natural) of each of output_ids."""
    output_top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    """With top_logprobs_num: per output token, (token, log probability), the likeliest first."""
    output_token_ids_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    """With token_ids_logprob: the same of these tokens."""
    input_logprobs: list[TokenLogprob] = field(default_factory=list)
    """Of the prompt's tokens from logprob_start_len + 1 on; they stay when the request is retracted."""

    @property
    def seqlen(self) -> int:
        return len(self.origin_input_ids) + len(self.output_ids)

    def token_ids(self) -> list[int]:
        return self.origin_input_ids + self.output_ids

    def finished(self) -> bool:
        return self.finished_reason is not None

    def init_next_round_input(self, tree_cache: PrefixCache | None = None) -> None:
        """Take all tokens as this round's input and look their prefix up in the tree.

        At least the last token is always computed: a fully cached prompt would leave nothing to take logits from.
        The match is not locked yet; the scheduler's PrefillAdder or `allocation.alloc_for_extend` does that.
        """
        self.fill_ids = self.token_ids()
        if tree_cache is not None:
            cached = self.fill_ids[: self.max_prefix_len()]
            match = tree_cache.match_prefix(RadixKey(cached, self.extra_key, self.rid))
            self.prefix_indices, self.last_node = match.device_indices, match.last_device_node
            self.host_hit_length, self.last_host_node = match.host_hit_length, match.last_host_node
            self.cache_protected_len = len(self.prefix_indices)
        self.extend_input_len = len(self.fill_ids) - len(self.prefix_indices)

    def next_scored(self) -> int | None:
        """The first position of the prompt whose logits are still to be read for the token after it; None: there is
        none."""
        if not self.return_logprob or self.logprob_start_len < 0:
            return None
        position = self.logprob_start_len + len(self.input_logprobs)
        return position if position < len(self.origin_input_ids) - 1 else None

    def max_prefix_len(self) -> int:
        """Tokens that may come from a cache: the last one is computed, and all whose logits are to be read."""
        scored = self.next_scored()
        return max(len(self.fill_ids) - 1, 0) if scored is None else scored

    def add_input_logprobs(self, start: int, values: Sequence[TokenLogprob]) -> None:
        """Log probabilities of the prompt's tokens from position `start` on; those that there are already stay."""
        have = self.logprob_start_len + 1 + len(self.input_logprobs)
        self.input_logprobs += values[max(have - start, 0) :]

    def set_extend_input_len(self, count: int) -> None:
        """Compute only the first `count` tokens after the prefix this round."""
        self.extend_input_len = count
        self.fill_ids = self.fill_ids[: len(self.prefix_indices) + count]

    def reset_for_retract(self) -> None:
        """Forget everything but the tokens; what was held has been released."""
        self.retraction_count += 1
        self.prefix_indices = _no_slots()
        self.last_node = self.last_host_node = None
        self.host_hit_length = self.cache_protected_len = self.extend_input_len = 0

    def update_finish_state(self, decode: Decode | None = None, new_tokens: int = 1) -> None:
        """Say whether the last `new_tokens` of output_ids end the request, and which of them still count.

        A stop string comes before a stop token, and both before the length. Tokens after the one that stopped the
        request (drafts that were accepted with it) are dropped.
        """
        if self.finished_reason is not None:
            return
        params, count = self.sampling_params, len(self.output_ids)
        if new_tokens == 1 and not params.stop and count < params.max_new_tokens:  # each step, each request
            last = self.output_ids[-1]
            if last not in params.stop_token_ids and (params.ignore_eos or last not in self.eos_token_ids):
                return
        for end in range(count - new_tokens + 1, count + 1):
            reason = self._reason_at(end, decode)
            if reason is not None:
                self.finished_reason = reason
                del self.output_ids[end:]
                del self.output_logprobs[end:]
                del self.output_top_logprobs[end:]
                del self.output_token_ids_logprobs[end:]
                return

    def text_ids(self) -> list[int]:
        """The output without the token that stopped it."""
        stopped = isinstance(self.finished_reason, FinishMatchedToken)
        return self.output_ids[:-1] if stopped else self.output_ids

    def _reason_at(self, end: int, decode: Decode | None) -> FinishReason | None:
        """Why the first `end` output tokens are all there will be, or None."""
        params, last = self.sampling_params, self.output_ids[end - 1]
        if params.stop and decode is not None:
            longest = max(len(stop.encode()) for stop in params.stop)
            text = decode(self.output_ids[max(end - longest - TAIL, 0) : end])
            for stop in params.stop:
                if stop in text:
                    return FinishMatchedStr(stop)
        if last in params.stop_token_ids or (last in self.eos_token_ids and not params.ignore_eos):
            return FinishMatchedToken(last)
        return FinishLength(params.max_new_tokens) if end >= params.max_new_tokens else None
