"""On a GPU, a kernel that waits for its whole grid is launched cooperatively, others of its module are not."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu

PTX = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry meets(.param .u64 x) {
  .reg .b32 %r<4>;
  mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1;
  ret;
}
.visible .entry alone(.param .u64 x) {
  ret; // no %envreg1
}"""


class Attribute:
    def __init__(self) -> None:
        self.id, self.value = "", SimpleNamespace(cooperative=0)


@pytest.mark.parametrize(("name", "attributes"), [("meets", ["cooperative"]), ("alone", [])])
def test_only_what_meets_as_a_grid_is_launched_cooperatively(name: str, attributes: list[str]) -> None:
    ids = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_COOPERATIVE="cooperative")
    device: Any = object.__new__(gpu.CudaDevice)
    device._driver = SimpleNamespace(
        CUlaunchConfig=SimpleNamespace, CUlaunchAttribute=Attribute, CUlaunchAttributeID=ids
    )
    kernel = gpu.load(PTX)[name]
    launch = kernel.prepare(gpu.EmulatedDevice("sm_100a"), gpu.LaunchConfig(4, 64), args=[torch.zeros(4)])
    config = device._configuration(launch)
    assert [one.id for one in config.attrs] == attributes and config.numAttrs == len(attributes)
    assert all(one.value.cooperative == 1 for one in config.attrs)
