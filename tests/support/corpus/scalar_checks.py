"""What the plain CUDA kernels compute, once more in Python."""

from __future__ import annotations

import math

import numpy as np
import torch

from tests.support.corpus.launch import Arguments, equal

SEED = 12345


def alu_loop(a: Arguments) -> None:
    """Bit for bit: float64 holds each product, so one rounding is left, as in a fused operation."""
    thread = np.arange(64 * 256, dtype=np.uint32)
    state = np.uint32(SEED) ^ (thread * np.uint32(2654435761))
    x, y = np.full(thread.shape, 0.5, np.float32), (thread & 1023).astype(np.float32) * np.float32(2.0**-10)
    for _ in range(a[2]):
        state = state * np.uint32(1664525) + np.uint32(1013904223)
        u = ((state >> 9) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
        x = (x.astype(np.float64) * 0.75 + u).astype(np.float32)
        y = (y.astype(np.float64) * u + x).astype(np.float32)
        y = np.where(y > 4, y - np.float32(4), y)
        state ^= state >> 13
    equal(a[0], torch.from_numpy(x + y))


def atomics(a: Arguments) -> None:
    values, out = a[0].numpy().astype(np.int64), a[1].numpy()
    total = int(values.sum())
    bits = [np.bitwise_and.reduce(values), np.bitwise_or.reduce(values), np.bitwise_xor.reduce(values)]
    expected = [total, values.min(), values.max(), *bits, values.max(), 600, 2 * total, total]
    assert out[:10].tolist() == [int(value) for value in expected]
    assert (a[2][0], a[3][0], a[4][0]) == (300, total, 150)
    assert a[2].view(torch.float16)[2:4].tolist() == [600, 0]


def shuffles_and_votes(a: Arguments) -> None:
    given, results = a[0].numpy().astype(np.int64).reshape(4, 32), a[1].numpy().astype(np.uint32).reshape(4, 32, 12)
    for values, out in zip(given, results, strict=True):
        _check_warp(values, values.astype(np.uint32), out)


def _check_warp(values: np.ndarray, bits: np.ndarray, out: np.ndarray) -> None:
    lane, everyone = np.arange(32), 2**32 - 1
    odd = np.flatnonzero(values & 1)
    odd_mask = sum(1 << int(i) for i in odd)
    low = values & 3
    same = [sum(1 << int(j) for j in np.flatnonzero(low == one)) for one in low]
    agree = np.unique(values >> 31).size == 1
    leader = np.where(values & 1, bits[odd[0]] if odd.size else 0, 0)
    total = (int(values.sum()) ^ int(np.bitwise_xor.reduce(bits))) % 2**32
    expected = [
        bits[lane * 7 % 32],
        np.where(lane >= 3, bits[lane - 3], bits),
        np.where(lane % 16 + 5 < 16, bits[(lane + 5) % 32], bits),
        bits[lane ^ 9],
        odd_mask,
        2 * bool((values > 100).any()) + bool((values > -100).all()),
        same,
        0,
        everyone,
        np.where(values & 1, odd_mask, 0),
        leader,
        total,
    ]
    for column, value in enumerate(expected):
        if column == 7:  # match.all: no mask where the lanes disagree
            assert (out[:, 7] == (0 if not agree else out[0, 7])).all()
        else:
            assert (out[:, column] == np.asarray(value, np.int64)).all(), column


def divergence(a: Arguments) -> None:
    """Steps of the Collatz sequence, changed by one of five branches."""
    for start, got in zip(a[0].tolist(), a[1].tolist(), strict=True):
        value, steps = start, 0
        while value != 1 and steps <= 500:
            value, steps = (3 * value + 1 if value & 1 else value // 2), steps + 1
        assert got == [steps + 1000, steps * 3, -steps, steps ^ 0x55, steps - 7][start % 5], start


def calls_and_spaces(a: Arguments) -> None:
    table = [0.0, 1.5, -2.25, 3.0, 4.125, -5.0, 6.5, 7.75]
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    for i, x in enumerate(a[0].double().tolist()):
        polynomial = sum(table[(i + j) % 8] * x**j for j in range(i % 8 + 1))
        expected = polynomial + (2 * x if i & 1 else x * x)
        assert math.isclose(a[1][i].item(), expected, rel_tol=1e-4, abs_tol=1e-3), i
        assert a[2][i] == fibonacci[i % 10] + 5


def arithmetic(a: Arguments) -> None:
    _check_floats(a[0].numpy(), np.ascontiguousarray(a[2].numpy().astype(np.uint32).T))
    for (i, j), row in zip(a[1].tolist(), a[2].numpy().astype(np.uint32).tolist(), strict=True):
        _check_integers(i, _signed(j | 1), row)


def _check_floats(x: np.ndarray, out: np.ndarray) -> None:
    column = out.view(np.float32)
    p, q = x[:, 0].astype(np.float64), x[:, 1].astype(np.float64)

    def near(number: int, expected: np.ndarray, rtol: float = 3e-6, atol: float = 1e-6) -> None:
        np.testing.assert_allclose(column[number].astype(np.float64), expected, rtol=rtol, atol=atol)

    assert (column[0] == x[:, 0] / x[:, 1]).all()
    assert (column[1] == np.sqrt(np.abs(x[:, 0]))).all()
    near(2, 1 / np.sqrt(np.abs(q)))
    near(3, np.exp2(p))
    near(4, np.log2(np.abs(q)), 1e-5)
    near(5, np.sin(p), 0, 1e-5)
    near(6, np.tanh(p), 1e-3)
    assert (column[7] == np.fmin(x[:, 0], x[:, 1])).all()
    assert (out[8].view(np.int32) == np.rint(x[:, 0] * np.float32(100))).all()
    assert (out[9] == np.trunc(np.abs(x[:, 1]) * np.float32(1e3))).all()
    assert (out[19].view(np.float16)[0::2] == x[:, 0].astype(np.float16)).all()
    bfloat = torch.from_numpy((out[19] >> 16).astype(np.uint16).view(np.int16)).view(torch.bfloat16)
    equal(bfloat, torch.from_numpy(x[:, 1].copy()).bfloat16())
    root = np.sqrt(np.abs(p * q + 1e-9)).view(np.int64) >> 32  # the compiler may fuse: the last place of the high word
    assert (np.abs(out[21].view(np.int32).astype(np.int64) - root) <= 1).all()


def _check_integers(i: int, j: int, row: list[int]) -> None:
    u, v = i % 2**32, j % 2**32
    quotient = abs(i) // abs(j) * (1 if (i < 0) == (j < 0) else -1)
    assert row[10:15] == [quotient % 2**32, (i - quotient * j) % 2**32, u // v, (i * j >> 32) % 2**32, u * v >> 32]
    assert row[15] == (32 - u.bit_length()) * 64 + v.bit_count()
    assert row[16] == int(f"{u:032b}"[::-1], 2)
    b = u.to_bytes(4, "little") + v.to_bytes(4, "little")
    assert row[17] == int.from_bytes(bytes([b[0], b[4], b[1], b[5]]), "little")
    assert row[18] == ((v << 32 | u) << 7 >> 32) % 2**32
    assert row[22] == (i * j >> 17) % 2**32
    first_set, halves = (v & -v).bit_length(), (u + v & 0xFFFF) | ((u >> 16) + (v >> 16) & 0xFFFF) << 16
    total = max(i, j) + abs(i) % 2**32 + first_set + (i >> 5 & 31) + min(i, 3) + halves
    assert row[23] == total % 2**32


def _signed(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
