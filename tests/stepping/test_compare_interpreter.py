"""`sglab.compare` with Triton's interpreter as the other side."""

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl

import sglab
from sglab import gpu


@triton.jit
def product(a, b, c, K: tl.constexpr):
    m = tl.arange(0, 32)
    k = tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * 32 + m[None, :])
    tl.store(c + m[:, None] * 32 + m[None, :], tl.dot(left, right))


@triton.jit
def scale(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at) * 1.1
    tl.store(out + at, value)


def test_what_tensor_cores_round_the_interpreter_does_not() -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(32, 64), torch.randn(64, 32), torch.zeros(32, 32)
    launch = sglab.step(product[(1,)], a, b, c, K=64)
    found = sglab.compare(launch, "interpreter", rtol=1e-4, atol=1e-4)
    assert (found.a, found.b) == ("product", "product under Triton's interpreter")
    assert [each.tensor for each in found.differences] == ["c"]
    assert found.differences[0].largest < 0.1  # as tf32 rounds
    parting = found.parting
    assert parting.right == pytest.approx((a @ b)[parting.index].item(), rel=1e-5)
    line = product.fn.__code__.co_firstlineno + 6
    assert (parting.b.program, parting.b.line) == ((0, 0, 0), line)
    assert f"test_compare_interpreter.py:{line} `tl.store(" in str(found)
    assert parting.a.place.instruction.text.startswith("st.global")
    assert any(place.endswith(f":{line}") for place in parting.a.place.instruction.places)
    assert sglab.compare(launch, "interpreter", rtol=0.05, atol=0.1).equal
    assert not c.any()


def test_programs_are_named() -> None:
    x, out = torch.arange(256, dtype=torch.float32), torch.zeros(256)
    launch = sglab.step(scale[(2,)], x, out, BLOCK=128)
    assert sglab.compare(launch, "interpreter").equal
    found = launch.interpreted.last_store(out.data_ptr() + 4 * 200, 4)
    assert found.program == (1, 0, 0)
    assert str(found).endswith("`tl.store(out + at, value)`")
    assert launch.interpreted.last_store(x.data_ptr(), 4) is None


def test_bfloat16_has_a_store_too() -> None:
    torch.manual_seed(0)
    x, out = torch.randn(256).bfloat16(), torch.zeros(256).bfloat16()
    found = sglab.compare(sglab.step(scale[(2,)], x, out, BLOCK=128), "interpreter")
    assert found.differences[0].largest < 0.02  # the interpreter computes in float32 and rounds once
    assert found.parting.b.program == (found.parting.index[0] // 128, 0, 0)


def test_other_kernels_and_words_are_refused() -> None:
    ptx = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 x) { ret; }"
    x = torch.zeros(4)
    launch = sglab.step(sglab.ptx(ptx)[1, 32], x)
    with pytest.raises(gpu.LaunchError, match="runs Triton kernels; k is none"):
        sglab.compare(launch, "interpreter", tensors={"x": x})
    with pytest.raises(gpu.LaunchError, match=r"\"interpreter\" or a function; got 'gpu'"):
        sglab.compare(launch, "gpu", tensors={"x": x})
