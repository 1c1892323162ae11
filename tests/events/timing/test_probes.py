"""What single accesses cost in the model is what the probes measured on an H100, and CTAs lie where %smid said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.timing.placement import in_order_of_use, placement

ROOT = Path(__file__).parents[3]
PROBES = json.loads((ROOT / "benchmarks/calibration/measured/kinds_h100.json").read_text())["probes"]
OWN = 2**18


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from calibration import shipped

    return shipped


def cycles(shipped: Any, name: str, ctas: int, threads: int, stride: int) -> float:
    """Per warp-instruction of one SM, as benchmarks/calibration/probes.py takes it, with fewer trips."""
    device, trips, totals = gpu.EmulatedDevice("sm_90a"), 16, []
    memory = torch.zeros(ctas * OWN, dtype=torch.uint8)
    for count in (trips, 3 * trips):
        out = torch.zeros(ctas, dtype=torch.int64)
        made = shipped.kernel("probes", name).prepare(device, ctas, threads, args=[out, memory, count, stride, OWN])
        timed = device.record(made).timed("sm_90", registers=32)
        totals.append(timed.total_ns * timed.figures["clock"])
    return (totals[1] - totals[0]) / (2 * trips * threads / 32)


@pytest.mark.parametrize("name", ["store_words", "store_vectors", "reduce_global"])
@pytest.mark.parametrize("stride", [16, 32, 64, 128])
def test_an_sm_stores_as_many_sectors_and_partly_written_lines(name: str, stride: int, shipped: Any) -> None:
    measured = PROBES[f"{name}_cycles_by_stride, 1 CTAs × 1024"][str(stride)]
    assert cycles(shipped, name, 1, 1024, stride) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("stride", [32, 64, 128])
def test_an_sm_loads_a_line_per_cycle(stride: int, shipped: Any) -> None:
    measured = PROBES["load_words_cycles_by_stride, 1 CTAs × 1024"][str(stride)]
    assert cycles(shipped, "load_words", 1, 1024, stride) == pytest.approx(measured, rel=0.2)


def test_lanes_that_change_one_word_of_global_memory_take_turns(shipped: Any) -> None:
    measured = PROBES["reduce_global_cycles_by_stride, 1 CTAs × 1024"]["0"]
    assert cycles(shipped, "reduce_global", 1, 1024, 0) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("stride", [32, 128])
def test_all_sms_load_at_the_rate_of_the_l2_cache(stride: int, shipped: Any) -> None:
    measured = PROBES["load_words_cycles_by_stride, 132 CTAs × 1024"][str(stride)]
    assert cycles(shipped, "load_words", 132, 1024, stride) == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize("threads", [128, 256])
def test_ctas_lie_where_they_lay(threads: int) -> None:
    for ctas, least in ((132, 1.0), (600, 0.95)):
        key = f"placement of {ctas} CTAs × {threads}"
        if key not in PROBES:
            continue
        measured = in_order_of_use(np.array(PROBES[key]["sm"]))
        assert (placement(ctas, 8, 132) == measured).mean() >= least


@pytest.mark.parametrize(("ctas", "per_sm"), [(1, 1), (131, 8), (264, 2), (265, 2), (5000, 16)])
@pytest.mark.parametrize("sms", [132, 148])
def test_placement_is_even(ctas: int, per_sm: int, sms: int) -> None:
    placed = placement(ctas, per_sm, sms)
    share = min(per_sm, -(-ctas // sms))
    assert len(placed) == min(ctas, sms * share)
    assert np.bincount(placed, minlength=sms).max() == share
