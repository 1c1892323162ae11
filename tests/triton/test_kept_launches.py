"""A launch on a GPU that is like one before skips Triton's launcher, and never gets another kernel than that would."""

from typing import Any

import pytest
import torch

pytest.importorskip("triton")
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st
from triton.runtime.jit import JITFunction

from sglab.gpu.errors import LaunchError
from sglab.triton import triton_kernel
from sglab.triton.kept import call_key
from sglab.triton.specialize import Specializer


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU: nothing here runs on one."""

    is_cuda = True
    device = torch.device("cuda", 0)


def on_gpu(dtype: torch.dtype = torch.float32, first: int = 0) -> torch.Tensor:
    """16 elements that begin `first` elements after an address that is a multiple of 64."""
    room = torch.zeros(64, dtype=dtype)
    assert room.data_ptr() % 64 == 0
    return room[first : first + 16].as_subclass(OnGpu)


@triton_kernel
def _kernel(x_ptr, y_ptr, n, stride, scale, option, BLOCK: tl.constexpr, FACTOR: tl.constexpr = 1.0):  # type: ignore[no-untyped-def]
    tl.store(y_ptr + n, tl.load(x_ptr + stride) * scale * FACTOR)


class Compiled:
    """Takes launches and runs none."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, tuple[Any, ...]]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args: self.launches.append((grid, args))


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[Compiled]:
    """What Triton's launcher compiled, one for each time that it ran."""
    compiled: list[Compiled] = []

    def run(self: Any, *args: Any, **kwargs: Any) -> Compiled:
        compiled.append(Compiled())
        return compiled[-1]

    monkeypatch.setattr(JITFunction, "run", run)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.delenv("SGLAB_TRITON", raising=False)
    _kernel._kept_launches._kept.clear()
    return compiled


def test_the_second_of_two_equal_calls_is_launched_as_it_was_compiled(gpu: list[Compiled]) -> None:
    x, y = on_gpu(), on_gpu()
    first = _kernel[(4,)](x, y, 3, 16, 0.5, None, BLOCK=32)
    again = _kernel[(8, 2)](y, x, 3, 16, 0.5, None, BLOCK=32)
    assert len(gpu) == 1
    ((grid, args),) = gpu[0].launches
    assert grid == (8, 2, 1)
    assert args[0] is y
    assert args[1:] == (x, 3, 16, 0.5, None, 32, 1.0)  # the default, too
    assert (first.route, first.grid, again.route, again.grid) == ("cuda", (4, 1, 1), "cuda", (8, 2, 1))
    assert _kernel.last_launch is again
    assert first.reason == again.reason


@pytest.mark.parametrize(
    "other",
    [
        {"x": on_gpu(torch.float16)},
        {"x": on_gpu(first=1)},
        {"n": 1},
        {"n": 16},
        {"n": True},
        {"option": 1},
        {"option": True},
        {"BLOCK": 64},
        {"FACTOR": -0.0},
        {"num_warps": 8},
    ],
    ids=str,
)
def test_a_call_that_differs_is_compiled(gpu: list[Compiled], other: dict[str, Any]) -> None:
    given = {"x": on_gpu(), "n": 3, "option": None, "BLOCK": 32, "FACTOR": 0.0}

    def launch(x: Any, n: Any, option: Any, **rest: Any) -> None:
        _kernel[(1,)](x, on_gpu(), n, 16, 0.5, option, **rest)

    launch(**given)
    launch(**{**given, **other})
    assert len(gpu) == 2


def test_a_route_that_is_asked_for_and_a_grid_of_the_arguments_are_looked_at(gpu: list[Compiled]) -> None:
    x, y = on_gpu(), on_gpu()

    def launch(grid: Any = (1,), **options: Any) -> None:
        _kernel[grid](x, y, 3, 16, 0.5, None, BLOCK=32, **options)

    launch()
    launch(route="cuda")
    launch(lambda meta: (meta["BLOCK"],))
    assert len(gpu) == 3
    assert not gpu[0].launches


def test_tensors_in_two_places_none_and_tensors_by_name_are_looked_at(gpu: list[Compiled]) -> None:
    y = torch.zeros(16)
    assert call_key((on_gpu(), y, 3), {}) is None
    assert call_key((y, on_gpu(), 3), {}) is None
    assert call_key((y.to("meta"), 3), {}) is None
    assert call_key((3, 4), {}) is None
    assert call_key((on_gpu(), [3]), {}) is None
    assert call_key((on_gpu(), 3, on_gpu()), {}) is not None
    assert call_key((on_gpu(), 3), {"y_ptr": on_gpu()}) is None


def test_a_grid_is_checked_as_at_the_first_call(gpu: list[Compiled]) -> None:
    x, y = on_gpu(), on_gpu()
    _kernel[(1,)](x, y, 3, 16, 0.5, None, BLOCK=32)
    with pytest.raises(LaunchError, match=r"grid along y must be 0 to 65535; got 65536"):
        _kernel[(1, 65536)](x, y, 3, 16, 0.5, None, BLOCK=32)


def test_a_changed_global_is_left_to_triton(gpu: list[Compiled]) -> None:
    x, y = on_gpu(), on_gpu()
    namespace = {"LIMIT": 3}
    try:
        _kernel.used_global_vals[("LIMIT", 0)] = (3, namespace)
        for _ in range(2):
            _kernel[(1,)](x, y, 3, 16, 0.5, None, BLOCK=32)
        assert len(gpu) == 1
        namespace["LIMIT"] = 4
        _kernel[(1,)](x, y, 3, 16, 0.5, None, BLOCK=32)
        assert len(gpu) == 2
    finally:
        del _kernel.used_global_vals[("LIMIT", 0)]


numbers = st.sampled_from([0, 1, 2, 3, 15, 16, 17, 32, 2**31, 2**31 + 16, -1, -16, 2**40, True, False, 1.0, 0.0, None])
tensors = st.builds(on_gpu, st.sampled_from([torch.float32, torch.float16, torch.int64]), st.sampled_from([0, 1, 8]))
calls = st.tuples(tensors, tensors, numbers, numbers, st.sampled_from([0.5, 1.0, 2]), numbers)


@given(calls, calls, st.sampled_from([32, 64]), st.sampled_from([32, 64]))
def test_calls_with_one_key_have_one_compiled_form(one: Any, other: Any, block: int, other_block: int) -> None:
    """Against Triton's own specialisation of the arguments."""
    specializer = Specializer(_kernel, 90)

    def both(args: Any, block: int) -> tuple[Any, str]:
        plain = tuple(each.as_subclass(torch.Tensor) if isinstance(each, torch.Tensor) else each for each in args)
        return call_key(args, {"BLOCK": block}), specializer.bind(plain, {"BLOCK": block}).key

    (key, form), (other_key, other_form) = both(one, block), both(other, other_block)
    assert key is not None
    assert key != other_key or form == other_form
