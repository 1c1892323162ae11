"""How long each planner takes for a batch: PYTHONPATH=. python benchmarks/planning.py [--batch N]

SplitKV replans while a length is dragged, so a plan has 50 ms. Of each planner: the median and the best of several
plans. The last line is JSON; the exit status is 1 where a median is above the limit. Let the machine do nothing else.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import numpy as np

from sglab.planning import PLANNERS, Planner

LIMIT_MS = 50
REPEATS = 9
SHAPES = {"mla": (128, 1), "any": (32, 8)}
SM_COUNT = 132


def milliseconds(planner: Planner, lens: list[int]) -> list[float]:
    heads, kv_heads = SHAPES[planner.attention]
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        planner(lens, num_heads=heads, num_kv_heads=kv_heads, sm_count=SM_COUNT)
        times.append(1000 * (time.perf_counter() - began))
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256, help="requests (default 256)")
    lens = np.random.default_rng(0).integers(1, 4096, parser.parse_args().batch).tolist()
    figures = {}
    for name, planner in PLANNERS.items():
        times = milliseconds(planner, lens)
        figures[name] = {"median_ms": round(statistics.median(times), 2), "best_ms": round(min(times), 2)}
        print(f"{name:<30}" + "  ".join(f"{key} {value}" for key, value in figures[name].items()))
    print(json.dumps(figures))
    return int(any(figure["median_ms"] > LIMIT_MS for figure in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
