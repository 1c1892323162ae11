"""SchedulerConfig: the limits and choices of a scheduler, under SGLang's names and with its defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sglab.engine import arguments
from sglab.engine.errors import BadArgumentError

POLICIES = ("lpm", "dfs-weight", "fcfs", "lof", "random")


@dataclass(frozen=True)
class SchedulerConfig:
    """Every value is checked when it is made.

    Raises:
        BadArgumentError: a value out of its range; the message names it.
    """

    max_running_requests: int = 64
    max_prefill_tokens: int = 16384
    """New tokens of one prefill batch, at most; a single longer prompt goes alone where chunking is off."""
    chunked_prefill_size: int = 8192
    """Longer prefills are cut into chunks of so many tokens; -1: never."""
    enable_mixed_chunk: bool = False
    """Running requests decode one token in the same pass as a prefill."""
    schedule_policy: str = "fcfs"
    schedule_conservativeness: float = 1.0
    """How much of what running requests may still generate is reserved; see `new_token_ratio`."""
    prefill_max_requests: int | None = None
    """Requests of one prefill batch, at most."""
    enable_overlap: bool = False
    """Results of a step are processed after the next one was planned."""
    seed: int = 0
    """Of the policy "random"."""

    def __post_init__(self) -> None:
        arguments.integer("max_running_requests", self.max_running_requests, 1)
        arguments.integer("max_prefill_tokens", self.max_prefill_tokens, 1)
        if self.chunked_prefill_size != -1:
            remedy = "Pass -1 to prefill every prompt in one pass."
            arguments.integer("chunked_prefill_size", self.chunked_prefill_size, 1, remedy=remedy)
        if self.prefill_max_requests is not None:
            arguments.integer("prefill_max_requests", self.prefill_max_requests, 1)
        arguments.choice("schedule_policy", self.schedule_policy, POLICIES)
        value = self.schedule_conservativeness
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise BadArgumentError("schedule_conservativeness", "a positive number", repr(value), "1 is the default.")

    def check_page_size(self, page_size: int) -> None:
        """A chunk must hold a page, or no chunk could end on a page's border.

        Raises:
            BadArgumentError: it does not.
        """
        if 0 < self.chunked_prefill_size < page_size:
            expected = f"at least page_size {page_size}, or -1"
            raise BadArgumentError("chunked_prefill_size", expected, self.chunked_prefill_size, "Raise it.")
