"""What single accesses cost in the model is what probes measured, and CTAs lie where %smid said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.timing.placement import _GROUPS, in_order_of_use, placement

ROOT = Path(__file__).parents[3]
MEASURED = ROOT / "benchmarks/calibration/measured"
PROBES, PROBES_H200 = (json.loads((MEASURED / f"kinds_{gpu}.json").read_text())["probes"] for gpu in ("h100", "h200"))
MACHINES = pytest.mark.parametrize(
    ("machine", "probes"), [("sm_90", PROBES), ("h200", PROBES_H200)], ids=["H100", "H200"]
)
OWN = 2**18


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from calibration import shipped

    return shipped


def cycles(
    shipped: Any,
    name: str,
    ctas: int,
    threads: int,
    stride: int,
    nbytes: int = OWN,
    trips: int = 16,
    machine: str = "sm_90",
) -> float:
    """Per warp-instruction of one SM, as benchmarks/calibration/probes.py takes it, with fewer trips."""
    device, totals = gpu.EmulatedDevice("sm_90a"), []
    memory = torch.zeros(ctas * OWN, dtype=torch.uint8)
    for count in (trips, 3 * trips):
        out = torch.zeros(ctas, dtype=torch.int64)
        made = shipped.kernel("probes", name).prepare(device, ctas, threads, args=[out, memory, count, stride, nbytes])
        timed = device.record(made).timed(machine, registers=32)
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


@pytest.mark.parametrize("lanes", [1, 8, 32, -8, -32])
@pytest.mark.parametrize("name", ["reduce_same", "reduce_same_float"])
@MACHINES
def test_all_sms_change_one_line_in_turns(
    machine: str, probes: dict[str, Any], name: str, lanes: int, shipped: Any
) -> None:
    """A word changed by floating-point arithmetic takes 2.4 times as long as one by integers.

    32 lanes on words of their own took an H200 668 cycles with integers and 588 without, for the same work.
    """
    measured = probes[f"{name}_cycles_by_lanes, 132 CTAs, 1 lines"][str(lanes)]
    made = cycles(shipped, name, 132, 256, lanes, nbytes=1, machine=machine)
    assert made == pytest.approx(measured, rel=0.08 if machine == "h200" and lanes == 32 else 0.05)


@pytest.mark.parametrize("lanes", [32, -8, -32])
@MACHINES
def test_eight_lines_lie_in_two_slices(machine: str, probes: dict[str, Any], lanes: int, shipped: Any) -> None:
    measured = probes["reduce_same_cycles_by_lanes, 132 CTAs, 8 lines"][str(lanes)]
    made = cycles(shipped, "reduce_same", 132, 256, lanes, nbytes=8, machine=machine)
    assert made == pytest.approx(measured, rel=0.1)


@MACHINES
def test_an_sm_waits_while_slices_have_much_to_change(machine: str, probes: dict[str, Any], shipped: Any) -> None:
    """On 1,024 lines the slices reach two thirds of their rate, since SMs send their atomics in order."""
    measured = probes["reduce_same_cycles_by_lanes, 132 CTAs, 1024 lines"]["-32"]
    made = cycles(shipped, "reduce_same", 132, 256, -32, nbytes=1024, trips=64, machine=machine)
    assert made == pytest.approx(measured, rel=0.15)


def test_lanes_on_one_word_leave_an_sm_one_by_one(shipped: Any) -> None:
    measured = PROBES["reduce_same_cycles_by_lanes, 1 CTAs, 1024 lines"]["-32"]
    made = cycles(shipped, "reduce_same", 1, 256, -32, nbytes=1024, trips=64)
    assert made == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("stride", [32, 128])
def test_all_sms_load_at_the_rate_of_the_l2_cache(stride: int, shipped: Any) -> None:
    measured = PROBES["load_words_cycles_by_stride, 132 CTAs × 1024"][str(stride)]
    assert cycles(shipped, "load_words", 132, 1024, stride) == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize("threads", [128, 256])
def test_ctas_lie_where_they_lay(threads: int) -> None:
    """In the launch from which the order of GPCs was taken."""
    probes = json.loads((MEASURED / "placement_h100.json").read_text())["probes"]
    for ctas, least in ((132, 1.0), (600, 0.95)):
        key = f"placement of {ctas} CTAs × {threads}"
        if key not in probes:
            continue
        measured = in_order_of_use(np.array(probes[key]["sm"]))
        assert (placement(ctas, 8, 132) == measured).mean() >= least


@pytest.mark.parametrize("file", ["placement_h100.json", "kinds_h100.json", "kinds_h200.json"])
@pytest.mark.parametrize("threads", [128, 256])
def test_gpcs_take_their_ctas_in_turn_from_any_of_them(file: str, threads: int) -> None:
    sms = json.loads((MEASURED / file).read_text())["probes"][f"placement of 600 CTAs × {threads}"]["sm"]
    group_of = {sm: number for number, group in enumerate(_GROUPS) for sm in group}
    assert [group_of[sm] for sm in sms[:8]] == [0] * 8
    seen = [sm for sm in sms if group_of[sm] != 0][:124]  # once around
    turns = list(dict.fromkeys(group_of[sm] for sm in seen))
    assert turns == [1 + (turns[0] - 1 + step) % 8 for step in range(8)]
    assert seen == [sm for turn in turns for sm in _GROUPS[turn]]


@pytest.mark.parametrize(("ctas", "per_sm"), [(1, 1), (131, 8), (264, 2), (265, 2), (5000, 16)])
@pytest.mark.parametrize("sms", [132, 148])
def test_placement_is_even(ctas: int, per_sm: int, sms: int) -> None:
    placed = placement(ctas, per_sm, sms)
    share = min(per_sm, -(-ctas // sms))
    assert len(placed) == min(ctas, sms * share)
    assert np.bincount(placed, minlength=sms).max() == share
