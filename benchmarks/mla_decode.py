"""Our SM90 MLA decode beside FlashMLA and FlashInfer fa3, on one GPU in one run: python benchmarks/mla_decode.py

bf16, page size 64, pages in random order, head dims 576/512, one query token per request. Every implementation's result
is compared with float64 before it is timed. Times are medians of triton.testing.do_bench, which clears the L2 cache
before each call; the implementations take turns, and plans are made before. A peer that is missing, fails or is wrong
is left out, with the reason. A second table says what our time is made of (see mla_parts.py), a third what calls cost
on the host. With --random each run draws shapes that nobody tuned for, and times replays of captured graphs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch
import triton
from host_time import host_calls, host_microseconds
from mla_parts import Occupation, Parts
from mla_parts import measure as measure_parts
from mla_peers import IMPLEMENTATIONS, OURS, PACKAGES, Batch, Run, missing
from timing import Graphed
from triton.testing import do_bench

from sglab.gpu import CudaDevice

SHAPES = [
    (1, 1024, 128),
    (1, 8192, 128),
    (1, 65536, 128),
    (4, 4096, 128),
    (8, 16384, 128),
    (32, 1024, 128),
    (32, 4096, 128),
    (32, 16384, 128),
    (64, 4096, 128),
    (128, 4096, 128),
    (128, 4096, 16),
    (128, 8192, 64),
]
"""Batch size, KV tokens per request, heads."""
TOLERANCE = 1e-2
"""‖out − reference‖ / ‖reference‖ that bf16 results stay under."""
ROUNDS = 3
"""In which the implementations take turns; the median counts."""
PART_NAMES = ("total", "launch", "start", "tiles", "tail", "memory", "combine")

MOST_TOKENS = 1 << 21
"""Of all requests of a drawn shape together: 2.4 GB of cache."""

Shape = tuple[int, int, int]


def drawn_shape(rng: random.Random) -> Shape:
    while True:
        batch, heads = round(2 ** rng.uniform(0, 7)), rng.choice((16, 32, 64, 128))
        tokens = round(2 ** rng.uniform(9, 15))
        if batch * tokens <= MOST_TOKENS:
            return batch, tokens, heads


def microseconds(call: Callable[[], object]) -> float:
    return 1e3 * do_bench(call, warmup=20, rep=80, return_mode="median")


def copy_bandwidth() -> float:
    """GB/s of a large device copy, read and written bytes together."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2 * source.nbytes / microseconds(lambda: target.copy_(source)) / 1e3


