"""A prepared launch knows its tensors' memory: it is refused once that was given back."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 out, .param .u32 value)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; ld.param.u32 %r2, [value];
  mad.wide.u32 %rd1, %r1, 4, %rd1; st.global.u32 [%rd1], %r2;
  ret;
}"""
KERNEL = gpu.load(PTX)["fill"]
DEVICE = gpu.EmulatedDevice("sm_80")


def grown(tensor: Any) -> None:
    tensor.resize_(1 << 20)


def of_its_base(tensor: Any) -> None:
    tensor._base.resize_(1 << 20)


def emptied(tensor: Any) -> None:
    tensor.untyped_storage().resize_(0)


def set_to_other_memory(tensor: Any) -> None:
    tensor.set_(torch.zeros(32, dtype=torch.int32))


@pytest.mark.parametrize("give_back", [grown, of_its_base, emptied, set_to_other_memory])
def test_memory_that_was_given_back_is_named(give_back: Callable[[Any], None]) -> None:
    out = torch.zeros(64, dtype=torch.int32)[16:48]
    launch = KERNEL.prepare(DEVICE, 1, 32, args=[out, 7])
    session = KERNEL.session(DEVICE, 1, 32, args=[out, 9])
    session.step()
    DEVICE.run(launch)
    assert out.tolist() == [7] * 32
    give_back(out)
    for run in (DEVICE.run, DEVICE.record, DEVICE.session):
        with pytest.raises(gpu.LaunchError, match=r"fill, .*out.*prepared.*Prepare the launch again"):
            run(launch)
    for move in (session.run, session.step, lambda: session.seek(0)):
        with pytest.raises(gpu.LaunchError, match="Prepare the launch again"):
            move()


def test_memory_that_stays_is_no_matter() -> None:
    out = torch.zeros(64, dtype=torch.int32)
    launch = KERNEL.prepare(DEVICE, 1, 32, args=[out, 7])
    out.resize_(32)
    out.add_(1)
    DEVICE.run(launch)
    assert out.tolist() == [7] * 32


@pytest.mark.gpu
def test_memory_that_was_given_back_is_named_on_a_gpu() -> None:
    try:
        device = gpu.CudaDevice(0)
    except gpu.GpuError as error:
        pytest.skip(str(error))
    out = torch.zeros(32, dtype=torch.int32, device="cuda")
    launch = KERNEL.prepare(device, 1, 32, args=[out, 7])
    device.run(launch)
    device.synchronize()
    assert out.tolist() == [7] * 32
    out.resize_(1 << 26)
    with pytest.raises(gpu.LaunchError, match="Prepare the launch again"):
        device.run(launch)
