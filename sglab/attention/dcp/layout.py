"""Who holds what: of a request's slot s rank s % size has the keys, in row s // size of its pool.

The allocator's pages are `size` times a rank's, so a request's token t has a slot that is t modulo `size`, and a rank's
tokens lie densely in pages of its own: on each rank a request is a shorter request. With `run` above 1 runs of so many
tokens take turns instead, which is a rank's page on NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Share:
    """What rank `rank` of `size` has of everything."""

    rank: int
    size: int
    run: int = 1

    def lens(self, lens: torch.Tensor) -> torch.Tensor:
        """How many of each request's first `lens` tokens are here."""
        if self.run == 1:
            return (lens + (self.size - 1 - self.rank)) // self.size
        turn = self.run * self.size
        return lens // turn * self.run + (lens % turn - self.rank * self.run).clamp(0, self.run)

    def has(self, places: torch.Tensor) -> torch.Tensor:
        """Whether slots, or positions in requests, are here."""
        return places // self.run % self.size == self.rank

    def own(self, places: torch.Tensor) -> torch.Tensor:
        """Rows of this pool for slots that are here, or positions among a request's own tokens here."""
        return places // self.size if self.run == 1 else places // (self.run * self.size) * self.run + places % self.run

    def rows(self, slots: torch.Tensor) -> torch.Tensor:
        """Where new tokens are written; those of other ranks' tokens are 0, the dummy page's."""
        return torch.where(self.has(slots), self.own(slots), 0)

    def positions(self, positions: torch.Tensor) -> torch.Tensor:
        """Of positions in requests, −1 for none, those that are here as positions among its own tokens; else −1."""
        return torch.where((positions >= 0) & self.has(positions), self.own(positions), -1)

    def width(self, tokens: int) -> int:
        """Most tokens that a rank has of a request of so many."""
        return -(-tokens // (self.run * self.size)) * self.run

    def table(self, req_to_token: torch.Tensor) -> torch.Tensor:
        """[rows, slots] -> [rows, rows of this pool]: of each request's tokens those that are here, in order."""
        if self.run == 1:
            return req_to_token[:, self.rank :: self.size] // self.size
        at = torch.arange(self.width(req_to_token.shape[1]), device=req_to_token.device)
        columns = at // self.run * self.run * self.size + self.rank * self.run + at % self.run
        return self.own(req_to_token[:, columns.clamp(max=req_to_token.shape[1] - 1)])

    def heads(self, kv_heads: int) -> slice:
        """Of the KV heads that ranks share those that this rank's query heads attend to."""
        first = self.rank * kv_heads // self.size
        return slice(first, max((self.rank + 1) * kv_heads // self.size, first + 1))
