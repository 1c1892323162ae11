"""How much faster two workers are than one at a sweep of emulated launches, in one run.

python benchmarks/scale_out.py [--points 24] [--workers 2]

Both clusters are up before the clock starts; the sweeps alternate, and the least of each is compared.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from sglab.scale import fan_out, workers_of


def decode(seed: int) -> int:
    """The SM100 MLA decode of two requests on the emulator; returns how many rows came out."""
    import sglab

    batch = sglab.decode_batch(seq_lens=[300, 500], num_heads=128, page_size=128, dtype="float16", seed=seed)
    return int(sglab.attend(batch, backend="cutlass_mla").shape[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    calls: list[tuple[Any, ...]] = [(seed,) for seed in range(options.points)]
    with workers_of("local", 1) as one, workers_of("local", options.workers) as many:
        least = {1: float("inf"), options.workers: float("inf")}
        for client in (one, many):  # imports and first launches
            client.run(decode, 0)
        for _ in range(options.repeats):
            for count, client in ((1, one), (options.workers, many)):
                began = time.monotonic()
                fan_out(decode, calls, scheduler=client.scheduler.address, progress=False)
                least[count] = min(least[count], time.monotonic() - began)
    print(f"{options.points} launches, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for count, seconds in least.items():
        print(f"{count} workers: {seconds:.2f} s")
    print(f"speed-up: {least[1] / least[options.workers]:.2f}")


if __name__ == "__main__":
    main()
