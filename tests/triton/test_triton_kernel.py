"""triton_kernel launches like Triton, on the machine its tensors call for, and says which one that was."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl

from sglab.emulator import EmulatedDevice, capture
from sglab.gpu.errors import LaunchError
from sglab.gpu.fault import KernelError
from sglab.gpu.progress import say_once
from sglab.triton import triton_kernel


@pytest.fixture(autouse=True)
def no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SGLAB_TRITON", raising=False)


@triton_kernel
def _add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr = 64):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, (x + y).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _exponentials(row, largest):  # type: ignore[no-untyped-def]
    return tl.exp(row - largest)


@triton_kernel
def _normalised(row):  # type: ignore[no-untyped-def]
    weights = _exponentials(row, tl.max(row, axis=0))
    return weights / tl.sum(weights, axis=0)


@triton_kernel
def _softmax(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
    tl.store(out_ptr + row * stride + offsets, _normalised(x), mask=offsets < columns)


@triton_kernel
def _scaled_copy(x_ptr, out_ptr, scale, negate, start, stop, STEP: tl.constexpr):  # type: ignore[no-untyped-def]
    total = 0.0
    for index in range(start, stop, STEP):
        value = tl.load(x_ptr + index).to(tl.float32) * scale
        if negate:
            value = -value
        total += value
        tl.store(out_ptr + index, value)
    tl.store(out_ptr, total)


@triton_kernel
def _round_to_bfloat16(x_ptr, out_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets).to(tl.bfloat16).to(tl.float32))


def interpreted(kernel: Any, grid: Any, *arguments: Any, **options: Any) -> Any:
    return kernel[grid](*arguments, route="interpreter", **options)


@pytest.fixture(params=["emulator", "interpreter"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Launches on one of the routes for CPU tensors, and sees that it was that one."""

    def launch(kernel: Any, grid: Any, *arguments: Any, **options: Any) -> Any:
        record = kernel[grid](*arguments, route=request.param, **options)
        assert (record.route, record.reason.split(";")[0]) == (request.param, "route argument requests it")
        assert (record.report is not None) == (request.param == "emulator")
        return record

    return launch


