"""The kernels that the timing model is judged by: kinds, which of them are never fitted, and that none is faulty."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from sglab import gpu

ROOT = Path(__file__).parents[3]
ENTRY = re.compile(
    r"^(?:KERNEL\(\d+\)|__global__ void __cluster_dims__\(\d+\) __launch_bounds__\(\d+\))\s+(\w+)\(", re.M
)
NAMES = sorted(
    name
    for source in (ROOT / "benchmarks/calibration/kernels").glob("*.cu")
    if source.stem != "probes"
    for name in ENTRY.findall(source.read_text())
)


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from calibration import kinds

    return kinds


def test_there_are_kinds_enough_and_a_hash_says_which_are_never_fitted(kinds: Any) -> None:
    assert len(kinds.KERNELS) >= 40
    assert len(kinds.KINDS) >= 20
    assert all(len(kernel.grids) == 3 for kernel in kinds.KERNELS)
    assert sorted(kernel.name for kernel in kinds.KERNELS) == NAMES
    digests = {kind: sha256(kind.encode()).hexdigest() for kind in kinds.KINDS}
    held = {digests[kind] for kind in kinds.NEVER_FITTED}
    assert 2 * len(held) >= len(kinds.KINDS)
    assert max(held) < min(digest for kind, digest in digests.items() if kind not in kinds.NEVER_FITTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_by_kind_has_no_findings(name: str, kinds: Any) -> None:
    (kernel,) = (one for one in kinds.KERNELS if one.name == name)
    device = gpu.EmulatedDevice("sm_90a", sanitize=True)
    assert device.run(kernel.prepare(device, kernel.grids[0]).launch).findings == ()


def test_errors_are_told_by_kind_fitted_and_not(kinds: Any) -> None:
    from calibration.compare_kinds import rows, table

    device = gpu.EmulatedDevice("sm_90a")
    launches = [
        {"kernel": name, "ctas": 1, "warm_us": 1e9, "registers": 32}
        for name in ("reduce_tree", "bits_mix", "bank_free")
    ]
    first = rows(device, {"launches": launches})
    for row, launch in zip(first, launches, strict=True):
        launch["warm_us"] = row.modelled * (2 if row.kernel.name == "bank_free" else 1.25)
    lines = table(rows(device, {"launches": launches})).splitlines()
    assert any(line.startswith("| reduction * | 1 | 20% | -20% | reduce_tree, 1 CTAs |") for line in lines)
    assert any(line.startswith("| bank conflicts | 1 | 50% | -50% |") for line in lines)
    assert any(line.startswith("| all fitted kinds | 2 | 35% | -50% | bank_free") for line in lines)
    assert any(line.startswith("| all others * | 1 | 20% |") for line in lines)
