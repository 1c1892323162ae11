"""Element types by formula: an independent decoder of every small float, and raw arrays for the tests."""

from __future__ import annotations

import numpy as np
import torch

# exponent bits, mantissa bits, bias, specials
FORMATS = {
    "e4m3": (4, 3, 7, "one_nan"),
    "e5m2": (5, 2, 15, "ieee"),
    "e3m2": (3, 2, 3, "none"),
    "e2m3": (2, 3, 1, "none"),
    "e2m1": (2, 1, 1, "none"),
    "ue4m3": (4, 3, 7, "one_nan"),
}


def decode_small(name: str, code: int) -> float:
    if name == "ue8m0":
        return float("nan") if code == 255 else 2.0 ** (code - 127)
    exponent_bits, mantissa_bits, bias, specials = FORMATS[name]
    mantissa = code & ((1 << mantissa_bits) - 1)
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    sign = -1.0 if name[0] == "e" and (code >> (mantissa_bits + exponent_bits)) & 1 else 1.0
    top = exponent == (1 << exponent_bits) - 1
    if specials == "ieee" and top:
        return sign * float("inf") if mantissa == 0 else float("nan")
    if specials == "one_nan" and top and mantissa == (1 << mantissa_bits) - 1:
        return float("nan")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def finite_codes(name: str) -> np.ndarray:
    bits = {"e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4, "ue8m0": 8, "ue4m3": 7}[name]
    return np.array([c for c in range(1 << bits) if np.isfinite(decode_small(name, c))], dtype=np.uint8)


def values_of(name: str, raw: np.ndarray) -> np.ndarray:
    """float64 values of raw elements."""
    if name == "f16":
        return raw.view(np.float16).astype(np.float64)
    if name == "bf16":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if name == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if name == "s8":
        return raw.view(np.int8).astype(np.float64)
    if name == "u8":
        return raw.astype(np.float64)
    table = np.array([decode_small(name, c) for c in range(256)])
    return table[raw]


def random_raw(rng: np.random.Generator, name: str, shape: tuple[int, ...], small_integers: bool) -> np.ndarray:
    """Raw elements: small integers (whose sums of products are exact in fp32), or normal random values."""
    if name in ("s8", "u8"):
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if name in FORMATS:
        codes = finite_codes(name)
        if small_integers:
            codes = np.array([c for c in codes if decode_small(name, int(c)) in (-2, -1, 0, 1, 2)], dtype=np.uint8)
        return rng.choice(codes, shape)
    values = (
        rng.integers(-4, 5, shape).astype(np.float32) if small_integers else rng.normal(size=shape).astype(np.float32)
    )
    if name == "f16":
        return values.astype(np.float16).view(np.uint16)
    if name == "bf16":
        return torch.from_numpy(values).bfloat16().view(torch.uint16).numpy()
    return values.view(np.uint32)
