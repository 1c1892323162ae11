"""Element types convert exactly: against torch's dtypes, and against the formula for those torch lacks."""

import math

import numpy as np
import pytest
import torch

from sglab._core import tensor
from tests.support.emulator.tensor_formats import decode_small


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0", "ue4m3"])
def test_every_code_of_a_small_float_decodes_by_the_formula(name: str) -> None:
    bits = {"e3m2": 6, "e2m3": 6, "e2m1": 4, "ue4m3": 7}.get(name, 8)
    for code in range(1 << bits):
        want, got = decode_small(name, code), tensor.decode_element(name, code)
        assert got == want or (math.isnan(got) and math.isnan(want)), (name, code)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("f16", torch.float16), ("bf16", torch.bfloat16), ("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)],
)
def test_every_code_agrees_with_torch(name: str, dtype: torch.dtype) -> None:
    width = torch.uint8 if dtype.itemsize == 1 else torch.uint16
    codes = torch.arange(1 << (8 * dtype.itemsize), dtype=torch.int32).to(width)
    want = codes.view(dtype).float().numpy()
    got = np.array([tensor.decode_element(name, int(c)) for c in codes], dtype=np.float32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("f16", torch.float16), ("bf16", torch.bfloat16), ("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)],
)
def test_encoding_rounds_as_torch_does(name: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng()
    exponents = rng.uniform(-30, 8.5, 4000)
    values = torch.from_numpy((rng.choice([-1.0, 1.0], 4000) * 2.0**exponents).astype(np.float32))
    width = torch.uint8 if dtype.itemsize == 1 else torch.uint16
    want = values.to(dtype).view(width).tolist()
    got = [tensor.encode_element(name, float(v)) for v in values]
    assert got == want


@pytest.mark.parametrize("name", ["e3m2", "e2m3", "e2m1"])
def test_encoding_takes_the_nearest_value_ties_to_even(name: str) -> None:
    bits = 4 if name == "e2m1" else 6
    half = 1 << (bits - 1)
    values = [decode_small(name, c) for c in range(half)]
    for value in np.random.default_rng().uniform(-values[-1] * 1.2, values[-1] * 1.2, 500).astype(np.float32).tolist():
        distance = [abs(abs(value) - v) for v in values]
        best = min(range(half), key=lambda c: (distance[c], c & 1))
        assert tensor.encode_element(name, value) & (half - 1) == best
    for code in range(half - 1):  # exact ties
        middle = (values[code] + values[code + 1]) / 2
        assert tensor.encode_element(name, middle) == (code if code % 2 == 0 else code + 1)


def test_overflow_saturates_or_becomes_nan() -> None:
    assert tensor.encode_element("e4m3", 1e6, True) == 0x7E
    assert tensor.encode_element("e4m3", 1e6, False) == 0x7F
    assert tensor.encode_element("e5m2", -math.inf, True) == 0xFB
    assert tensor.encode_element("e5m2", -math.inf, False) == 0xFC
    assert tensor.encode_element("e2m1", math.inf) == 0x7


def test_tf32_ignores_its_low_bits_and_rounds_to_nearest_even() -> None:
    raw = np.float32(1 + 2**-11).view(np.uint32)
    assert tensor.decode_element("tf32", int(raw)) == 1.0
    assert tensor.decode_element("tf32", tensor.encode_element("tf32", 1 + 2**-11)) == 1.0
    assert tensor.decode_element("tf32", tensor.encode_element("tf32", 1 + 3 * 2**-11)) == 1 + 2**-9
