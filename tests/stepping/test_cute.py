"""CuTe DSL functions: their host part runs as it is, without a GPU."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
cutlass = pytest.importorskip("cutlass")
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync

import sglab
from sglab import gpu
from sglab.emulator import Capture

SOURCE = Path(__file__).read_text().splitlines()


@cute.kernel
def _add_kernel(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, n: cutlass.Int32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < n:
        out[i] = x[i] + y[i]


@cute.jit
def _add(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, n: cutlass.Int32) -> None:
    _add_kernel(x, y, out, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))


@cute.jit
def _add_twice(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, n: cutlass.Int32) -> None:
    _add_kernel(x, y, out, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))
    _add_kernel(out, y, out, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))


@cute.kernel
def _copy_kernel(
    atom: cute.CopyAtom, tile: cute.Tensor, out: cute.Tensor, layout: cute.Layout, length: cutlass.Constexpr[int]
) -> None:
    thread, _, _ = cute.arch.thread_idx()
    memory = cutlass.utils.SmemAllocator()
    barrier = memory.allocate_array(cutlass.Int64, 1)
    staged = memory.allocate_tensor(cutlass.Float32, layout, byte_alignment=128)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    shared, there = cpasync.tma_partition(atom, 0, cute.make_layout(1), staged, tile)
    if thread == 0:
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, 4 * length)
    cute.copy(atom, there, shared, tma_bar_ptr=barrier)
    cute.arch.mbarrier_wait(barrier, 0)
    out[thread] = staged[thread]


@cute.jit
def _copy(x: cute.Tensor, out: cute.Tensor, length: cutlass.Constexpr[int]) -> None:
    layout = cute.make_layout((length,))
    atom, tile = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, layout, (length,))
    _copy_kernel(atom, tile, out, layout, length).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.kernel
def _flip_kernel(x: cute.Tensor, out: cute.Tensor, synchronised: cutlass.Constexpr) -> None:
    thread, _, _ = cute.arch.thread_idx()
    tile = cute.arch.alloc_smem(cutlass.Float32, 128)
    tile[thread] = x[thread]
    if cutlass.const_expr(synchronised):
        cute.arch.sync_threads()
    out[thread] = tile[127 - thread]


@cute.jit
def _flip(synchronised: cutlass.Constexpr, x: cute.Tensor, out: cute.Tensor) -> None:
    _flip_kernel(x, out, synchronised).launch(grid=(1, 1, 1), block=(128, 1, 1))


@pytest.mark.parametrize("synchronised", [True, False])
def test_arguments_that_are_compiled_in_are_not_passed(synchronised: bool) -> None:
    x, out = torch.randn(128), torch.zeros(128)
    report = sglab.step(sglab.cute(_flip), synchronised, x, out).run()
    assert bool(report.findings) != synchronised
    assert torch.equal(out, x.flip(0)) or not synchronised


def test_a_call_runs_it_with_the_grid_that_its_host_part_computes() -> None:
    x, y, out = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
    launch = sglab.cute(_add)(x, y, out, 700)
    assert launch.geometry.grid == (6, 1, 1) and launch.geometry.block == (128, 1, 1)
    assert torch.equal(out[:700], (x + y)[:700]) and not out[700:].any()


def test_step_prepares_it_with_names_and_lines() -> None:
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    launch = sglab.step(sglab.cute(_add), x, y, out, 300)
    assert list(launch.tensors) == ["x", "y", "out"] and not out.any()
    line = launch.session().run_to(opcode="st.global").at.instruction.source[1]
    assert SOURCE[line - 1].strip() == "out[i] = x[i] + y[i]"


def test_several_launches_are_run_in_order_and_captured() -> None:
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    capture = sglab.step(sglab.cute(_add_twice), x, y, out, 300)
    assert isinstance(capture, Capture) and len(capture) == 2
    assert torch.equal(out, x + y + y)


def test_a_copy_by_tma_has_its_tensor_map_from_the_host_part() -> None:
    x, out = torch.randn(32), torch.zeros(32)
    sglab.cute(_copy)(x, out, 32)
    assert torch.equal(out, x)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(gpu.LaunchError, match="missing a required argument: 'y'"):
        sglab.step(sglab.cute(_add), torch.zeros(8))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
def test_cuda_tensors_run_on_their_gpu() -> None:
    x, y, out = (torch.randn(1000, device="cuda") for _ in range(3))
    launch = sglab.cute(_add)(x, y, out, 1000)
    torch.cuda.synchronize()
    launch.session().run()
    assert torch.equal(out, x + y) and torch.equal(launch.tensors["out"], out.cpu())


def test_functions_of_the_dsl_are_told_from_other_functions() -> None:
    for function, remedy in (
        (_add, r"got function: a @cute\.jit function; pass sglab\.cute\(_add\)"),
        (_add_kernel, r"got function: the @cute\.kernel _add_kernel; pass sglab\.cute of the @cute\.jit function"),
    ):
        with pytest.raises(gpu.LaunchError, match=remedy):
            sglab.step(function, torch.zeros(4))
