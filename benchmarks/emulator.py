"""How fast the emulator is, on this machine: PYTHONPATH=. python benchmarks/emulator.py

One run, after loading. Times are CPU time of this process, the least of repeated launches, so that other work on the
machine counts little; only the speed-up by a second core is of the clock. The last line is JSON. MLA is sglab's SM100
decode, fp16, 128 heads, page 128, one split: 128 tokens a tile.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from workloads.flash_attention import flash_attention
from workloads.mla import Mla

from sglab import gpu

SCALAR = Path(__file__).parent / "workloads" / "scalar.ptx"
ALU_CTAS, ALU_ITERATIONS = 64, 2000
PEAK = "--peak"  # runs this script as a child that measures memory alone


def milliseconds(call: Callable[[], object], repeat: int = 7, clock: Callable[[], float] = time.process_time) -> float:
    """The least time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeat):
        start = clock()
        call()
        times.append(1e3 * (clock() - start))
    return min(times)


def elapsed(call: Callable[[], object], repeat: int = 7) -> float:
    """By the clock on the wall, for what runs on several cores."""
    return milliseconds(call, repeat, time.perf_counter)


def rate(launch: Callable[[], object]) -> float:
    """Million warp-instructions per second of a launch that returns its report."""
    count = launch().warp_instructions  # type: ignore[attr-defined]
    return count / milliseconds(launch) / 1e3


def mla_figures() -> dict[str, float]:
    short, long, many = Mla([512]), Mla([2560]), Mla([512] * 8)
    one, two = gpu.EmulatedDevice("sm_100a"), gpu.EmulatedDevice("sm_100a", threads=2)
    s512, s2560 = milliseconds(lambda: short.launch(one), 40), milliseconds(lambda: long.launch(one))
    checked = gpu.EmulatedDevice("sm_100a", sanitize=True)
    return {
        "mla_s512_ms": s512,
        "mla_tile_ms": (s2560 - s512) / 16,
        "two_core_speedup": elapsed(lambda: many.launch(one)) / elapsed(lambda: many.launch(two)),
        "sanitizer_ratio": milliseconds(lambda: short.launch(checked), 21) / s512,
        "event_log_ratio": milliseconds(lambda: short.record(one), 21) / s512,
        "seek_ms": seek_milliseconds(short, one),
    }


def seek_milliseconds(mla: Mla, device: gpu.EmulatedDevice, count: int = 60) -> float:
    """Median time to any point of the launch from any other."""
    session = mla.session(device)
    session.run()
    positions = torch.randint(session.now + 1, (count,), generator=torch.Generator().manual_seed(0)).tolist()
    times = []
    for position in positions:
        start = time.process_time()
        session.seek(position)
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


def load_milliseconds_per_megabyte() -> float:
    """Text to a kernel that could be launched, for the MLA decode's PTX."""
    text = Mla([512]).module.ptx
    megabytes = len(text) / 1e6

    def load() -> object:
        module = gpu.Module(text)
        return [module.emulated.kernel(entry).unsupported for entry in module]

    return milliseconds(load) / megabytes


def scalar_figures() -> dict[str, float]:
    device, module, tokens = gpu.EmulatedDevice("sm_100a"), gpu.load(SCALAR), 512
    q, k, v = (torch.randn(tokens, 64) for _ in range(3))
    out, sums = torch.empty_like(q), torch.empty(256 * ALU_CTAS)

    def attention() -> object:
        args = [q, k, v, out, tokens, 0.125]
        return module["scalar_attention"].launch(device, grid=tokens // 64, block=64, args=args)

    def alu() -> object:
        return module["alu_loop"].launch(device, grid=ALU_CTAS, block=256, args=[sums, 1, ALU_ITERATIONS])

    return {"scalar_attention_mwips": rate(attention), "alu_mwips": rate(alu)}


def triton_figures() -> dict[str, float]:
    """By the clock on the wall: numpy's threads, which the interpreter uses, would count as its own time.

    The emulator runs as it does where nothing is said, on as many threads as PyTorch and at most as many as there are
    cores, which the interpreter may use, too; and on one thread.
    """
    q, k, v = (torch.randn(1, 512, 64).half() for _ in range(3))
    interpreted = milliseconds(lambda: flash_attention(q, k, v, route="interpreter"), 3, clock=time.perf_counter)

    def times_faster(**device: gpu.EmulatedDevice) -> float:
        return interpreted / elapsed(lambda: flash_attention(q, k, v, route="emulator", **device), 40)

    one = gpu.EmulatedDevice("sm_100a")
    return {"triton_vs_interpreter": times_faster(), "triton_vs_interpreter_one_thread": times_faster(device=one)}


def peak_megabytes() -> float:
    """What loading the kernel and one MLA launch, S=512, add to a process that has imported everything."""
    output = subprocess.run([sys.executable, __file__, PEAK], capture_output=True, text=True, check=True).stdout
    return float(output)


def measure_peak() -> None:
    mla = Mla([512])
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident_kilobytes("VmRSS")
    mla.launch(gpu.EmulatedDevice("sm_100a"))
    print((resident_kilobytes("VmHWM") - before) / 1024)


def resident_kilobytes(field: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


FLOORS = {
    "mla_s512_ms": "≤ 15",
    "mla_tile_ms": "≤ 2",
    "two_core_speedup": "≥ 1.7",
    "ptx_load_ms_per_mb": "≤ 100",
    "sanitizer_ratio": "≤ 4",
    "event_log_ratio": "≤ 1.5",
    "peak_mb": "≤ 100",
    "seek_ms": "≤ 50",
    "triton_vs_interpreter": "≥ 20",
    "triton_vs_interpreter_one_thread": "≥ 20",
    "scalar_attention_mwips": "≥ 20",
    "alu_mwips": "≥ 100",
}


def main() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    figures = mla_figures() | scalar_figures()
    torch.set_num_threads(threads)  # as many as where nothing is said
    figures |= triton_figures()
    figures["ptx_load_ms_per_mb"] = load_milliseconds_per_megabyte()
    figures["peak_mb"] = peak_megabytes()
    print(f"{'figure':36}{'measured':>10}   wanted")
    for name, wanted in FLOORS.items():
        print(f"{name:36}{figures[name]:10.2f}   {wanted}")
    print(json.dumps({name: round(figures[name], 3) for name in FLOORS}))


if __name__ == "__main__":
    if PEAK in sys.argv:
        measure_peak()
    else:
        main()
