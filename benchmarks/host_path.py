"""What our MLA operators cost on the host before a launch is made: python benchmarks/host_path.py

CPU tensors on a device that takes launches and does not run them, so that what is timed is the operators' own Python:
checks, choice, recipe, packing. Needs no GPU; what the CUDA driver adds is measured by host_time.py. Prints µs per
call, medians, for calls that are checked anew and for calls that a recipe serves, and their ratio.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
SCALE = 192**-0.5
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


def microseconds(call: Callable[[], object], calls: int = CALLS) -> float:
    """Of one call; the median of several rounds of them in a row."""
    runs = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(calls):
            call()
        runs.append((time.thread_time() - start) / calls * 1e6)
    return statistics.median(runs)


def calls() -> Iterator[tuple[str, str, Callable[[], object]]]:
    """(operator, architecture, call)"""
    pages = TOKENS // PAGE
    q_nope = torch.zeros(BATCH, HEADS, 512, dtype=torch.bfloat16)
    q_pe, kv = q_nope.new_zeros(BATCH, HEADS, 64), q_nope.new_zeros(BATCH * pages, PAGE, 576)
    table = torch.arange(BATCH * pages, dtype=torch.int32).view(BATCH, pages)
    lengths = torch.full((BATCH,), TOKENS, dtype=torch.int32)
    for splits in (1, 4):
        size = cutlass_mla_get_workspace_size(TOKENS, BATCH, num_kv_splits=splits)
        tensors = (q_nope, q_pe, kv, lengths, table, torch.empty(size, dtype=torch.uint8))

        def decode(tensors: tuple[torch.Tensor, ...] = tensors, splits: int = splits, **options: object) -> object:
            return cutlass_mla_decode(*tensors, SCALE, splits, check_values=False, **options)  # type: ignore[arg-type]

        yield f"cutlass_mla_decode, splits {splits}", "sm_100a", decode
    yield "cutlass_mla_decode, planned by the host", "sm_90a", lambda: decode(seq_lens_cpu=[TOKENS] * BATCH)
    yield "cutlass_mla_decode, planned on the device", "sm_90a", decode
    metadata = get_mla_metadata(lengths, HEADS)
    q, cache = torch.cat([q_nope, q_pe], -1).unsqueeze(1), kv.unsqueeze(2)
    yield (
        "flash_mla_with_kvcache",
        "sm_90a",
        lambda: flash_mla_with_kvcache(
            q, cache, table, lengths, 512, *metadata, softmax_scale=SCALE, check_values=False
        ),
    )


def main() -> None:
    print(f"{'':44}{'anew':>10}{'again':>10}{'ratio':>8}")
    for name, arch, call in calls():
        device = NullDevice(arch)
        with (
            mock.patch.object(devices, "device_of", lambda _, device=device: device),
            mock.patch.object(devices, "hopper_of", lambda _, device=device: device),
        ):
            with unknown():
                anew = microseconds(call, 20)
            call()
            again = microseconds(call)
        print(f"{name:44}{anew:>7.1f} µs{again:>7.1f} µs{anew / again:>8.1f}")


if __name__ == "__main__":
    main()