def matmul_rate() -> float:
    """TFLOPS of an 8192³ bf16 product of random matrices."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / microseconds(lambda: a @ b) / 1e6


def versions() -> dict[str, str]:
    """Of everything that the figures hang on."""
    found = {"torch": torch.__version__, "CUDA": str(torch.version.cuda), "Triton": triton.__version__}
    for package in ("flashinfer-python", "flash_mla", "sglab"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {**found, "driver": _driver()}


def _driver() -> str:
    """The newest CUDA that the driver knows."""
    from cuda.bindings import driver

    number = driver.cuDriverGetVersion()[1]
    return f"CUDA {number // 1000}.{number % 1000 // 10}"


def right(batch: Batch, names: list[str], notes: list[str]) -> dict[str, Run]:
    """The implementations that run this batch and agree with float64; why others do not goes to notes."""
    runs = {}
    for name in names:
        try:
            run = IMPLEMENTATIONS[name](batch)
            error = batch.error(run())
        except Exception as failure:  # whatever a peer raises
            notes.append(f"{name} failed: {_first_line(failure)}")
            continue
        if error > TOLERANCE:
            notes.append(f"{name} is WRONG: relative error {error:.2e}")
        else:
            runs[name] = run
    return runs


def measure(shape: Shape, names: list[str], device: CudaDevice, graphs: bool) -> dict[str, Any]:
    """One row of the tables. graphs: time replays, and leave the parts out."""
    batch, notes = Batch.random(*shape), []
    runs: dict[str, Callable[[], object]] = dict(right(batch, names, notes))
    if graphs:
        runs = {name: Graphed.of(run) for name, run in runs.items()}
    rounds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            rounds[name].append(microseconds(run))
    times = {name: statistics.median(values) for name, values in rounds.items()}
    row: dict[str, Any] = {"shape": shape, "us": times, "rounds": rounds, "notes": notes}
    row |= {"bytes": batch.nbytes, "FLOP": batch.flop}
    if OURS in times:
        peers = [time for name, time in times.items() if name != OURS]
        row |= {"ratio": min(peers) / times[OURS]} if peers else {}
        row["GB/s"], row["TFLOPS"] = batch.nbytes / times[OURS] / 1e3, batch.flop / times[OURS] / 1e6
        row |= {} if graphs else explain(device, batch, notes)
    return row


def explain(device: CudaDevice, batch: Batch, notes: list[str]) -> dict[str, Any]:
    """What our time is made of; a failure goes to notes, so that a long run goes on."""
    try:
        parts, occupation = measure_parts(device, batch, microseconds)
    except Exception as failure:
        notes.append(f"the parts of {OURS} failed: {_first_line(failure)}")
        return {}
    return {"parts": asdict(parts), "plan": asdict(occupation), "bound by": bound_by(parts)}


def bound_by(parts: Parts) -> str:
    """The two largest parts, as shares of the total."""
    return ", ".join(f"{name} {time / parts.total:.0%}" for name, time in parts.by_size()[:2])


def print_comparison(rows: list[dict[str, Any]], names: list[str], bandwidth: float, rate: float) -> None:
    print(f"\n{'B':>4}{'S':>7}{'H':>5}" + "".join(f"{name:>16}" for name in names) + "  ratio  GB/s  (%)  TFLOPS  (%)")
    for row in rows:
        times = "".join(f"{row['us'][name]:>13.1f} µs" if name in row["us"] else f"{'–':>16}" for name in names)
        figures = f"{row['ratio']:>7.2f}" if "ratio" in row else f"{'–':>7}"
        if OURS in row["us"]:
            figures += (
                f"{row['GB/s']:>6.0f}{row['GB/s'] / bandwidth:>6.0%}{row['TFLOPS']:>7.0f}{row['TFLOPS'] / rate:>6.0%}"
            )
        print(_shape(row) + times + figures + "".join(f"  [{note}]" for note in row["notes"]))
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"geometric mean of best peer / ours over {len(ratios)} shapes: {statistics.geometric_mean(ratios):.3f}")


def print_parts(rows: list[dict[str, Any]], bandwidth: float, rate: float) -> None:
    print(
        "\nWhat our time is made of, µs. At the ceilings: what its bytes and its FLOP would take alone. Tiles: of the"
    )
    print("busiest CTA, and the mean over all SMs. Per tile: µs with pages in L2, and at the ceiling of the products.")
    print(
        f"{'B':>4}{'S':>7}{'H':>5}{'bytes':>8}{'FLOP':>8} |"
        + "".join(f"{name:>8}" for name in PART_NAMES)
        + f"{'(alone)':>8} |{'CTAs':>5}{'waves':>7}{'works':>6}{'tiles':>6}{'mean':>7} | per tile | bound by"
    )
    for row in rows:
        if "parts" not in row:
            continue
        parts, plan = row["parts"], Occupation(**row["plan"])
        ideal = 2 * min(row["shape"][2], 64) * 64 * 1088 / (rate * 1e6 / plan.sms)
        print(
            _shape(row)
            + f"{row['bytes'] / bandwidth / 1e3:>8.1f}{row['FLOP'] / rate / 1e6:>8.1f} |"
            + "".join(f"{parts[name]:>8.1f}" for name in (*PART_NAMES, "combine_alone"))
            + f" |{plan.ctas:>5}{plan.ctas / plan.sms:>7.2f}{plan.works:>6}{plan.longest:>6}{plan.mean:>7.1f}"
            + f" |{parts['per_tile']:>5.2f}{ideal:>5.2f}| {row['bound by']}"
        )


def print_host(device: CudaDevice) -> dict[str, float]:
    print("\nOn the host, µs per call")
    found = {}
    for name, call in host_calls(device):
        try:
            found[name] = host_microseconds(call)
        except Exception as failure:
            print(f"  failed  {name}: {_first_line(failure)}")
            continue
        print(f"{found[name]:>8.1f}  {name}", flush=True)
    return found


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _shape(row: dict[str, Any]) -> str:
    return "".join(f"{value:>{width}}" for value, width in zip(row["shape"], (4, 7, 5), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here, again after every shape")
    parser.add_argument("--only", nargs="*", choices=list(IMPLEMENTATIONS), help="these implementations")
    parser.add_argument("--random", type=int, metavar="N", help="this many shapes drawn for this run, as graphs")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of the drawn shapes")
    options = parser.parse_args()
    torch.manual_seed(torch.seed())
    names = []
    for name in options.only or IMPLEMENTATIONS:
        why = missing(name)
        print(f"{name}: {PACKAGES[name]} cannot be imported, left out ({why})" if why else f"{name}: there")
        names += [] if why else [name]
    device = CudaDevice(0)
    bandwidth, rate = copy_bandwidth(), matmul_rate()
    content: dict[str, Any] = {"date": str(date.today()), "device": torch.cuda.get_device_name(), "SMs": device.sms}
    content |= {"versions": versions(), "copy GB/s": bandwidth, "matmul TFLOPS": rate, "rows": []}
    print(f"{content['date']}, {content['device']}, {device.sms} SMs, {content['versions']}")
    print(f"ceilings: copy {bandwidth:.0f} GB/s, matmul {rate:.0f} TFLOPS; percentages are of these")
    shapes = SHAPES
    if options.random:
        rng = random.Random(options.seed)
        shapes = [drawn_shape(rng) for _ in range(options.random)]
        print(f"seed {options.seed}: {shapes}")
    for shape in shapes:
        content["rows"].append(measure(shape, names, device, bool(options.random)))
        print(f"{shape}: " + ", ".join(f"{k} {v:.1f}" for k, v in content["rows"][-1]["us"].items()), flush=True)
        save(options.json, content)
    print_comparison(content["rows"], names, bandwidth, rate)
    if not options.random:
        print_parts(content["rows"], bandwidth, rate)
        content["host us"] = print_host(device)
        save(options.json, content)
    if any(OURS in note for row in content["rows"] for note in row["notes"]):
        sys.exit("our own kernel failed or was wrong: see the notes")


def save(path: Path | None, content: dict[str, Any]) -> None:
    if path:
        path.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
