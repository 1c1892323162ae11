"""The softmax that notebook 09 asks for: kernels right and wrong, run on the emulator."""

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import triton.language as tl

from sglab.labs.own_kernel import SoftmaxRows


@triton.jit
def right(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, i < columns, other=-float("inf"))
    p = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + i, p / tl.sum(p), i < columns)


@triton.jit
def padded(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, i < columns, other=0.0)
    p = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + i, p / tl.sum(p), i < columns)


@triton.jit
def without_maximum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    p = tl.exp(tl.load(x_ptr + row * columns + i, i < columns, other=-float("inf")))
    tl.store(out_ptr + row * columns + i, p / tl.sum(p), i < columns)


@triton.jit
def undivided(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, i < columns, other=-float("inf"))
    tl.store(out_ptr + row * columns + i, tl.exp(x - tl.max(x)), i < columns)


@triton.jit
def unmasked(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, i < columns, other=-float("inf"))
    p = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + i, p / tl.sum(p))


@triton.jit
def unwritten(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    pass


def test_a_right_kernel_passes() -> None:
    verdict = SoftmaxRows().check(right)
    assert verdict.right, verdict.text


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (padded, "Load −inf there"),
        (without_maximum, "exp overflows"),
        (undivided, "Divide by the row's sum"),
        (unmasked, "need the mask"),
        (torch.softmax, "The answer is the kernel itself"),
    ],
)
def test_wrong_kernels_are_told_why(kernel: object, told: str) -> None:
    verdict = SoftmaxRows().check(kernel)
    assert verdict.right is False and told in verdict.text, verdict.text


def test_no_answer_yet() -> None:
    assert SoftmaxRows().check().right is None
    assert SoftmaxRows().check(unwritten).right is None
