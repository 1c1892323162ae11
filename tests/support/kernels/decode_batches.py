"""MLA decode batches for our kernels, with their reference in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import torch

SCALE = 192**-0.5


class Batch:
    """Random requests in a pool where everything that no request owns is NaN: pages, and rows past a last token.

    spread: standard deviation of Q; large for peaked scores, small for flat ones
    """

    def __init__(
        self,
        lengths: Sequence[int],
        heads: int = 128,
        page_size: int = 128,
        dtype: torch.dtype = torch.float16,
        spread: float = 1.0,
        device: str = "cpu",
    ) -> None:
        self.lengths = lengths
        self.seq_lens = torch.tensor(lengths, dtype=torch.int32, device=device)
        self.q_nope = (spread * torch.randn(len(lengths), heads, 512, device=device)).to(dtype)
        self.q_pe = (spread * torch.randn(len(lengths), heads, 64, device=device)).to(dtype)
        counts = [-(-length // page_size) for length in lengths]
        pages = torch.randperm(sum(counts) + 3).tolist()
        self.kv_cache = torch.full((len(pages), page_size, 576), torch.nan, dtype=dtype, device=device)
        self.page_table = torch.full((len(lengths), max(*counts, 1)), 2**30, dtype=torch.int32, device=device)
        for request, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            own = [pages.pop() for _ in range(count)]
            self.page_table[request, :count] = torch.tensor(own)
            rows = torch.full((count * page_size, 576), torch.nan, dtype=dtype, device=device)
            rows[:length] = torch.randn(length, 576, device=device).to(dtype)
            self.kv_cache[own] = rows.view(count, page_size, 576)

    @property
    def arguments(self) -> tuple[torch.Tensor, ...]:
        """Of mla_decode_sm100, in its order."""
        return self.q_nope, self.q_pe, self.kv_cache, self.seq_lens, self.page_table

    @cache  # noqa: B019 (batches are few)
    def reference(self, base: str) -> tuple[torch.Tensor, torch.Tensor]:
        """O and LSE in float64."""
        out = torch.zeros(self.q_nope.shape, dtype=torch.float64, device=self.q_nope.device)
        lse = torch.full(self.q_nope.shape[:2], -torch.inf, dtype=torch.float64, device=self.q_nope.device)
        page_size = self.kv_cache.shape[1]
        for request, length in enumerate(self.lengths):
            pages = self.page_table[request, : -(-length // page_size)].long()
            kv = self.kv_cache[pages].view(-1, 576)[:length].double()
            scores = torch.cat([self.q_nope[request], self.q_pe[request]], -1).double() @ kv.T * SCALE
            if length:
                out[request] = torch.softmax(scores, -1) @ kv[:, :512]
                lse[request] = torch.logsumexp(scores, -1)
        return out, lse / (math.log(2) if base == "2" else 1)

    def check(self, out: torch.Tensor, lse: torch.Tensor, base: str = "e") -> None:
        """Against the reference, request by request.

        P and O are rounded to the element type, each by half an eps at most, so eps bounds what O may be off by.
        LSE is the logarithm of a sum of unrounded P, so its error is that of scores accumulated in float32: on the
        emulator at most 5e-6 where scores are a few units, and 1.2e-6 of an LSE of 200. A GPU's tensor cores truncate
        where the emulator rounds, 36 times per score: another 36 · 2⁻²³ = 4e-6 of it.
        """
        expected, expected_lse = self.reference(base)
        for request, length in enumerate(self.lengths):
            if length == 0:
                assert (out[request] == 0).all() and (lse[request] == -torch.inf).all(), f"request {request} is empty"
                continue
            error = (out[request].double() - expected[request]).norm() / expected[request].norm()
            assert error < torch.finfo(out.dtype).eps, f"request {request}, {length} tokens: relative error {error:.2e}"
            torch.testing.assert_close(lse[request].double(), expected_lse[request], atol=5e-5, rtol=1e-5)
