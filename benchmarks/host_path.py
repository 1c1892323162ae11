"""What our MLA operators cost on the host before a launch is made: python benchmarks/host_path.py

CPU tensors on a device that takes launches and does not run them, so that what is timed is the operators' own Python:
checks, choice, recipe, packing. Needs no GPU; what the CUDA driver adds is measured by host_time.py. Prints µs per
call, medians: checked in full; served by a recipe on the tensors of the call before; and on tensors of the same shapes
that lie elsewhere at every call, none of them twice (their tensor maps are encoded again).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

from sglab.emulator import EmulatedDevice
from sglab.gpu import Launch
from sglab.kernels import (
    cutlass_mla,
    cutlass_mla_decode,
    cutlass_mla_get_workspace_size,
    devices,
    flash_mla,
    flash_mla_with_kvcache,
    get_mla_metadata,
)

BATCH, TOKENS, HEADS, PAGE = 8, 1024, 128, 64
LATENT, ROPE, SCALE = 512, 64, 192**-0.5
CALLS, ROUNDS = 100, 15


class NullDevice(EmulatedDevice):
    """Takes launches and runs none."""

    def run(self, launch: Launch) -> None:  # type: ignore[override]
        pass


@contextmanager
def unknown() -> Iterator[None]:
    """No call is recognised."""
    with mock.patch.object(cutlass_mla, "serves", no), mock.patch.object(flash_mla, "serves", no):
        yield


def no(*_: object) -> bool:
    return False


def microseconds(call: Callable[[], object], before: Callable[[], object] = lambda: None, calls: int = CALLS) -> float:
    """Of one call; the median of several rounds of them in a row. `before` runs before each and is not timed."""
    rounds = []
    for _ in range(ROUNDS):
        spent = 0.0
        for _ in range(calls):
            before()
            start = time.thread_time()
            call()
            spent += time.thread_time() - start
        rounds.append(spent / calls * 1e6)
    return statistics.median(rounds)


class Tensors:
    """Of one decode step. `elsewhere` moves all but the KV pool a few bytes on, where no call before has seen them."""

    def __init__(self) -> None:
        pages = TOKENS // PAGE
        self._moves = 0
        self.pool = torch.zeros(BATCH * pages, PAGE, LATENT + ROPE, dtype=torch.bfloat16)
        self.cache = self.pool.unsqueeze(2)
        self._room = [torch.zeros(1 << 22, dtype=dtype) for dtype in (torch.bfloat16, torch.int32, torch.int32)]
        self._room[2][:] = TOKENS
        self.elsewhere()

    def elsewhere(self) -> None:
        self._moves += 1
        pages = TOKENS // PAGE
        shapes = ((BATCH, HEADS, LATENT + ROPE), (BATCH, pages), (BATCH,))
        self.q, self.table, self.lengths = (
            room[16 * self._moves :][: math.prod(shape)].view(shape)
            for room, shape in zip(self._room, shapes, strict=True)
        )
        self.q_nope, self.q_pe = self.q.split([LATENT, ROPE], -1)
        self.q_tokens = self.q.unsqueeze(1)


def calls() -> Iterator[tuple[str, str, Tensors, Callable[[], object]]]:
    """(operator, architecture, its tensors, call)"""
    at = Tensors()
    for splits in (1, 4):
        size = cutlass_mla_get_workspace_size(TOKENS, BATCH, num_kv_splits=splits)
        workspace = torch.empty(size, dtype=torch.uint8)

        def decode(splits: int = splits, workspace: torch.Tensor = workspace, **options: Any) -> object:
            tensors = (at.q_nope, at.q_pe, at.pool, at.lengths, at.table, workspace)
            return cutlass_mla_decode(*tensors, SCALE, splits, check_values=False, **options)

        yield f"cutlass_mla_decode, splits {splits}", "sm_100a", at, decode
    yield "cutlass_mla_decode, planned by the host", "sm_90a", at, lambda: decode(seq_lens_cpu=[TOKENS] * BATCH)
    yield "cutlass_mla_decode, planned on the device", "sm_90a", at, decode
    metadata = get_mla_metadata(at.lengths, HEADS)

    def flash() -> object:
        tensors = (at.q_tokens, at.cache, at.table, at.lengths)
        return flash_mla_with_kvcache(*tensors, LATENT, *metadata, softmax_scale=SCALE, check_values=False)

    yield "flash_mla_with_kvcache", "sm_90a", at, flash


def main() -> None:
    print(f"{'':44}{'in full':>10}{'again':>10}{'elsewhere':>12}")
    for name, arch, at, call in calls():
        device = NullDevice(arch)
        with (
            mock.patch.object(devices, "device_of", lambda _, device=device: device),
            mock.patch.object(devices, "hopper_of", lambda _, device=device: device),
        ):
            with unknown():
                in_full = microseconds(call, calls=20)
            call()
            again = microseconds(call)
            elsewhere = microseconds(call, before=at.elsewhere, calls=20)
        print(f"{name:44}{in_full:>7.1f} µs{again:>7.1f} µs{elsewhere:>9.1f} µs")


if __name__ == "__main__":
    main()
