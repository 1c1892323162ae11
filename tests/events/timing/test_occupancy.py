"""CTAs that an SM holds, beside what the driver said of the same kernels."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from sglab import gpu
from sglab.events.timing.occupancy import named_barriers
from tests.support.timing import kernel, record

ROOT = Path(__file__).parents[3]
LAUNCHES = json.loads((ROOT / "benchmarks/calibration/measured/kinds_h100.json").read_text())["launches"]
SOME = ("feed_by_barriers", "feed_by_mbarriers", "scan_steps", "bank_free", "cluster_sum", "wgmma_256")


@pytest.mark.parametrize("name", SOME)
def test_an_sm_holds_as_many_ctas_as_the_driver_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from calibration.kinds import KERNELS

    measured = next(one for one in LAUNCHES if one["kernel"] == name)
    (one,) = (one for one in KERNELS if one.name == name)
    device = gpu.EmulatedDevice("sm_90a")
    timed = device.record(one.prepare(device, measured["ctas"]).launch).timed("sm_90", registers=measured["registers"])
    assert timed.ctas_per_sm == measured["ctas_per_sm"]


@pytest.mark.parametrize(
    ("body", "barriers"),
    [
        ("mov.u32 %n, 5;", 0),
        ("bar.sync 0;", 1),
        ("bar.sync 0; bar.sync 3, 32;", 4),
        ("mov.u32 %n, 5; bar.sync %n, 32;", 6),
        ("add.u32 %n, %t, 1; bar.arrive 2, 64; shfl.sync.idx.b32 %n, %n, 0, 31, -1; bar.sync %n, 32;", 16),
        ("bar.red.popc.u32 %n, 2, %q;", 3),
    ],
)
def test_barriers_are_counted_to_the_highest_that_may_be_named(body: str, barriers: int) -> None:
    lines: Any = body.replace("; ", ";\n")
    made = kernel(f"setp.eq.u32 %q, %t, 0;\n{lines}", ".reg .b32 %n; .reg .pred %q;")
    assert named_barriers(record(made).code) == barriers
