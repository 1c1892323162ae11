"""The figures of the timing model: one table per architecture, every row with its unit and its source.

Sources: `measured: KEY` is that entry of benchmarks/calibration/measured/h100.json (NVIDIA H100 80GB HBM3, 2026-11-21)
or, of probes and launches, of kinds_h100.json there; for an H200 of h200.json and kinds_h200.json. `published: …` cites
a document; `fitted` was chosen so that the launches that benchmarks/calibration/cases.py and kinds.py do not hold out
come closest; `assumed` says what was assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sglab.gpu.errors import LaunchError


@dataclass(frozen=True)
class Figure:
    """One number of the model. name: as the compiled core knows it, or of a peak rate"""

    name: str
    value: float
    unit: str
    meaning: str
    source: str


@dataclass(frozen=True)
class Figures:
    """What the model knows of one GPU.

    rates, latencies: by name. Cycles are those of the SM clock, `clock` in GHz
    """

    arch: str
    product: str
    rows: tuple[Figure, ...]

    def __getitem__(self, name: str) -> float:
        return self.by_name[name].value

    @property
    def by_name(self) -> Mapping[str, Figure]:
        return {row.name: row for row in self.rows}


_GUIDE = "published: CUDA C++ Programming Guide, Compute Capabilities"
_H100 = "published: NVIDIA H100 Tensor Core GPU Architecture white paper"

_SM_90 = (
    Figure("clock", 1.98, "GHz", "SM clock", "measured: launch.clock_ghz_all_sms"),
    Figure("sms", 132, "", "SMs", _H100),
    Figure("registers", 65_536, "", "32-bit registers per SM", _GUIDE),
    Figure("threads", 2048, "", "resident threads per SM", _GUIDE),
    Figure("ctas", 32, "", "resident CTAs per SM", _GUIDE),
    Figure("shared", 233_472, "B", "shared memory per SM", _GUIDE),
    Figure(
        "barriers",
        64,
        "",
        "named barriers per SM",
        "measured: launches.feed_by_barriers, ctas_per_sm: 4 CTAs that may name 16 barriers each",
    ),
    Figure(
        "launch", 1400, "cycles", "from one launch to the next when nothing runs", "measured: launch.empty_kernel_us"
    ),
    Figure(
        "launch_all",
        260,
        "cycles",
        "the same, beyond it, when all SMs had CTAs",
        "fitted: bits_mix, double_polynomial, mandelbrot, softmax_warps, stencil_line, 132 CTAs beside 1",
    ),
    Figure(
        "cold_start",
        600,
        "cycles",
        "cold: until arguments and code have come from memory",
        "measured: cold.empty_us_8_ctas, and of 132 and 264 CTAs, cold beyond warm",
    ),
    Figure(
        "translation",
        270,
        "cycles",
        "cold: an SM's first access to 2 MiB waits for their translation",
        "measured: cold.load_us_8_ctas, and loads and stores of 132 and 264 CTAs, beyond cold_start and hbm_latency",
    ),
    Figure(
        "cta_start",
        300,
        "cycles",
        "from a CTA's place becoming free to its first instruction",
        "measured: launch.waves_of_528_ctas_ns",
    ),
    Figure(
        "cta_interval",
        1.2,
        "cycles",
        "between CTAs that start anywhere on the GPU",
        "measured: launch.empty_kernel_us, 8448 × 256",
    ),
    Figure(
        "branch",
        9,
        "cycles",
        "from a branch that is taken to what follows, beyond its issue slot",
        "measured: instruction.fma_f32, one warp: 12 cycles more per trip of 128, of which the loop itself issues 3; "
        "code.branch_taken_cycles is 6 more than code.branch_passed_cycles, and either has a branch's issue in it",
    ),
    Figure(
        "predicate",
        8,
        "cycles",
        "until a branch can use a predicate, beyond arithmetic",
        "measured: code.branch_taken_cycles, less what branch and the instructions around it take",
    ),
    Figure(
        "code_capacity",
        2048,
        "instructions",
        "instruction cache of an SM",
        "measured: code.straight_cycles_per_instruction_1_warps, 1024 to 4096 instructions",
    ),
    Figure(
        "code_rate",
        2.2,
        "cycles",
        "straight code after it, per instruction",
        "measured: code.straight_cycles_per_instruction_1_warps, 4096 instructions",
    ),
    Figure("l1_capacity", 262_144, "B", "L1 cache and shared memory of an SM", _GUIDE),
    Figure("l1_latency", 40, "cycles", "load that hits L1", "measured: latency.l1_load_cycles"),
    Figure("l2_capacity", 50e6, "B", "L2 cache", _H100),
    Figure("l2_latency", 285, "cycles", "load that hits L2", "measured: latency.l2_load_cycles"),
    Figure("hbm_latency", 708, "cycles", "load from memory", "measured: latency.hbm_load_cycles"),
    Figure("atomic_latency", 519, "cycles", "atomic on global memory", "measured: latency.atom_global_cycles"),
    Figure(
        "first_load",
        200,
        "cycles",
        "warm: an SM's first load of a launch from 2 MiB, beyond l2_latency",
        "measured: cold.load_us_8_ctas, less cold.store_us_8_ctas (both warm) and l2_latency",
    ),
    Figure(
        "atomic_turn",
        1.45,
        "cycles",
        "lanes that change one word, at its slice of the L2 cache",
        "measured: probes.reduce_same_cycles_by_lanes, 132 CTAs, 1 lines, -32: 6,121 for 132 × 32 lanes",
    ),
    Figure(
        "atomic_float_turn",
        3.48,
        "cycles",
        "from one change of a word by floating-point arithmetic to the next",
        "measured: probes.reduce_same_float_cycles_by_lanes, 132 CTAs, 1 lines, 1: 459 for 132 lanes",
    ),
    Figure(
        "atomic_sector",
        1.2,
        "cycles",
        "a sector of which words are changed, at its slice",
        "measured: probes.reduce_same_cycles_by_lanes, 132 CTAs, 1 lines: 153 for 132 sectors of 8 words, 656 for 528",
    ),
    Figure(
        "atomic_port",
        1.08,
        "cycles",
        "lanes that change one word, out of one SM",
        "measured: probes.reduce_same_cycles_by_lanes, 1 CTAs, 8 to 1024 lines, -32: 34.6 for 32 lanes",
    ),
    Figure(
        "atomic_queue",
        200,
        "cycles",
        "of work for which an SM's atomics may wait at a slice before its next ones wait",
        "fitted: probes of reductions by 132 CTAs; 100 to 300 do equally well",
    ),
    Figure(
        "atomic_rate",
        42,
        "sectors/cycle",
        "atomics, all SMs, at L2",
        "measured: probes.reduce_global_cycles_by_stride, 132 CTAs × 1024, 8 to 128: 41 to 43 sectors",
    ),
    Figure(
        "load_port",
        118,
        "B/cycle",
        "loads, into one SM",
        "measured: probes.load_words_cycles_by_stride, 1 CTAs × 1024, 32",
    ),
    Figure(
        "load_rate",
        3970,
        "B/cycle",
        "loads, all SMs, from L2",
        "measured: probes.load_words_cycles_by_stride, 132 CTAs × 1024, 32",
    ),
    Figure(
        "l2_lines",
        64.6,
        "lines/cycle",
        "the same, lines of which few sectors are wanted",
        "measured: probes.load_words_cycles_by_stride, 132 CTAs × 1024, 128",
    ),
    Figure(
        "l2_slices",
        48,
        "",
        "slices of the L2 cache, for atomics",
        "measured: atomic_rate, at atomic_sector; in groups of four lines, since 8 lines are twice as fast as one "
        "(probes.reduce_same_cycles_by_lanes)",
    ),
    Figure(
        "store_line",
        3,
        "cycles",
        "a store, per line of which several lanes write a sector",
        "fitted: gemm, 1024 × 1024 × 1024; mla_decode_sm90, B=4 S=4096 H=128",
    ),
    Figure(
        "store_rate",
        2370,
        "B/cycle",
        "stores, all SMs, into L2",
        "fitted: copy, 16 MiB; measured 2,000 on 33 MiB (probes.store_words_cycles_by_stride, 132 CTAs × 1024, 4) and "
        "1,780 on 16 MiB (bandwidth.write_gbs_by_bytes)",
    ),
    Figure(
        "hbm_rate", 1576, "B/cycle", "memory, reads and writes", "measured: bandwidth.hbm_read_gbs_by_ctas, 132 CTAs"
    ),
    Figure(
        "copy_latency",
        290,
        "cycles",
        "bulk copy into shared memory, from issue to arrival of the first byte",
        "measured: latency.bulk_load_cycles_by_bytes",
    ),
    Figure(
        "tensor_copy_latency",
        300,
        "cycles",
        "the same through a tensor map",
        "measured: latency.tensor_load_64x64_bf16_cycles_by_bytes",
    ),
    Figure(
        "copy_port",
        107,
        "B/cycle",
        "asynchronous copies, into one SM",
        "measured: latency.bulk_load_cycles_by_bytes, 16 to 64 KiB",
    ),
    Figure(
        "copy_rate",
        3750,
        "B/cycle",
        "bulk copies, all SMs, different bytes from L2",
        "measured: pattern.bulk_shared_bytes_per_cycle_per_sm_by_group, 1",
    ),
    Figure(
        "same_copy_rate",
        7570,
        "B/cycle",
        "the same, bytes that are under way to another SM already",
        "measured: pattern.bulk_shared_bytes_per_cycle_per_sm_by_group, 132; at least",
    ),
    Figure(
        "copy_store_port",
        32,
        "B/cycle",
        "bulk copies out of one SM",
        "measured: latency.bulk_store_read_cycles_by_bytes",
    ),
    Figure(
        "copy_store_latency",
        30,
        "cycles",
        "until a bulk copy out of shared memory reads",
        "measured: latency.bulk_store_read_cycles_by_bytes",
    ),
    Figure("cp_async_latency", 370, "cycles", "cp.async", "measured: latency.cp_async_cycles, 32 threads × 1"),
    Figure(
        "barrier_latency",
        12,
        "cycles",
        "from the last arrival at a named barrier to what follows",
        "measured: instruction.bar_sync",
    ),
    Figure(
        "barrier_arrive",
        2,
        "cycles",
        "an SM's named barriers take one warp per",
        "measured: instruction.bar_sync, 1 to 32 warps",
    ),
    Figure(
        "mbarrier_latency",
        26,
        "cycles",
        "from an mbarrier's arrival to what follows the wait",
        "measured: latency.mbarrier_ping_pong_round_cycles",
    ),
    Figure("fence", 671, "cycles", "a fence of memory for the GPU", "measured: instruction.membar_gl"),
    Figure(
        "cluster_arrive",
        560,
        "cycles",
        "until an arrival at a cluster's barrier that releases memory counts",
        "measured: latency.cluster_barrier_256_threads_cycles, less remote_latency",
    ),
    Figure(
        "cluster_latency",
        640,
        "cycles",
        "from the last arrival at a cluster's barrier to what follows",
        "fitted: cluster_ring, 4 CTAs; a barrier alone has remote_latency",
    ),
    Figure(
        "remote_latency",
        160,
        "cycles",
        "another CTA's shared memory, beyond one's own",
        "measured: latency.dsmem_load_32_threads_cycles",
    ),
    Figure("wgmma_latency", 32, "cycles", "wgmma, beyond its time in the tensor core", "measured: wgmma, groups of 1"),
    Figure(
        "tensor_macs", 512, "MAC/cycle", "f16 and bf16, tensor core of one sub-partition", "measured: wgmma, N = 256"
    ),
    Figure("shared_rate", 128, "B/cycle", "shared memory, one SM", "measured: instruction.ld_shared_v4"),
)

_B200 = "published: NVIDIA B200 data sheet"
_CHIPS = "published: https://chipsandcheese.com/p/nvidias-b200-keeping-the-cuda-juggernaut"
_DISSECTED = "published: https://newsletter.semianalysis.com/p/dissecting-nvidia-blackwell-tensor"

_SM_100_CHANGES = {
    "clock": (1.86, f"{_B200}: the clock at which 148 SMs of 8192 FLOP per cycle reach 2250 TFLOPS"),
    "sms": (148, _CHIPS),
    "l2_capacity": (126e6, _CHIPS),
    "hbm_rate": (4030, f"{_B200}: 8 TB/s, of which the share that an H100 reaches, 94 %"),
    "shared_rate": (128, _DISSECTED),
}
_SM_100_NEW = (
    Figure("tcgen05_macs", 4096, "MAC/cycle", "f16 and bf16, tensor core of one SM", f"{_B200}: 2250 TFLOPS dense"),
    Figure("tcgen05_latency", 32, "cycles", "tcgen05.mma, beyond its time in the tensor core", "assumed: as wgmma"),
    Figure(
        "tmem_load_rate", 128, "B/cycle", "tensor memory into registers, one sub-partition", "assumed: a word per lane"
    ),
    Figure(
        "tmem_store_rate", 128, "B/cycle", "registers into tensor memory, one sub-partition", "assumed: a word per lane"
    ),
    Figure("tmem_latency", 16, "cycles", "tcgen05.ld and tcgen05.st, beyond that", "assumed"),
    Figure("tmem_copy_rate", 128, "B/cycle", "tcgen05.cp from shared memory", "assumed: as shared_rate"),
)


# An H200 is an H100 with other memory, and with an L2 cache of more slices.
_H200_CHANGES = {
    "launch_all": (120, "fitted: bits_mix, double_polynomial, collatz, softmax_warps, stencil_line, 132 CTAs beside 1"),
    "hbm_rate": (2185, "measured: bandwidth.hbm_read_gbs_by_ctas, 132 CTAs"),
    "atomic_latency": (286, "measured: latency.atom_global_cycles"),
    "load_port": (123, "measured: probes.load_words_cycles_by_stride, 1 CTAs × 1024, 32"),
    "load_rate": (4610, "measured: probes.load_words_cycles_by_stride, 132 CTAs × 1024, 32"),
    "l2_lines": (77.6, "measured: probes.load_words_cycles_by_stride, 132 CTAs × 1024, 128"),
    "store_rate": (
        2850,
        "assumed: as far above probes.store_words_cycles_by_stride, 132 CTAs × 1024, 4 (2,410) as an H100's",
    ),
    "atomic_rate": (51, "measured: probes.reduce_global_cycles_by_stride, 132 CTAs × 1024, 8 to 128: 49 to 53 sectors"),
    "l2_slices": (58, "measured: atomic_rate, at atomic_sector, as on an H100; six stacks of memory, not five"),
    "copy_rate": (4540, "measured: pattern.bulk_shared_bytes_per_cycle_per_sm_by_group, 1"),
    "fence": (266, "measured: instruction.membar_gl"),
    "cluster_arrive": (150, "measured: latency.cluster_barrier_256_threads_cycles, less remote_latency"),
    "cluster_latency": (270, "fitted: cluster_ring, 4 CTAs"),
}
# Measured there, too: the same within 6 %.
_H200_SAME = (
    *("clock", "barriers", "cta_start", "cta_interval", "branch", "predicate", "code_capacity", "code_rate"),
    *("l1_latency", "l2_latency", "hbm_latency", "atomic_turn", "atomic_float_turn", "atomic_sector", "atomic_port"),
    "same_copy_rate",
    *("copy_latency", "tensor_copy_latency", "copy_port", "copy_store_port", "copy_store_latency", "cp_async_latency"),
    *("barrier_latency", "barrier_arrive", "mbarrier_latency", "remote_latency", "wgmma_latency", "tensor_macs"),
    "shared_rate",
)


def _changed(row: Figure, changes: Mapping[str, tuple[float, str]], same: Collection[str]) -> Figure:
    if row.name in changes:
        value, source = changes[row.name]
        return replace(row, value=value, source=source)
    if row.name in same or row.source.startswith("published: CUDA"):
        return row
    return replace(row, source=f"assumed: as sm_90 ({row.source})")


def _with(changes: Mapping[str, tuple[float, str]], same: Collection[str] = ()) -> tuple[Figure, ...]:
    return tuple(_changed(row, changes, same) for row in _SM_90)


FIGURES = {
    "sm_90": Figures("sm_90", "H100 SXM", _SM_90),
    "h200": Figures("sm_90", "H200", _with(_H200_CHANGES, _H200_SAME)),
    "sm_100": Figures("sm_100", "B200", (*_with(_SM_100_CHANGES), *_SM_100_NEW)),
}
_PRODUCTS = {"h100": "sm_90", "b200": "sm_100"}


def figures_of(gpu: str) -> Figures:
    """The figures of a GPU.

    Args:
        gpu: sm_90 (of an H100) or sm_100 (of a B200), with or without a suffix; or h100, h200, b200.

    Raises:
        LaunchError: there is no table for it.
    """
    name = gpu.lower()
    found = FIGURES.get(_PRODUCTS.get(name, name.rstrip("af")))
    if found is None:
        known = ", ".join(sorted({*FIGURES, *_PRODUCTS}))
        raise LaunchError(f"the timing model has figures for {known}; got arch '{gpu}'. Name one of these")
    return found
