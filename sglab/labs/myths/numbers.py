"""Statements on what decode costs: operations, bytes, times."""

from __future__ import annotations

from sglab.kernels.mla import tensor_work
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS

from .statement import Found, statement

PEAKS = {"H100": (989e12, 3.35e12), "H200": (989e12, 4.8e12), "B200": (2250e12, 8e12)}
"""Dense 16-bit FLOP/s and bytes/s as NVIDIA publishes them: of the tensor cores, of the memory."""

ROW_BYTES = HEAD_DIM * 2


def flop(heads: int, tokens: int) -> int:
    """Operations of one decode: two per multiplication, over 576 numbers for scores and 512 for values."""
    return 2 * heads * tokens * (HEAD_DIM + LATENT_DIM)


@statement(
    "c",
    a=(True, "For one head it is. With 128 heads every byte is used 128 times: compare with the GPUs' ridges."),
    b=(False, "Latency rules in short launches, but no kernel is bound by it by nature. Two numbers decide."),
    c=(False, "242 FLOP per byte with 128 heads: below H100's and B200's ridge, above H200's."),
)
def decode_is_memory_bound(tokens: int = 1000) -> Found:
    """Decode attention is memory-bound: that holds for MLA with its 128 heads on every GPU, too."""
    counted = tensor_work(NUM_HEADS, tokens).useful_flop
    assert counted == flop(NUM_HEADS, tokens)
    intensity = counted / (tokens * ROW_BYTES)
    ridges = {name: compute / memory for name, (compute, memory) in PEAKS.items()}
    found: dict[str, object] = {"FLOP per byte of cache, 128 heads": round(intensity, 1)}
    for name, ridge in ridges.items():
        found[f"ridge of {name}"] = f"{ridge:.0f}: bound by {'memory' if intensity < ridge else 'compute'}"
    return all(intensity < ridge for ridge in ridges.values()), found


@statement(
    "a",
    a=(False, "36.5 GFLOP are 37 µs at an H100's peak. 500 µs is a factor of 13 too much."),
    b=(False, "Nothing is wrong with the number of heads: 128. It is the division that was left out."),
    c=(True, "Multiply it out: 2 · 32 · 128 · 4,096 · 1,088 operations, at 989 · 10¹² per second."),
)
def half_a_millisecond(requests: int = 32, tokens: int = 4096) -> Found:
    """To compute one layer's decode of 32 requests with 4,096 tokens (128 heads), an H100 needs 500 µs."""
    total = requests * flop(NUM_HEADS, tokens)
    times = {name: total / compute * 1e6 for name, (compute, _) in PEAKS.items()}
    bytes_read = requests * tokens * ROW_BYTES
    found: dict[str, object] = {"operations": f"{total / 1e9:.1f} GFLOP"}
    found |= {f"at {name}'s peak": f"{time:.1f} µs" for name, time in times.items()}
    found["bytes of cache"] = f"{bytes_read / 1e6:.0f} MB, {bytes_read / PEAKS['B200'][1] * 1e6:.1f} µs on a B200"
    step, long = 7.21e-3, 16_384  # a step of that time, with requests of that length
    found[f"{requests} × {long:,} tokens in 7.21 ms"] = f"{requests * flop(NUM_HEADS, long) / step / 1e12:.1f} TFLOP/s"
    found["tokens generated per second in such steps"] = f"{requests / step:,.0f}"
    found["rows of cache read per second (no throughput)"] = f"{requests * long / step / 1e6:.1f} million"
    for rows, seconds in ((4 * 4096, 0.51e-3), (8 * 4096, 0.94e-3)):
        rate, each = rows / seconds / 1e6, seconds / rows * 1e9
        found[f"{rows:,} rows in {seconds * 1e3:.2f} ms"] = f"{rate:.1f} million per second, {each:.1f} ns each"
    return times["H100"] >= 400, found


@statement(
    "b",
    a=(False, "Fewer heads share the same bytes: 30 operations per byte, far below every ridge."),
    b=(True, "30 FLOP per byte. Tensor parallelism divides the heads, but every rank reads all of the cache."),
    c=(True, "True, but each rank reads just as many bytes as before: MLA's row has no heads to divide."),
)
def rank_of_eight() -> Found:
    """One of eight ranks, with 16 of DeepSeek-V3's 128 heads, is bound by memory on all of these GPUs."""
    intensities = {heads: flop(heads, 1) / ROW_BYTES for heads in (16, 64, NUM_HEADS)}
    least = min(compute / memory for compute, memory in PEAKS.values())
    found: dict[str, object] = {f"FLOP per byte, {heads} heads": round(n, 1) for heads, n in intensities.items()}
    return intensities[16] < least, {**found, "the lowest ridge, H200's": round(least)}
