"""Powers of two in f32: arguments that tell ways of computing them apart, and what comes of them."""

from __future__ import annotations

import numpy as np

HARDEST = [0x3B429D37, 0xB52D1F9A, 0xBCF3A937, 0x3A07857C, 0xB8D3D026, 0xBAEC2B40, 0x3C02A9AD]
"""Of all 2^32 arguments those whose power, in f64, lies within two last places of the middle between two f32: what a
step rounds otherwise shows there first."""
COEFFICIENTS = (
    1.0178086009239699e-07,
    1.3215486790144305e-06,
    1.5252733804059838e-05,
    1.5403530393381608e-04,
    1.3333558146428443e-03,
    9.6181291076284769e-03,
    5.5504108664821576e-02,
    2.4022650695910069e-01,
    6.9314718055994529e-01,
    1.0,
)


def arguments_of_ex2() -> np.ndarray:
    """A multiple of 1024 of them."""
    rng = np.random.default_rng(7)
    spread = [rng.uniform(-170, 170, 8192), rng.uniform(-1, 1, 8192), rng.uniform(-151, -125, 4096)]
    edges = [0.0, -0.0, 1e-45, -1e-45, 1e-38, 126.5, 127.99999, 128.0, -126.0, -149.0, -150.0, np.inf, -np.inf, np.nan]
    hardest = np.array(HARDEST, np.uint32).view(np.float32)
    any_bits = rng.integers(0, 2**32, 8192).astype(np.uint32).view(np.float32)
    x = np.concatenate([np.concatenate([*spread, edges]).astype(np.float32), hardest, any_bits])
    return np.concatenate([x, np.zeros(-len(x) % 1024, np.float32)])


def power_of_two(x: np.ndarray) -> np.ndarray:
    """The bits, by products and sums that are rounded one by one, as on a host without fused ones."""
    with np.errstate(invalid="ignore"):  # NaN that signal
        wide = np.clip(x.astype(np.float64), -160, 160)
    whole = np.rint(wide)
    rest, power = wide - whole, np.full_like(wide, COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        power = power * rest + coefficient
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result = np.ldexp(power, np.nan_to_num(whole).astype(np.int32)).astype(np.float32)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), result.view(np.uint32))
