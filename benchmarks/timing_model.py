"""The timing model beside a GPU.

PYTHONPATH=. python benchmarks/timing_model.py                     modelled beside measured times, on any machine
PYTHONPATH=. python benchmarks/timing_model.py --docs              the same, into docs/emulator/timing.md, too
PYTHONPATH=. python benchmarks/timing_model.py --measure OUT.json  measures, on a GPU
PYTHONPATH=. python benchmarks/timing_model.py --measure-kinds OUT.json  measures the kernels of calibration/kinds.py
                                                                   and the probes; in less than 90 s, without nvcc

Measuring runs every case of benchmarks/calibration/cases.py through CudaDevice, and the microbenchmarks, and writes one
JSON, which it prints, too. Times are per launch, from launch to launch in a CUDA graph of equal ones, medians:
warm: the launch before has just touched the same memory, in five graphs of 100; cold: 256 MiB of other memory were
read in between, whose time is taken off.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import torch
from calibration.cases import CASES
from calibration.compare import compare, families, figure_tables, table
from calibration.compare_kinds import rows as compare_kinds
from calibration.compare_kinds import table as table_of_kinds
from calibration.kinds import KERNELS

from sglab.emulator import EmulatedDevice
from sglab.gpu import CudaDevice

HERE = Path(__file__).parent
MEASURED = HERE / "calibration" / "measured" / "h100.json"
MEASURED_KINDS = tuple(MEASURED.with_name(name) for name in ("kinds_h100.json", "kinds_h200.json"))
PAGE = HERE.parent / "docs" / "emulator" / "timing.md"
BEGIN, END = "<!-- timing: begin -->", "<!-- timing: end -->"
FLUSH_BYTES = 2**28


def measure(device: CudaDevice) -> Iterator[dict[str, Any]]:
    """What has been measured so far, after each step."""
    from calibration.gpu_time import launch_seconds, occupancy
    from microbench.bench import Bench
    from microbench.run import PARTS

    bench = Bench(device)
    memory = torch.zeros(FLUSH_BYTES, dtype=torch.uint8, device=device.torch_device)
    sink = torch.zeros(4, dtype=torch.int32, device=device.torch_device)
    arguments = [memory, FLUSH_BYTES // 16, 1, sink]
    flush = bench.named("read_stream").prepare(device, 2 * device.sms, 1024, args=arguments)
    result = provenance(device) | {"cases": [], "microbenchmarks": {}}
    for case in CASES:
        prepared = case.prepare(device)
        warm = [launch_seconds(device, prepared.launch, count=100) for _ in range(5)]
        result["cases"].append(
            {
                "kernel": case.kernel,
                "shape": case.shape,
                "warm_us": 1e6 * statistics.median(warm),
                "warm_us_by_graph": [1e6 * seconds for seconds in warm],
                "cold_us": 1e6 * launch_seconds(device, prepared.launch, before=[flush]),
                **occupancy(device, prepared.launch),
            }
        )
        yield result
    for part in PARTS:
        result["microbenchmarks"][part.__name__.removesuffix("_figures")] = part(bench)
        yield result


def measure_kinds(device: CudaDevice) -> Iterator[dict[str, Any]]:
    """What single accesses cost; then the kernels of kinds.py with their grids, warm, in three graphs of 100."""
    from calibration import probes
    from calibration.gpu_time import launch_seconds, occupancy

    result = provenance(device) | {"probes": probes.measure(device), "launches": []}
    yield result
    for one in KERNELS:
        for ctas in one.grids:
            prepared = one.prepare(device, ctas)
            warm = [1e6 * launch_seconds(device, prepared.launch, count=100) for _ in range(3)]
            result["launches"].append(
                {
                    "kind": one.kind,
                    "kernel": one.name,
                    "ctas": ctas,
                    "warm_us": statistics.median(warm),
                    "warm_us_by_graph": warm,
                    **occupancy(device, prepared.launch),
                }
            )
        yield result


def provenance(device: CudaDevice) -> dict[str, Any]:
    return {
        "device": torch.cuda.get_device_name(device.index),
        "driver": driver_version(),
        "torch": torch.__version__,
        "date": str(date.today()),
    }


def driver_version() -> str:
    from cuda.bindings import driver

    version = int(driver.cuDriverGetVersion()[1])
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def model() -> str:
    """Tables in Markdown, of all cases."""
    measured = json.loads(MEASURED.read_text())
    by_name = {f"{row['kernel']} {row['shape']}": row for row in measured["cases"]}
    device = EmulatedDevice("sm_90a")
    rows = [compare(case, device, by_name[case.name]) for case in CASES]
    source = (
        f"Measured: {measured['device']}, {measured['driver']}, {measured['date']}. Warm L2 cache unless it says cold."
    )
    return f"{source}\n\n{families(rows)}\n\n{table(rows)}\n\n{kinds(device)}"


def kinds(device: EmulatedDevice) -> str:
    """How the model does on the kernels of kinds.py on each GPU that has measured them."""
    tables = []
    for file in MEASURED_KINDS:
        measured = json.loads(file.read_text())
        source = f"Kinds. Measured: {measured['device']}, {measured['driver']}, {measured['date']}, warm."
        tables.append(f"{source}\n\n{table_of_kinds(compare_kinds(device, measured))}")
    return "\n\n".join(tables)


def write_page(tables: str) -> None:
    text = PAGE.read_text("utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(f"{text[:begin]}\n{tables}\n\n{figure_tables()}\n{text[end:]}", "utf-8")


def write_measured(path: Path, steps: Iterator[dict[str, Any]]) -> None:
    start = time.perf_counter()
    for result in steps:
        result["seconds"] = time.perf_counter() - start
        path.write_text(json.dumps(result))
    print(json.dumps(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", type=Path, metavar="OUT.json", help="measure on this machine's GPU instead")
    parser.add_argument("--measure-kinds", type=Path, metavar="OUT.json", help="the same for the kernels by kind")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/emulator/timing.md")
    options = parser.parse_args()
    if options.measure:
        write_measured(options.measure, measure(CudaDevice(0)))
    elif options.measure_kinds:
        write_measured(options.measure_kinds, measure_kinds(CudaDevice(0)))
    else:
        tables = model()
        print(tables)
        if options.docs:
            write_page(tables)


if __name__ == "__main__":
    main()
