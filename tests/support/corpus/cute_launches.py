"""CuTe DSL: attention scores with their LSE, on tcgen05 and TMA."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.support.corpus.launch import Arguments, Draw, Launch, Map, close

SCALE = 0.125
MMA_FIELDS = bytes(32)  # of the kernel's first parameter, a TiledMma: nothing negated, no scaling


def launches() -> Iterator[Launch]:
    name, entry = "cute_scores.sm_100a", "scores_kernel"
    yield Launch(name, name, entry, (2, 3, 1), (128, 1, 1), _make, _check, smem=67_584, exact=False)


def _make(draw: Draw) -> Arguments:
    q, k = draw.floats(256, 192, dtype=torch.float16), draw.floats(384, 192, dtype=torch.float16)
    maps = [Map(tensor, (64, 128), 128) for tensor in (q, k)]
    return [MMA_FIELDS, *maps, torch.zeros(256, 384).half(), torch.zeros(256, 3), SCALE]


def _check(a: Arguments) -> None:
    scores = SCALE * (a[1].tensor.double() @ a[2].tensor.double().T)
    close(a[3], scores, 1e-3, 1e-3)
    close(a[4], torch.logsumexp(scores.view(256, 3, 128), 2), 1e-5, 1e-5)
