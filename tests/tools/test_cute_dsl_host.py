"""CuTe DSL libraries' host code on an emulated GPU: what it compiles for, and what it then calls."""

import pytest

torch = pytest.importorskip("torch")
cutlass = pytest.importorskip("cutlass")
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from sglab.emulator import EmulatedDevice
from sglab.gpu import LaunchError
from tools.compatibility.cute_dsl_host import launches_on


@cute.kernel
def _copy_kernel(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32) -> None:
    row, _, _ = cute.arch.block_idx()
    column, _, _ = cute.arch.thread_idx()
    if column < cute.size(x, mode=[1]):
        out[row, column] = x[row, column] * factor


@cute.jit
def _copy(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32, stream=None) -> None:
    _copy_kernel(x, out, factor).launch(grid=(cute.size(x, mode=[0]), 1, 1), block=(64, 1, 1), stream=stream)


def declared(width: int, divisibility: int):
    """A tensor without memory: two open sizes and an open stride of `width` bits."""
    symbol = cute.sym_int64 if width == 64 else cute.sym_int32
    shape = (cute.sym_int(), cute.sym_int())
    return make_fake_tensor(cutlass.Float32, shape, stride=(symbol(divisibility=divisibility), 1), assumed_align=16)


@pytest.mark.parametrize(("widths", "divisibility"), [((64, 64), 4), ((32, 32), 1), ((64, 32), 4), ((32, 64), 8)])
def test_tensors_of_any_size_run_what_was_compiled_for_a_description(widths, divisibility) -> None:
    with launches_on(EmulatedDevice("sm_90a")):
        examples = [declared(width, divisibility) for width in widths]
        compiled = cute.compile(_copy, *examples, cutlass.Float32(0), stream=make_fake_stream())
        for rows, columns, pitch in ((3, 40, 40), (5, 17, 64)):
            x, out = torch.randn(rows, pitch)[:, :columns], torch.zeros(rows, columns + 7 & -8)[:, :columns]
            compiled(x, out, 2.0)
            assert torch.equal(out, 2 * x)
        assert len(compiled._compiled) == 1


def test_what_was_not_declared_is_refused() -> None:
    with launches_on(EmulatedDevice("sm_90a")):
        compiled = cute.compile(_copy, declared(64, 4), declared(64, 4), cutlass.Float32(0), stream=make_fake_stream())
        odd = torch.zeros(3, 5)
        with pytest.raises(LaunchError, match=r"stride of dimension 0: .* a multiple of 4; got 5"):
            compiled(odd, odd, 1.0)
        with pytest.raises(LaunchError, match=r"stride of dimension 1: .* 1; got 4"):
            compiled(torch.zeros(64).as_strided((4, 4), (8, 4)), torch.zeros(4, 4), 1.0)
