"""The lesson on pipelines: right with any number of stages; each of its faults does what its name says."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.kernels import ptx
from tests.support.emulator.schedulers import SCHEDULERS

TILES, CTAS, ROWS = 10, 2, 32


def run(entry: str, device: gpu.Device) -> tuple[float, object]:
    """Largest error of the column sums, and the device's report."""
    x = torch.randn(CTAS * TILES * ROWS, 64, generator=torch.Generator().manual_seed(0)).to(device.torch_device)
    out = torch.zeros(64, device=device.torch_device)
    args = [gpu.TensorMap(x, (ROWS, 64)), out, TILES]
    report = ptx.module("tma_pipeline")[f"tma_pipeline_{entry}"].launch(device, grid=CTAS, block=160, args=args)
    device.synchronize()
    return float((out - x.double().sum(0)).abs().max()), report


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("entry", ["1_stage", "2_stages", "4_stages"])
def test_sums_columns_without_findings(entry: str, scheduler: str) -> None:
    error, report = run(entry, gpu.EmulatedDevice("sm_90a", scheduler=scheduler, sanitize=True))
    assert error < 1e-4 and report.findings == ()


@pytest.mark.gpu
@pytest.mark.parametrize("entry", ["1_stage", "2_stages", "4_stages"])
def test_sums_columns_on_a_gpu(entry: str) -> None:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("no Hopper GPU")
    assert run(entry, gpu.CudaDevice(0))[0] < 1e-4


@pytest.mark.parametrize("entry", ["too_many_bytes", "one_arrival"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_phase_that_never_completes_is_a_deadlock(entry: str, scheduler: str) -> None:
    with pytest.raises(gpu.KernelError, match="deadlock") as caught:
        run(entry, gpu.EmulatedDevice("sm_90a", scheduler=scheduler))
    assert caught.value.fault is not None and caught.value.fault.kind == "deadlock"


def test_a_load_warp_that_does_not_wait_arrives_too_often() -> None:
    with pytest.raises(gpu.KernelError, match="arrival_underflow"):
        run("no_wait", gpu.EmulatedDevice("sm_90a"))


def test_arriving_before_reading_is_right_only_while_the_schedule_is_kind() -> None:
    kind, unkind = (gpu.EmulatedDevice("sm_90a", scheduler=name) for name in ("fair", "adversarial"))
    assert run("early_arrival", kind)[0] < 1e-4 < run("early_arrival", unkind)[0]
