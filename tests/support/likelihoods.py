"""What two engines say of one prompt, where rounding may decide between two tokens."""

from typing import Any

import torch


def assert_same_likelihoods(alone: Any, other: Any, atol: float, rtol: float) -> None:
    """Compare outputs' log probabilities of the prompt, and of every token after it as long as both chose the same."""
    pairs = list(zip(alone.token_ids, other.token_ids, strict=True))
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    mine, theirs = (
        [*one.input_logprobs[1:], *(value for after in one.token_ids_logprobs[: same + 1] for _, value in after)]
        for one in (alone, other)
    )
    torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), atol=atol, rtol=rtol)
