"""sin, cos, tanh and ex2 are the emulator's own, and as good as a library's for every size of argument."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.emulator.launching import launch
from tests.support.emulator.powers import arguments_of_ex2, power_of_two

KERNEL = """
.visible .entry k(.param .u64 in, .param .u64 out) {{
  .reg .b32 %i; .reg .b64 %p, %q; .reg .f32 %x;
  ld.param.u64 %p, [in]; ld.param.u64 %q, [out];
  mov.u32 %i, %tid.x;
  mad.wide.u32 %p, %i, 4, %p; mad.wide.u32 %q, %i, 4, %q;
  ld.global.f32 %x, [%p];
  {op} %x, %x;
  st.global.f32 [%q], %x;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("op", "function"), [("sin.approx.f32", np.sin), ("cos.approx.f32", np.cos), ("tanh.approx.f32", np.tanh)]
)
@pytest.mark.parametrize(("low", "high"), [(-149, -20), (-20, 4), (4, 18), (15, 40), (40, 128)])
def test_all_but_few_results_are_correctly_rounded(op: str, function: Callable, low: int, high: int) -> None:
    rng = np.random.default_rng(low + 200)
    x = np.ldexp(rng.uniform(-1, 1, 1024), rng.integers(low, high + 1, 1024)).astype(np.float32)
    x[:6] = [0.0, -0.0, 65536.0, -65536.0, 65536.004, 3.4028235e38]
    out = np.empty_like(x)
    launch(KERNEL.format(op=op), [x, out], block=(1024, 1, 1))
    expected = function(x.astype(np.float64)).astype(np.float32)
    steps = np.abs(out.view(np.int32).astype(np.int64) - expected.view(np.int32))
    assert steps.max() <= 1
    assert (steps != 0).mean() < 0.002


@pytest.mark.parametrize("op", ["sin.approx.f32", "cos.approx.f32", "tanh.approx.f32"])
def test_infinities_and_nan(op: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, np.nan], np.float32)
    x.view(np.uint32)[3] = 0xFF812345
    out = np.empty_like(x)
    launch(KERNEL.format(op=op), [x, out], block=(4, 1, 1))
    nan = 0x7FFFFFFF
    ends = [0x3F800000, 0xBF800000] if "tanh" in op else [nan, nan]
    assert out.view(np.uint32).tolist() == [*ends, nan, nan]


@pytest.mark.parametrize("flushes", [False, True])
def test_powers_of_two_are_those_of_steps_that_round_one_by_one(flushes: bool) -> None:
    """With and without fused steps: `test_instruction_sets.py` asks the other instruction sets for the same."""
    x = arguments_of_ex2()
    out = np.empty_like(x)
    for at in range(0, len(x), 1024):
        op = f"ex2.approx{'.ftz' if flushes else ''}.f32"
        launch(KERNEL.format(op=op), [x[at : at + 1024], out[at : at + 1024]], block=(1024, 1, 1))
    expected = power_of_two(x)
    if flushes:
        expected = np.where(expected < 0x00800000, 0, expected)
    np.testing.assert_array_equal(out.view(np.uint32), expected)
