"""What stands between CudaDevice.run and the driver, with functions in the driver's place."""

import ctypes

import pytest

from sglab import _core

CONTEXT, FUNCTION, PARAMETERS, STREAM = 11, 22, 33, 2**40


@pytest.mark.parametrize(("current", "launched"), [(0, 0), (0, 700), (201, 0)])
def test_a_launch_is_made_in_its_context_and_on_its_stream(current: int, launched: int) -> None:
    calls: list[tuple[object, ...]] = []

    def set_current(context: int) -> int:
        calls.append(("context", context))
        return current

    def launch(config: int, function: int, parameters: int, extra: int | None) -> int:
        sizes = tuple((ctypes.c_uint * 7).from_address(config))
        calls.append((sizes, ctypes.c_uint64.from_address(config + 32).value, function, parameters, extra))
        return launched

    made = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(launch)
    entered = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(set_current)
    first, second = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in (made, entered))
    launcher = _core.Launcher(first, second, CONTEXT)
    config = (ctypes.c_uint * 14)(3, 2, 1, 128, 1, 1, 4096)
    status = launcher.run(ctypes.addressof(config), FUNCTION, PARAMETERS, STREAM)
    wanted = ((3, 2, 1, 128, 1, 1, 4096), STREAM, FUNCTION, PARAMETERS, None)
    assert status == (current or launched)
    assert calls == [("context", CONTEXT)] + ([] if current else [wanted])
