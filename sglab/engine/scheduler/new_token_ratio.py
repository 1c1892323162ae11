"""NewTokenRatioTracker: how much of the tokens that running requests may still generate the scheduler reserves.

Source: SGLang 0.5.23 `managers/scheduler_components/new_token_ratio_tracker.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglab.engine.batch.req import Req

INIT_NEW_TOKEN_RATIO = 0.7
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14
NEW_TOKEN_RATIO_DECAY_STEPS = 600
RETRACT_DECODE_STEPS = 20
"""After a retraction every request that stays is expected to decode so many more steps at least."""


@dataclass
class NewTokenRatioTracker:
    """The ratio, which sinks with every decode step and jumps after a retraction."""

    init: float
    min: float
    decay: float
    current: float

    @classmethod
    def from_conservativeness(cls, conservativeness: float = 1.0) -> NewTokenRatioTracker:
        """1: SGLang's default; more reserves more, so that fewer requests run and fewer are retracted."""
        init = min(INIT_NEW_TOKEN_RATIO * conservativeness, 1.0)
        least = min(init * MIN_NEW_TOKEN_RATIO_FACTOR, 1.0)
        return cls(init, least, (init - least) / NEW_TOKEN_RATIO_DECAY_STEPS, init)

    def decay_step(self) -> None:
        """A decode step without a retraction."""
        self.current = max(self.current - self.decay, self.min)

    def reset(self) -> None:
        self.current = self.init


def estimate_new_token_ratio_after_retract(reqs: Sequence[Req]) -> float:
    """The ratio after a retraction that these requests survived: what they have decoded, and 20 steps more."""
    decoded = sum(len(req.output_ids) for req in reqs)
    most = sum(req.sampling_params.max_new_tokens for req in reqs)
    return min(1.0, (decoded + RETRACT_DECODE_STEPS * len(reqs)) / (most + 1))