@pytest.mark.parametrize("n", [1, 64, 65, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_add_matches_torch(run: Callable[..., Any], n: int, dtype: Any) -> None:
    x, y = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    out = torch.full((n,), float("nan"), dtype=dtype)
    record = run(_add, (triton.cdiv(n, 64),), x, y, out, n)
    assert torch.equal(out, x + y)
    assert record.grid == (triton.cdiv(n, 64), 1, 1)
    assert _add.last_launch is record
    assert _add.last_route == record.route


def test_the_interpreter_in_the_place_of_the_emulator_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(EmulatedDevice, "unsupported", lambda *_: ["instruction vadd (PTX line 3)"])
    say_once.cache_clear()
    x, out = torch.randn(8), torch.zeros(8)
    for _ in range(2):
        assert _add[(1,)](x, x, out, 8).route == "interpreter"
    assert torch.equal(out, x + x)
    said = capfd.readouterr().err
    wanted = "_add runs under Triton's interpreter, not on the emulator: the tensors are on the CPU, and the emulator"
    assert said.count(f"{wanted} lacks instruction vadd (PTX line 3)") == 1
    _add[(1,)](x, x, out, 8, route="interpreter")
    assert "interpreter" not in capfd.readouterr().err


def test_grid_may_be_a_function_of_the_arguments(run: Callable[..., Any]) -> None:
    x = torch.randn(300)
    out = torch.empty(300)
    record = run(_add, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), x, x, out, n=300, BLOCK=128, num_warps=8)
    assert record.grid == (3, 1, 1)
    assert torch.equal(out, x + x)


def test_helpers_may_be_triton_jit_or_triton_kernel_functions(run: Callable[..., Any]) -> None:
    x = torch.randn(5, 33)
    out = torch.empty_like(x)
    run(_softmax, (5,), x, out, x.stride(0), 33, BLOCK=64)
    torch.testing.assert_close(out.double(), torch.softmax(x.double(), dim=1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("negate", [True, False])
def test_scalars_loops_and_branches(run: Callable[..., Any], negate: bool) -> None:
    x, out = torch.randn(9), torch.zeros(9)
    run(_scaled_copy, (1,), x, out, 0.5, negate, 1, 9, STEP=2)
    expected = torch.zeros(9)
    expected[1::2] = (-0.5 if negate else 0.5) * x[1::2]
    expected[0] = expected[1::2].sum()
    torch.testing.assert_close(out, expected)


def test_kernels_see_their_closure(run: Callable[..., Any]) -> None:
    factor = tl.constexpr(3)

    @triton_kernel
    def triple(x_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        offsets = tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * factor)

    x = torch.arange(8.0)
    run(triple, (1,), x, BLOCK=8)
    assert torch.equal(x, 3 * torch.arange(8.0))


def test_an_empty_grid_runs_nothing() -> None:
    x, out = torch.randn(4), torch.zeros(4)
    for route in ("emulator", "interpreter"):
        _add[(0,)](x, x, out, 4, route=route)
    assert torch.equal(out, torch.zeros(4))


def test_cpu_tensors_run_on_the_emulator() -> None:
    x = torch.randn(10)
    record = _add[(1,)](x, x, torch.empty(10), 10)
    assert (record.route, record.reason) == ("emulator", "the tensors are on the CPU")


def test_environment_chooses_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLAB_TRITON", "interpreter")
    x = torch.randn(10)
    record = _add[(1,)](x, x, torch.empty(10), 10)
    assert (record.route, record.reason) == ("interpreter", "SGLAB_TRITON requests it")
    monkeypatch.setenv("SGLAB_TRITON", "quantum")
    with pytest.raises(LaunchError, match="SGLAB_TRITON must be one of cuda, emulator, interpreter; got 'quantum'"):
        _add[(1,)](x, x, torch.empty(10), 10)


def test_bfloat16_is_computed_exactly_and_rounded_once(run: Callable[..., Any]) -> None:
    x, y = torch.randn(200).bfloat16(), torch.randn(200).bfloat16()
    out = torch.empty(200, dtype=torch.bfloat16)
    record = run(_add, (4,), x, y, out, 200)
    assert torch.equal(out, (x.float() + y.float()).bfloat16())
    assert ("float32" in record.reason) == (record.route == "interpreter")


def test_bfloat16_views_of_one_pool_stay_one_pool() -> None:
    pool = torch.randn(4, 100).bfloat16()
    before = pool.clone()
    interpreted(_add, (1,), pool[0, :50], pool[1, 50:], pool[3, 20:60], 40)
    expected = before.clone()
    expected[3, 20:60] = (before[0, :40].float() + before[1, 50:90].float()).bfloat16()
    assert torch.equal(pool, expected)


def test_bfloat16_inside_a_kernel_is_refused_under_the_interpreter() -> None:
    out = torch.zeros(8)
    with pytest.raises(KernelError, match="type bf16 appears inside the kernel"):
        interpreted(_round_to_bfloat16, (1,), torch.randn(8), out, BLOCK=8)
    assert torch.equal(out, torch.zeros(8))


def test_bfloat16_sharing_memory_with_another_type_is_refused() -> None:
    x = torch.randn(8).bfloat16()
    with pytest.raises(LaunchError, match=r"x_ptr .* and y_ptr .* share memory"):
        interpreted(_add, (1,), x, x.view(torch.float16), torch.empty(8), 8)


def test_access_outside_the_tensors_names_tensor_and_source_line() -> None:
    x, out = torch.randn(16), torch.zeros(1000)
    with pytest.raises(KernelError, match=r"past the end of 'x_ptr'") as caught:
        _add[(1,)](x, torch.randn(1000), out, 64, route="emulator")
    assert caught.value.fault is not None
    line = Path(__file__).read_text().splitlines()[caught.value.fault.source_line - 1]
    assert "tl.load(x_ptr + offsets" in line


def test_access_outside_the_tensors_is_an_error_under_the_interpreter_too() -> None:
    x = torch.randn(16)
    with pytest.raises(KernelError, match=r"_add, program \(0, 0, 0\): load .* 0 bytes past the end of x_ptr"):
        interpreted(_add, (1,), x, torch.randn(1000), torch.empty(1000), 64)


def test_interpreting_leaves_triton_as_it_was() -> None:
    from triton.runtime import interpreter, jit

    before = (tl.load, tl.core.load, tl.tensor.__add__, tl.reduce, tl.range, tl.dtype.to_ir)
    originals = (interpreter._interpreter, interpreter.TensorHandle.__post_init__, jit.JITFunction.__call__)
    x = torch.randn(5, 33)
    interpreted(_softmax, (5,), x, torch.empty_like(x), x.stride(0), 33, BLOCK=64)
    with pytest.raises(KernelError):
        interpreted(_softmax, (50,), x, torch.empty_like(x), x.stride(0), 33, BLOCK=64)
    assert before == (tl.load, tl.core.load, tl.tensor.__add__, tl.reduce, tl.range, tl.dtype.to_ir)
    assert originals == (interpreter._interpreter, interpreter.TensorHandle.__post_init__, jit.JITFunction.__call__)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, r"_add\(x_ptr, y_ptr, out_ptr, n, BLOCK\): missing a required argument: 'x_ptr'"),
        ((None, None, None, 1), {"BLOK": 3}, "no parameter or option 'BLOK'; parameters are x_ptr"),
        (
            (None, None, None, 1),
            {"route": "gpu"},
            "route argument must be one of .*; got 'gpu'",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        _add[(1,)](*arguments, **options)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((), "grid must have 1 to 3 dimensions"),
        ((1.5,), "grid must hold integers"),
        ((1, 70000), "grid along y must be 0 to 65535; got 70000"),
        ((-1,), "grid along x must be 0"),
    ],
)
def test_wrong_grids_are_refused(grid: tuple, message: str) -> None:
    x = torch.randn(4)
    with pytest.raises(LaunchError, match=message):
        interpreted(_add, grid, x, x, x, 4)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_the_emulated_device_may_be_chosen(arch: str) -> None:
    x, out = torch.randn(50), torch.empty(50)
    record = _add[(1,)](x, x, out, 50, device=EmulatedDevice(arch, sms=1))
    assert record.route == "emulator"
    assert torch.equal(out, x + x)


SCALE = tl.constexpr(2)


@triton_kernel
def _scaled(x_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * SCALE)


def test_a_global_that_changed_since_compiling_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _scaled[(1,)](torch.ones(8), BLOCK=8, route="emulator")
    monkeypatch.setattr(sys.modules[__name__], "SCALE", tl.constexpr(3))
    with pytest.raises(LaunchError, match=r"_scaled: the global SCALE was constexpr\[2\] .* is now constexpr\[3\]"):
        _scaled[(1,)](torch.ones(8), BLOCK=8, route="emulator")


def test_cuda_is_refused_for_cpu_tensors() -> None:
    x = torch.randn(4)
    with pytest.raises(LaunchError, match=r"requests cuda, but the tensors are on the CPU; move them with \.cuda\(\)"):
        _add[(1,)](x, x, x, 4, route="cuda")


def test_tensors_on_several_devices_are_refused() -> None:
    with pytest.raises(LaunchError, match=r"x_ptr on cpu, y_ptr on meta, out_ptr on cpu"):
        _add[(1,)](torch.empty(4), torch.empty(4, device="meta"), torch.empty(4), 4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU; torch sees none")
def test_cuda_tensors_run_on_their_gpu() -> None:
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    interpreted(_add, (16,), x.cpu(), y.cpu(), out.cpu(), 1000)  # must not spoil compiling in the same process
    record = _add[(16,)](x, y, out, 1000)
    assert (record.route, record.reason) == ("cuda", "the tensors are on a GPU")
    assert torch.equal(out, x + y)


def test_captured_launches_can_be_stepped_on_the_values_they_had() -> None:
    n = 300
    x, y, out = torch.randn(n), torch.randn(n), torch.zeros(n)
    launches = capture(lambda: _add[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128, num_warps=4))
    expected = x + y
    assert torch.equal(out, expected)
    x.zero_()
    session = launches[0].session()
    assert not torch.equal(out, expected)
    session.run()
    assert torch.equal(out, expected)
