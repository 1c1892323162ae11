"""A kernel that waits for its whole grid is launched with no more CTAs than a GPU holds at once."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu

MEETS = """.version 8.6
.target sm_75
.address_size 64
.visible .entry meets(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %d<2>;
  .shared .align 4 .b8 held[20480];
  mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1;
  ld.param.u64 %d1, [out];
  mov.u32 %r3, 1;
  st.shared.u32 [held], %r3;
  st.global.u32 [%d1], %r3;
  ret;
}"""
ALONE = MEETS.replace("mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1;", "")


def device(arch: str, sms: int) -> Any:
    return gpu.EmulatedDevice(arch, sms=sms)


@pytest.mark.parametrize(
    ("arch", "sms", "block", "smem", "most"),
    [
        ("sm_100a", 4, 1024, 0, 4 * 2),  # two of 1024 threads
        ("sm_90a", 132, 32, 0, 132 * 10),  # 20 KiB and the reserved one each: ten of 228 KiB
        ("sm_100a", 3, 128, 100_000, 3),  # one with dynamic shared memory
        ("sm_86", 2, 1024, 0, 2),  # 1536 threads
        ("sm_75", 2, 512, 0, 2 * 2),  # 1024 threads
    ],
)
@pytest.mark.parametrize("how", ["launch", "session"])
def test_more_ctas_than_fit_are_refused_before_anything_runs(arch, sms, block, smem, most, how) -> None:
    kernel, out = gpu.load(MEETS)["meets"], torch.zeros(1, dtype=torch.int32)

    def start(grid: int) -> None:
        getattr(kernel, how)(device(arch, sms), gpu.LaunchConfig(grid, block, smem=smem), args=[out])

    with pytest.raises(
        gpu.LaunchError, match=f"has {most + 1} CTAs.*at most {most}, {most // sms} each.*Launch at most {most}"
    ):
        start(most + 1)
    assert out.item() == 0
    start(most)
    assert out.item() == (how == "launch")


def test_what_does_not_wait_for_its_grid_may_have_any() -> None:
    out = torch.zeros(1, dtype=torch.int32)
    gpu.load(ALONE)["meets"].launch(device("sm_100a", 2), gpu.LaunchConfig(500, 1024), args=[out])
    assert out.item() == 1
