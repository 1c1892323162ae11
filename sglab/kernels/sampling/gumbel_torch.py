"""The same draw in PyTorch: noise for every token, then the largest."""

from __future__ import annotations

import torch

from sglab.kernels.sampling.gumbel import COLUMNS, GumbelArguments

WORD = 0xFFFFFFFF


def run(a: GumbelArguments) -> tuple[()]:
    rows, width = a.logits.shape
    seed, draw = a.state[0], a.state[1]
    column = torch.arange(width, device=a.device)
    quarter = COLUMNS // 4
    counter = column // COLUMNS * quarter + column % quarter
    row = torch.arange(rows, device=a.device)[:, None]
    four = philox(seed, (counter[None, :], row, draw & WORD, draw >> 32 & WORD))
    random = torch.stack(torch.broadcast_tensors(*four)).gather(
        0, (column % COLUMNS // quarter).expand(1, rows, width)
    )[0]
    exponential = -torch.log1p(-(random.double() + 0.5) / 2**32)
    scores = a.logits.double() / a.temperatures[:, None] - exponential.log()
    a.out.copy_(torch.where(a.greedy, a.logits.argmax(1), scores.argmax(1)))
    a.state[1] += 1
    return ()


def philox(seed: torch.Tensor, counters: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Philox4x32-10: four words, int64 in [0, 2³²), of a 64-bit seed and four words that broadcast."""
    c0, c1, c2, c3 = counters
    k0, k1 = seed & WORD, seed >> 32 & WORD
    for _ in range(10):
        high0, low0 = _product(0xD2511F53, c0)
        high2, low2 = _product(0xCD9E8D57, c2)
        c0, c1, c2, c3 = high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c0, c1, c2, c3


def _product(a: int, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low word of a product of two words, by halves, for int64 holds no 64 bits without a sign."""
    low = (a & 0xFFFF) * b
    high = (a >> 16) * b + (low >> 16)
    return high >> 16 & WORD, ((high << 16) | (low & 0xFFFF)) & WORD
