"""HostTokens: a pass's tokens on their way to the host, in pinned memory that is used again."""

from __future__ import annotations

from collections.abc import Callable

import torch


class HostTokens:
    """Copies of int64 [B] tokens. A copy that is never read keeps its memory to itself."""

    def __init__(self) -> None:
        self._free: dict[int, list[tuple[torch.Tensor, torch.cuda.Event]]] = {}

    def start(self, tokens: torch.Tensor) -> Callable[[], list[int]]:
        """Start a copy; what is returned waits for it, and is called once at most."""
        if not tokens.is_cuda:
            return tokens.tolist
        free = self._free.setdefault(len(tokens), [])
        kept = (
            free.pop() if free else (torch.empty(len(tokens), dtype=tokens.dtype, pin_memory=True), torch.cuda.Event())
        )
        copied, event = kept
        copied.copy_(tokens, non_blocking=True)
        event.record()

        def read() -> list[int]:
            event.synchronize()
            listed: list[int] = copied.tolist()
            free.append(kept)
            return listed

        return read
