"""Questions of notebook 16: arithmetic intensity, ridges, counts of runs, and times that deserve to be believed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from sglab.emulator.captures import Capture
from sglab.roofline import MACHINES, Point, Work, count, decode, launches_of, mla_decode, prefill, recorded_points

from .code_question import CodeQuestion
from .question import Question
from .roofline_samples import SAMPLES, WAYS

HEADS = {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128}
WORK: dict[str, Work] = {
    "product 4096³": Work({"bf16": 2 * 4096.0**3}, 3 * 2 * 4096.0**2),
    "decode 1 × 4096": decode([4096], **HEADS),
    "decode 32 × 4096": decode([4096] * 32, **HEADS),
    "prefill 4096": prefill([4096], **HEADS),
}
"""What the timed calls of an H100 had to do, those that compute."""


def table(samples: dict[str, dict[str, tuple[float, ...]]] = SAMPLES) -> str:
    """Medians of each call in each way, in microseconds."""
    width = max(map(len, samples))
    lines = [f"{'':{width}}  " + "  ".join(f"{way:>10}" for way in WAYS)]
    for name, ways in samples.items():
        lines.append(f"{name:{width}}  " + "  ".join(f"{statistics.median(ways[way]):10.1f}" for way in WAYS))
    return "\n".join(lines)


def measured_points() -> list[Point]:
    """The calls that compute as points: medians with a cold L2 cache."""
    how = "Median of 21 on an NVIDIA H100 80GB HBM3, CUDA events, full queue, cold L2 cache, 2026-11-23."
    return [
        Point(name, work, "measured", statistics.median(SAMPLES[name]["cold"]) * 1e-6, "H100", how=how)
        for name, work in WORK.items()
    ]


def decode_intensity() -> Question:
    """FLOPs per byte of GQA decode with 32 heads, 8 of KV, over a long cache."""

    def truth() -> float:
        work = decode([1_000_000], **HEADS)
        return sum(work.flops.values()) / work.nbytes

    return Question(
        truth=truth,
        because="{truth:.1f}: of each key (and value) of 2 bytes per number, 4 heads make 2 FLOPs per number.",
        hint="Per token and KV head: K and V are 2 · 128 numbers of 2 bytes. Four query heads multiply and add each "
        "number once: 2 FLOPs. (Twice too much: are V's bytes counted? Half: is an addition counted?)",
        tolerance=0.02,
        ideas=(
            (8.0, "Are the values' bytes counted? K and V are read."),
            (2.0, "A multiplication and an addition are two FLOPs."),
            (1.0, "That is for a KV head of its own for each query head. Here four share one."),
            (16.0, "Eight KV heads are read once each; four query heads use each of them."),
        ),
    )


def larger_batch() -> Question:
    """By what a batch of 64 instead of 32 multiplies the intensity of decode attention."""

    def truth() -> float:
        return _intensity(decode([4096] * 64, **HEADS)) / _intensity(decode([4096] * 32, **HEADS))

    return Question(
        truth=truth,
        because="{truth:.0f}: not at all. Each request brings its own cache. (A layer's weights are shared by the "
        "batch; its attention is not.)",
        hint="Count both: what happens to the FLOPs when the batch doubles, and what to the bytes of the caches?",
        ideas=(
            (2, "The FLOPs double. So do the bytes: each request has a cache of its own."),
            (0.5, "The bytes double. So do the FLOPs: each request has a query of its own."),
        ),
    )


def tokens_to_ridge(machine: str = "H100") -> Question:
    """Query tokens per request and pass from which on GQA decode is compute-bound."""

    def truth() -> int:
        bound = MACHINES[machine]
        return next(n for n in range(1, 4096) if bound.place(decode([1_000_000], q_len=n, **HEADS)).bound == "compute")

    return Question(
        truth=truth,
        because="{truth}: each cached byte is read once for all of them. No draft is that long; chunked prefill is.",
        hint="Intensity grows with the query tokens that share one read of the cache. The ridge is peak over "
        "bandwidth.",
        ideas=(
            (
                math.ceil(MACHINES[machine].ridge()),
                "That is the ridge itself, as if a query token made one FLOP per byte. How many does it make (question "
                "1)?",
            ),
        ),
    )


def prefill_length(machine: str = "H100") -> Question:
    """The shortest prompt whose prefill attention is compute-bound."""

    def truth() -> int:
        bound = MACHINES[machine]
        return next(n for n in range(1, 65_536) if bound.place(prefill([n], **HEADS)).bound == "compute")

    return Question(
        truth=truth,
        because="{truth} tokens: FLOPs grow with the square of the length, bytes with the length.",
        hint="Ask machine.place(roofline.prefill([n], …)).bound for several n. The mask leaves about half of the "
        "scores: about 370 forgets it.",
        ideas=(
            *(
                (n, "The causal mask leaves out about half of the scores: half the FLOPs, the same bytes.")
                for n in range(360, 381)
            ),
            (295, "That is the ridge, in FLOPs per byte."),
        ),
    )


def mla_compute_bound() -> Question:
    """Machines on which MLA decode of 128 heads over a long cache is compute-bound."""

    def truth() -> set[str]:
        work = mla_decode([1_000_000])
        return {name for name, machine in MACHINES.items() if machine.place(work).bound == "compute"}

    return Question(
        truth=truth,
        because="{truth}: 242 FLOPs per byte lie between its ridge of 206 and those of the H100 and B200. More "
        "bandwidth moves the ridge to the left.",
        hint="Compare one intensity with machine.ridge() of each of roofline.MACHINES. The answer is a set of names.",
        ideas=(
            (set(), "242 FLOPs per byte: on one of them the ridge is below that."),
            (set(MACHINES), "242 FLOPs per byte. Compare with each ridge: 295, 206, 281."),
            ({"H100", "B200"}, "Right of the ridge is compute-bound: 242 is above which ridge?"),
        ),
    )


def padding(few: Capture, many: Capture) -> Question:
    """How many times more FLOPs a kernel executed than its shapes need, where heads were padded.

    Args:
        few: decode with 16 heads.
        many: the same with 128.
    """

    def flops(launches: Capture) -> float:
        return sum(count(log).flops.get("bf16", 0.0) for _, log in launches_of(launches))

    return Question(
        truth=lambda: flops(few) / flops(many) * 128 / 16,
        because="{truth:.0f} times: the tile has 128 rows whoever asks. On the picture its counted point lies to the "
        "right of the arithmetic one, and no nearer to its result.",
        hint="Count both launches (roofline.count) and compare the one of 16 heads with roofline.mla_decode(…, "
        "num_heads=16). Fewer heads do not mean fewer FLOPs here.",
        ideas=(
            (1.0, "The tile has 128 rows whoever asks."),
            (0.125, "That is which part of what was computed is used."),
            (16.0, "16 is how many heads are real, of 128 rows."),
        ),
    )


def what_limits(launch: Capture) -> Question:
    """Whether memory, arithmetic or neither limits a launch, by its modelled time."""

    def truth() -> str:
        for _, log in launches_of(launch):
            for point in recorded_points(log):
                if point.seconds is not None:
                    place = MACHINES[point.machine].place(point.work)
                    return place.bound if place.seconds / point.seconds > 0.5 else "neither"
        raise ValueError("launch: the timing model has no machine for it")

    return Question(
        truth=truth,
        because="{truth}: it reaches a hundredth of either roof. Two of 148 SMs work, one tile after the other; what "
        "it waits for is latency, which no roofline shows.",
        hint="A kernel near a roof is limited by that roof. How near is this one, in per cent? Answer 'memory', "
        "'compute' or 'neither'.",
        ideas=(
            (
                "memory",
                "It lies under the slanted roof, but how far below? It would have to read a hundred times as "
                "fast to touch it.",
            ),
            ("compute", "The tensor cores of two SMs of 148 are at work, and those wait most of the time."),
        ),
    )


def flattered() -> Question:
    """How many times faster the copy seems with a warm L2 cache."""

    def truth() -> float:
        ways = SAMPLES["copy 8 MiB"]
        return statistics.median(ways["cold"]) / statistics.median(ways["warm"])

    return Question(
        truth=truth,
        because="{truth:.2f} times: 16 MiB fit into an L2 cache of 50 MB. In a model's layer other kernels ran in "
        "between, and the cache holds theirs.",
        hint="Divide the cold median by the warm one. The other columns differ for other reasons.",
        tolerance=0.03,
        ideas=(
            (1 / truth(), "The other way round: cold over warm."),
            (
                statistics.median(SAMPLES["copy 8 MiB"]["wall"]) / statistics.median(SAMPLES["copy 8 MiB"]["warm"]),
                "The column wall has the host's work in it. Compare what differs in the cache alone.",
            ),
        ),
    )


def nearest_roof() -> Question:
    """Which of the timed calls comes nearest to its roof on an H100."""

    def truth() -> str:
        shares = {
            point.label: MACHINES["H100"].place(point.work).seconds / (point.seconds or 1.0)
            for point in measured_points()
        }
        return max(shares, key=lambda name: shares[name])

    return Question(
        truth=truth,
        because="{truth}: 84 % of the published bandwidth, although it has the fewest FLOP/s but one. Height alone "
        "says little; what counts is the distance to the roof above.",
        hint="Not the highest point: for each, MACHINES['H100'].place(work).seconds over its measured seconds.",
        ideas=tuple(
            (point.label, "High is not near: compare its time with what its roof allows.")
            for point in measured_points()
            if point.label != truth()
        ),
    )


def _intensity(work: Work) -> float:
    return sum(work.flops.values()) / work.nbytes


def _roof(flops: float, nbytes: float, peak: float, bandwidth: float) -> list[Any]:
    seconds = max(flops / peak, nbytes / bandwidth)
    return [flops / seconds, "compute" if flops / peak >= nbytes / bandwidth else "memory"]


def _roof_cases(random: torch.Generator) -> list[list[Any]]:
    def draw(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=random))

    cases = [[10.0, 10.0, 4.0, 2.0], [100.0, 10.0, 4.0, 2.0]]
    for _ in range(6):
        peak, bandwidth, nbytes = draw(100, 2000), draw(1, 8), draw(1, 100)
        cases.append([nbytes * peak / bandwidth * draw(0.05, 3), nbytes, peak, bandwidth])
    return [list(case) for case in cases]


def roof() -> CodeQuestion:
    """The exercise of writing the roofline: attainable FLOP/s, and what limits."""

    def added(flops: float, nbytes: float, peak: float, bandwidth: float) -> list[Any]:
        right = _roof(flops, nbytes, peak, bandwidth)
        return [flops / (flops / peak + nbytes / bandwidth), right[1]]

    def swapped(flops: float, nbytes: float, peak: float, bandwidth: float) -> list[Any]:
        rate, bound = _roof(flops, nbytes, peak, bandwidth)
        return [rate, "memory" if bound == "compute" else "compute"]

    def higher(flops: float, nbytes: float, peak: float, bandwidth: float) -> list[Any]:
        return [max(peak, flops / nbytes * bandwidth), _roof(flops, nbytes, peak, bandwidth)[1]]

    def times(flops: float, nbytes: float, peak: float, bandwidth: float) -> list[Any]:
        return [max(flops / peak, nbytes / bandwidth), _roof(flops, nbytes, peak, bandwidth)[1]]

    def always_higher(flops: float, nbytes: float, peak: float, bandwidth: float) -> list[Any]:
        peak_counts = peak > flops / nbytes * bandwidth
        return [max(peak, flops / nbytes * bandwidth), "compute" if peak_counts else "memory"]

    def flat(flops: float, nbytes: float, peak: float, bandwidth: float) -> list[Any]:
        return [peak, _roof(flops, nbytes, peak, bandwidth)[1]]

    return CodeQuestion(
        function="roof",
        cases=_roof_cases,
        truth=_roof,
        because="That is the whole model: the lower of two lines.",
        ideas=(
            (added, "Copies and arithmetic run at the same time: the longer of the two counts, not their sum."),
            (swapped, "The rate is right; what limits is the roof that is lower, not the one above it."),
            (higher, "You took the higher of the two roofs; a kernel hits the lower one first."),
            (always_higher, "You took the higher of the two roofs; a kernel hits the lower one first."),
            (times, "That is the kernel's time. The rate is FLOPs over it."),
            (flat, "Only the peak: below the ridge the bandwidth does not deliver enough bytes for it."),
        ),
    )


def _typical(samples: Sequence[float], warm_ups: int) -> float:
    return statistics.median(samples[warm_ups:])


def typical() -> CodeQuestion:
    """The exercise of making one number of timings: the median of what follows the warm-up calls."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        made: list[list[Any]] = [[[9.0, 1.0, 2.0, 3.0], 1], [[50.0, 20.0, 4.0, 1.0, 2.0, 3.0], 2]]
        for size in (8, 15):
            samples = (10 + torch.rand(size, generator=random)).tolist()
            samples[0], samples[size // 2] = 900.0, 70.0
            made.append([samples, 3])
        return [*made, [list(SAMPLES["decode 1 × 4096"]["first"]), 6]]

    def of_rest(summary: Callable[[Sequence[float]], float]) -> Callable[..., float]:
        return lambda samples, warm_ups: float(summary(samples[warm_ups:]))

    return CodeQuestion(
        function="typical",
        cases=cases,
        truth=_typical,
        because="One slow sample among many leaves a median where it is.",
        ideas=(
            (
                lambda samples, warm_ups: statistics.median(samples),
                "The first calls compile, allocate and raise the clock.",
            ),
            (
                lambda samples, warm_ups: statistics.median(samples[:-warm_ups]),
                "Those are the last ones. The warm-up calls come first: samples[warm_ups:].",
            ),
            (
                lambda samples, warm_ups: samples[warm_ups:][(len(samples) - warm_ups) // 2],
                "That is the sample in the middle of the list. A median is the middle of them *sorted* (of an even "
                "number, the mean of the middle two).",
            ),
            (
                lambda samples, warm_ups: sorted(samples[warm_ups:])[(len(samples) - warm_ups) // 2],
                "Nearly: of an even number of samples the median is the mean of the middle two.",
            ),
            (of_rest(statistics.fmean), "A mean: one interruption of the host moves it. Take the median."),
            (of_rest(min), "The least time is one lucky call; a server sees the typical one. Take the median."),
        ),
    )
