"""BatchInvariantMode: matrix products whose rows do not depend on how many rows there are, bit for bit.

A library chooses its blocking by the shape, and with it the order of the sums: a row of a large product differs in its
last bits from the same row alone. Here every product has the same shape, tiles of 16 rows padded with zeros.
Attention is per request (torch_native) or split by length alone (triton's deterministic plan), norms and softmax are
per row. SGLang replaces the same operations by Triton kernels (`batch_invariant_ops`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

TILE = 16
"""Rows."""
DEFAULT_SEED = 42
"""Of requests without a seed of their own, as SGLang's deterministic mode has it."""


def tiled_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a [M, K] @ b [K, N], 16 rows at a time."""
    rows = a.shape[0]
    padded = torch.nn.functional.pad(a, (0, 0, 0, -rows % TILE))
    return torch.cat([torch.mm(part, b) for part in padded.split(TILE)])[:rows] if rows else torch.mm(a, b)


class BatchInvariantMode(TorchDispatchMode):
    """Tiles every linear layer and every product of two matrices of this thread."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name == "linear":
            x, weight, *bias = args
            out = tiled_mm(x.reshape(-1, x.shape[-1]), weight.T).view(*x.shape[:-1], -1)
            return out + bias[0] if bias and bias[0] is not None else out
        if name in ("mm", "matmul") and args[0].dim() == args[1].dim() == 2:
            return tiled_mm(*args)
        if name == "addmm" and not kwargs:
            bias, a, b = args
            return tiled_mm(a, b) + bias
        return func(*args, **(kwargs or {}))


def batch_invariant(enabled: bool) -> AbstractContextManager[object]:
    """The mode, or nothing."""
    return BatchInvariantMode() if enabled else nullcontext()
