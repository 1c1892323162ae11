"""How much faster two workers are than one at a sweep of emulated launches, or at gradings, in one run.

python benchmarks/scale_out.py [--points 24] [--workers 2] [--submissions FOLDER]

Both clusters are up before the clock starts; the runs alternate, and the least of each is compared. FOLDER holds
submissions as `sglab labs grade` takes them: `python labs/simulate_class.py FOLDER --hostile 0` makes some.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglab.labs.grading import find_submissions, grade_all
from sglab.labs.sandbox import Sandbox
from sglab.scale import fan_out, workers_of

Work = Callable[[str, int], None]
"""Something done by the workers of a scheduler, of which there are so many."""


def decode(seed: int) -> int:
    """The SM100 MLA decode of two requests on the emulator; returns how many rows came out."""
    import sglab

    batch = sglab.decode_batch(seq_lens=[300, 500], num_heads=128, page_size=128, dtype="float16", seed=seed)
    return int(sglab.attend(batch, backend="cutlass_mla").shape[0])


def launches(points: int) -> tuple[str, Work]:
    calls: list[tuple[Any, ...]] = [(seed,) for seed in range(points)]

    def work(scheduler: str, workers: int) -> None:
        fan_out(decode, calls, scheduler=scheduler, progress=False)

    return f"{points} launches", work


def gradings(folder: Path) -> tuple[str, Work]:
    submissions = find_submissions(folder)

    def work(scheduler: str, workers: int) -> None:
        with tempfile.TemporaryDirectory() as kept:  # a journal of its own: all are graded each time
            journal = Path(kept) / "grades.journal"
            grade_all(submissions, Sandbox(hidden=[folder]), "benchmark", journal, workers, scheduler=scheduler)

    return f"{len(submissions)} gradings", work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--submissions", type=Path, metavar="FOLDER", help="grade these, in place of launches")
    options = parser.parse_args()
    what, work = gradings(options.submissions) if options.submissions else launches(options.points)
    with workers_of("local", 1) as one, workers_of("local", options.workers) as many:
        least = {1: float("inf"), options.workers: float("inf")}
        for client in (one, many):  # imports and first launches
            client.run(decode, 0)
        for _ in range(options.repeats):
            for count, client in ((1, one), (options.workers, many)):
                began = time.monotonic()
                work(client.scheduler.address, count)
                least[count] = min(least[count], time.monotonic() - began)
    print(f"{what}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for count, seconds in least.items():
        print(f"{count} workers: {seconds:.2f} s")
    print(f"speed-up: {least[1] / least[options.workers]:.2f}")


if __name__ == "__main__":
    main()
