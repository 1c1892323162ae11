"""Real kernels of nvcc, Triton and CuTe DSL for three architectures: right on the emulator, the same on a GPU."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.corpus import (
    cute_launches,
    scalar_launches,
    sm80_launches,
    sm90_launches,
    sm100_launches,
    triton_launches,
)
from tests.support.corpus.launch import ARCHITECTURES, Draw, Launch, tensors

LAUNCHES = [
    *(launch for arch in ("sm_80", "sm_90", "sm_100a") for launch in scalar_launches.launches(arch)),
    *(launch for arch in ("sm_80", "sm_90", "sm_100a") for launch in sm80_launches.launches(arch)),
    *sm90_launches.launches(),
    *sm100_launches.launches(),
    *triton_launches.launches(),
    *cute_launches.launches(),
]
RIGHT = [launch for launch in LAUNCHES if launch.fails is None]


def emulator(launch: Launch, **options: object) -> gpu.EmulatedDevice:
    return gpu.EmulatedDevice(ARCHITECTURES[launch.target], **options)


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch.name)
def test_result_is_right(launch: Launch) -> None:
    arguments = launch.make(Draw(0))
    if launch.fails:
        with pytest.raises(gpu.KernelError, match=launch.fails):
            launch.run(emulator(launch), arguments)
    else:
        launch.check(launch.run(emulator(launch), arguments))


@pytest.mark.parametrize("scheduler", ["random", "adversarial", "in_order"])
@pytest.mark.parametrize(
    "launch", [one for one in RIGHT if "100" in one.name or "90a" in one.name], ids=lambda one: one.name
)
def test_result_does_not_depend_on_the_schedule(launch: Launch, scheduler: str) -> None:
    launch.check(launch.run(emulator(launch, scheduler=scheduler, seed=7), launch.make(Draw(1))))


@pytest.fixture(scope="module")
def cuda() -> gpu.CudaDevice:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    return gpu.CudaDevice(0)


@pytest.mark.gpu
@pytest.mark.parametrize("launch", RIGHT, ids=lambda launch: launch.name)
def test_a_gpu_computes_the_same(launch: Launch, cuda: gpu.CudaDevice) -> None:
    """Whole numbers: every bit. Random numbers: right on both, within what the launch's own check allows."""
    if not cuda.arch.runs(launch.target):
        pytest.skip(f"needs {launch.target}; this is {cuda.name}")
    arguments = launch.make(Draw(2, integers=True))
    theirs, ours = launch.run(cuda, arguments), launch.run(emulator(launch), arguments)
    launch.check(theirs)
    if launch.exact:
        for number, (one, other) in enumerate(zip(tensors(theirs), tensors(ours), strict=True)):
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8)), f"tensor {number} differs"
    launch.check(launch.run(cuda, launch.make(Draw(3))))
