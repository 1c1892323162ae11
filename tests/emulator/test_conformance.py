"""Every instruction form against an independent computation, on the emulator or (`--device cuda`) on a GPU."""

import zlib

import numpy as np
import pytest

from tests.support.conformance import compare, convert, floating, integer
from tests.support.conformance.case import DTYPES, Case

torch = pytest.importorskip("torch")

from sglab import gpu

CASES = [case for family in (integer, floating, convert, compare) for case in family.cases()]
SIGNED = {16: np.int16, 32: np.int32, 64: np.int64}


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> gpu.Device:
    if request.config.getoption("--device", "emulated") == "cuda":
        return gpu.CudaDevice(0)
    return gpu.EmulatedDevice("sm_100a", sms=4)


@pytest.fixture(scope="module")
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--fuzz-seed", 0)


def run(case: Case, device: gpu.Device, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
    count = len(inputs[0])
    tensors = [torch.from_numpy(x.view(SIGNED[8 * x.itemsize])).to(device.torch_device) for x in inputs]
    result = torch.full((count,), 0x55, dtype=getattr(torch, f"int{case.result}"), device=device.torch_device)
    kernel = gpu.load(case.ptx())["conform"]
    kernel.launch(device, grid=-(-count // 128), block=128, args=[*tensors, result, count])
    device.synchronize()
    return result.cpu().numpy().view(DTYPES[case.result])


def ulps_apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Steps between f32 values; NaN is no step from NaN and very far from anything else."""
    x, y = (np.where(v >> 31, -(v & 0x7FFFFFFF).astype(np.int64), v.astype(np.int64)) for v in (a, b))
    nan = (a & 0x7FFFFFFF) > 0x7F800000, (b & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] | nan[1], 1 << 40, np.abs(x - y)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_form(case: Case, device: gpu.Device, fuzz_seed: int) -> None:
    if not device.arch.runs(case.target):
        pytest.skip(f"needs {case.target}; this is {device.name}")
    inputs = case.inputs(np.random.default_rng([zlib.crc32(case.form.encode()), fuzz_seed]))
    expected = case.expected(*inputs)
    result = run(case, device, inputs)
    wrong = ulps_apart(result, expected) > case.ulps if case.ulps else result != expected
    if case.error is not None:
        with np.errstate(invalid="ignore"):
            apart = np.abs(result.view(np.float32).astype(np.float64) - expected.view(np.float32))
        wrong &= ~(apart <= case.error(*inputs))
    shown = [
        f"{tuple(hex(x[k]) for x in inputs)} gives {hex(result[k])}, not {hex(expected[k])}"
        for k in np.flatnonzero(wrong)[:12]
    ]
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} wrong: " + "; ".join(shown)
