"""`sglab.step` on plain Triton and Gluon functions: no decorator of ours, no driver."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import numpy as np
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

import sglab
from sglab import gpu
from sglab.stepping import KernelLaunch
from sglab.widgets import KernelDebugger, SharedMemory, WarpRoles

SOURCE = Path(__file__).read_text().splitlines()


@triton.jit
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x_ptr + i, inside) + tl.load(y_ptr + i, inside)
    tl.store(out_ptr + i, total, inside)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 256})], key=["n"])
@triton.heuristics({"EVEN": lambda named: named["n"] % named["BLOCK"] == 0})
@triton.jit
def _tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) + EVEN, i < n)


@gluon.jit
def _double(x_ptr, out_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(out_ptr + i, gl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def test_nothing_runs_until_it_is_stepped() -> None:
    x, y, out = torch.randn(200), torch.randn(200), torch.zeros(200)
    launch = sglab.step(_add[(2,)], x, y, out, 200, BLOCK=128)
    assert isinstance(launch, KernelLaunch) and launch.report is None and not out.any()
    session = launch.session()
    session.run()
    assert torch.equal(out, x + y)
    session.seek(0)
    assert not out.any()


def test_source_lines_are_the_authors_and_tensors_have_their_parameters_names() -> None:
    x, y, out = torch.randn(200), torch.randn(200), torch.zeros(200)
    launch = sglab.step(_add[(2,)], x, y, out, 200, BLOCK=128)
    stop = launch.session().run_to(opcode="st.global")
    assert "tl.store(out_ptr" in SOURCE[stop.at.instruction.source[1] - 1]
    debugger = launch.debugger()
    assert {"x_ptr", "y_ptr", "out_ptr"} <= set(debugger.look({})["names"])
    assert launch.debugger() is debugger


def test_every_widget_of_launches_opens_it_and_they_move_together() -> None:
    x, y, out = torch.randn(200), torch.randn(200), torch.zeros(200)
    launch = sglab.step(_add[(2,)], x, y, out, 200, BLOCK=128)
    debugger, timeline, memory = KernelDebugger(launch), WarpRoles(launch), SharedMemory(launch)
    assert debugger.session is timeline.session is memory.session
    debugger.session.step(count=5)
    assert timeline.now == 5


def test_a_cell_that_ends_with_it_shows_the_debugger() -> None:
    launch = sglab.step(_add[(1,)], *(torch.zeros(64) for _ in range(3)), 64, BLOCK=64)
    assert "application/vnd.jupyter.widget-view+json" in launch._repr_mimebundle_()[0]


def test_the_grid_may_stand_beside_the_kernel() -> None:
    x, out = torch.randn(100), torch.zeros(100)
    launch = sglab.step(_add, lambda meta: (triton.cdiv(100, meta["BLOCK"]),), x, x, out, 100, BLOCK=32)
    assert launch.geometry.grid == (4, 1, 1)
    with pytest.raises(gpu.LaunchError, match="the grid is missing"):
        sglab.step(_add)


@pytest.mark.parametrize("n", [128, 100])
def test_autotuning_takes_the_first_configuration_and_says_so(n: int) -> None:
    x, out = torch.randn(n), torch.zeros(n)
    launch = sglab.step(_tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)], x, out, n)
    assert launch.geometry.block == (64, 1, 1) and "first of its 2 configurations" in launch.remarks[0]
    launch.session().run()
    assert torch.equal(out, x + (n % 64 == 0))


def test_gluon_runs_too() -> None:
    x, out = torch.randn(200), torch.zeros(200)
    sglab.step(_double[(2,)], x, out, 200, BLOCK=128).session().run()
    assert torch.equal(out, 2 * x)


def test_a_faulty_kernel_is_stepped_to_its_fault() -> None:
    x = torch.randn(100)
    launch = sglab.step(_add[(2,)], x, x, torch.zeros(50), 100, BLOCK=64)
    session = launch.session()
    with pytest.raises(gpu.KernelError):
        session.run()
    assert session.fault is not None and "tl.store" in SOURCE[session.fault.source_line - 1]


def test_running_and_recording_start_from_the_memory_it_found() -> None:
    x, out = torch.randn(64), torch.zeros(64)
    launch = sglab.step(_tuned, (1,), out, out, 64)
    for _ in range(2):
        launch.run()
        assert torch.equal(out, torch.ones(64))
    assert len(launch.record().cta) > 0 and launch.restart().now == 0 and not out.any()
    assert x.any()


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        ("_add", (), "got str: pass sglab.cuda"),
        (abs, (), "expected a kernel with its grid: .*; got builtin_function_or_method"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel: object, args: tuple, message: str) -> None:
    with pytest.raises(gpu.LaunchError, match=message):
        sglab.step(kernel, *args)


def test_wrong_arguments_are_named() -> None:
    x = torch.zeros(8)
    with pytest.raises(gpu.LaunchError, match=r"_add.*BLOCK"):
        sglab.step(_add[(1,)], x, x, x, 8)
    with pytest.raises(gpu.LaunchError, match="no programs"):
        sglab.step(_add[(0,)], x, x, x, 8, BLOCK=8)
    with pytest.raises(gpu.LaunchError, match=r"device: expected a gpu\.EmulatedDevice"):
        sglab.step(_add[(1,)], x, x, x, 8, BLOCK=8, device="cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
def test_cuda_tensors_are_copied_and_stepped_as_their_gpu_would() -> None:
    x, out = torch.randn(201, device="cuda")[1:], torch.zeros(200, device="cuda")
    launch = sglab.step(_add[(2,)], x, x, out, 200, BLOCK=128)
    assert (
        launch.device.arch.capability
        == 10 * torch.cuda.get_device_capability()[0] + (torch.cuda.get_device_capability()[1])
    )
    assert launch.remarks and launch.tensors["x_ptr"].data_ptr() % 16 == x.data_ptr() % 16
    launch.session().run()
    assert torch.equal(launch.tensors["out_ptr"], 2 * x.cpu()) and not out.any()
    _add[(2,)](x, x, out, 200, BLOCK=128)
    assert torch.equal(launch.tensors["out_ptr"], out.cpu())


def test_arguments_that_triton_has_no_type_for_are_named() -> None:
    x, out = torch.randn(200), torch.zeros(200)
    with pytest.raises(
        gpu.LaunchError, match=r"_double, x_ptr: expected a tensor, .*; got list. Pass torch.tensor\(x_ptr\)"
    ):
        sglab.step(_double[(2,)], [1.0, 2.0], out, 200, BLOCK=128)
    with pytest.raises(gpu.LaunchError, match=r"_double, n: expected .*; got numpy.int64. Pass n.item\(\)"):
        sglab.step(_double[(2,)], x, out, np.int64(200), BLOCK=128)
    with pytest.raises(gpu.LaunchError, match=r"_double, n: expected .*; got str. Declare n: tl.constexpr"):
        sglab.step(_double[(2,)], x, out, "200", BLOCK=128)
    with pytest.raises(gpu.LaunchError, match=r"_double, x_ptr\[1\]: expected .*; got dict"):
        sglab.step(_double[(2,)], (x, {}), out, 200, BLOCK=128)


def test_a_forgotten_grid_is_said() -> None:
    with pytest.raises(gpu.LaunchError, match=r"the grid is missing. Write sglab.step\(_double\[grid\]"):
        sglab.step(_double, torch.randn(200), torch.zeros(200), 200, BLOCK=128)


def test_numpy_arrays_are_written_in_place() -> None:
    x, out = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
    sglab.step(_double[(2,)], x, out, 200, BLOCK=128).run()
    assert np.array_equal(out, 2 * x)
