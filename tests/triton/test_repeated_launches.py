"""A launch on the emulator that is like one before binds and specialises nothing, and does what the first did."""

from typing import Any

import pytest
import torch

pytest.importorskip("triton")
import triton.language as tl

from sglab import gpu
from sglab.gpu.errors import LaunchError
from sglab.gpu.fault import KernelError
from sglab.triton import triton_kernel
from sglab.triton.specialize import Specializer

BLOCK = 32


@triton_kernel
def _scaled(x_ptr, y_ptr, scale, n, BLOCK: tl.constexpr, ADDED: tl.constexpr = 1.0):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * scale + ADDED, mask=at < n)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that were bound: those that needed a look."""
    monkeypatch.delenv("SGLAB_TRITON", raising=False)
    _scaled._repeatable.clear()
    calls: list[Any] = []
    bind = Specializer.bind

    def noted(self: Specializer, args: Any, kwargs: Any) -> Any:
        calls.append(args)
        return bind(self, args, kwargs)

    monkeypatch.setattr(Specializer, "bind", noted)
    return calls


def launch(x: torch.Tensor, y: torch.Tensor, scale: float = 2.0, grid: Any = (2,), **options: Any) -> Any:
    return _scaled[grid](x, y, scale, len(x), BLOCK=BLOCK, **options)


def test_the_second_call_works_on_its_own_tensors(bound: list[Any]) -> None:
    first = launch(torch.randn(50), torch.zeros(50))
    x, y = torch.randn(50), torch.zeros(50)
    again = launch(x, y)
    assert len(bound) == 1
    assert torch.equal(y, 2 * x + 1)
    assert (again.kernel, again.route, again.reason, again.grid) == ("_scaled", "emulator", first.reason, (2, 1, 1))
    assert again.report.warp_instructions == first.report.warp_instructions
    assert _scaled.last_launch is again


def test_the_grid_of_a_repeated_call_is_its_own(bound: list[Any]) -> None:
    x = torch.randn(50)
    launch(x, torch.zeros(50))
    for grid, reached in (((1,), 32), (lambda meta: (meta["n"] // meta["BLOCK"],), 32), (2, 50), ((0,), 0)):
        y = torch.zeros(50)
        record = launch(x, y, grid=grid)
        assert torch.equal(y[:reached], 2 * x[:reached] + 1), grid
        assert not y[reached:].any(), grid
        assert (record.report is None) == (reached == 0)
    assert len(bound) == 1
    with pytest.raises(LaunchError, match=r"grid along y must be 0 to 65535; got 65536"):
        launch(x, y, grid=(1, 65536))
    with pytest.raises(LaunchError, match="grid must hold integers"):
        launch(x, y, grid=(1.0,))


def test_what_decides_the_compiled_form_the_route_or_the_reason_is_looked_at(
    bound: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = torch.randn(64), torch.zeros(64)
    launch(x, y)
    launch(x.half(), y)
    launch(x[1:], y[1:])  # no longer a multiple of 16 bytes
    launch(x, y, 3.0)
    launch(x, y, ADDED=2.0)
    launch(x, y, num_warps=2)
    assert launch(x, y, route="emulator").reason == "route argument requests it"
    assert launch(x, y, device=gpu.EmulatedDevice("sm_90a")).route == "emulator"
    monkeypatch.setenv("SGLAB_TRITON", "interpreter")
    assert launch(x, y).route == "interpreter"
    assert len(bound) == 9


def test_a_repeated_call_runs_on_the_device_that_it_names(bound: list[Any]) -> None:
    x, y = torch.randn(64), torch.zeros(64)
    plain, checked = gpu.EmulatedDevice("sm_100a"), gpu.EmulatedDevice("sm_100a", sanitize=True)
    launch(x, y, device=plain)
    checked.mark_uninitialized(x)
    assert launch(x, y, device=checked).report.findings
    assert len(bound) == 1


def test_a_repeated_call_may_use_the_pool_around_a_view_and_no_more(bound: list[Any]) -> None:
    @triton_kernel
    def beyond(x_ptr, far):  # type: ignore[no-untyped-def]
        tl.store(x_ptr + far, 1.0)

    pool = torch.zeros(64)
    beyond[(1,)](pool[:8], 40)
    other = torch.zeros(64)
    beyond[(1,)](other[:8], 40)
    assert len(bound) == 1
    assert other[40] == 1
    with pytest.raises(KernelError, match="x_ptr"):
        beyond[(1,)](torch.zeros(8), 40)
    assert len(bound) == 1


def test_a_changed_global_is_refused_as_at_the_first_call(bound: list[Any]) -> None:
    x, y = torch.randn(50), torch.zeros(50)
    launch(x, y)
    namespace = {"LIMIT": 3}
    try:
        _scaled.used_global_vals[("LIMIT", 0)] = (3, namespace)
        launch(x, y)
        namespace["LIMIT"] = 4
        with pytest.raises(LaunchError, match="the global LIMIT was 3 when the kernel was compiled and is now 4"):
            launch(x, y)
    finally:
        del _scaled.used_global_vals[("LIMIT", 0)]
