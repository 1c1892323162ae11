"""Counters beside ncu's.

benchmarks/calibration/measured/ncu_h100.csv is what `ncu --set full --clock-control none --csv --page raw` printed on
an H100 (2026-11-23) for the first kernel of each of the first 12 kinds, 132 CTAs, with only the columns that are read.
"""

import csv
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from sglab import gpu
from sglab.events.timing.explain import _COUNTED, counted
from sglab.events.timing.ncu_report import launch_of, read_report
from tests.support.timing import chain, record

ROOT = Path(__file__).parents[3]
REPORT = ROOT / "benchmarks/calibration/measured/ncu_h100.csv"
KERNELS = tuple(one.kernel for one in read_report(REPORT))
# Counters that differ, as ours / ncu's, and why.
DIFFERENT = {
    # Columns come from torch's generator, whose release was another one there.
    ("spmv_threads", "sectors loaded"): (0.99, 1.0),
    # ncu's own count differs between its passes: 1,056 requests of 8 bytes each are 1,056 sectors.
    ("gemv_rows", "sectors stored"): (0.99, 1.0),
    # ptxas joined loads of shared memory that follow each other.
    ("reduce_shuffle", "shared-memory wavefronts"): (1.1, 1.2),
}


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from calibration import kinds

    return kinds


def launch(kinds: Any, name: str, ctas: int = 132) -> gpu.Launch:
    (kernel,) = (one for one in kinds.KERNELS if one.name == name)
    return kernel.prepare(gpu.EmulatedDevice("sm_90a"), ctas).launch


@pytest.mark.parametrize("name", KERNELS)
def test_requests_sectors_and_wavefronts_are_those_that_ncu_counted(name: str, kinds: Any) -> None:
    ours = counted(gpu.EmulatedDevice("sm_90a").record(launch(kinds, name)))
    profiled = launch_of(REPORT, name)
    for counter, metrics in _COUNTED.items():
        theirs = sum(profiled.value(metric) for metric in metrics)
        if (name, counter) in DIFFERENT:
            low, high = DIFFERENT[name, counter]
            assert low * theirs <= ours[counter] <= high * theirs, counter
            assert ours[counter] != theirs, f"{counter} agrees now: take it out of DIFFERENT"
        else:
            assert ours[counter] == theirs, counter


def test_a_report_is_shown_beside_the_model(kinds: Any) -> None:
    log = gpu.EmulatedDevice("sm_90a").record(launch(kinds, "transpose_conflicts"))
    made = log.timed("sm_90", "cold", registers=24).explain(REPORT)
    rows = {row.name: row for row in made.counters}
    assert rows["of these, by bank conflicts"].modelled == rows["of these, by bank conflicts"].measured == 130_944
    assert rows["duration, ns"].measured == 3392
    assert rows["warp instructions"].measured == 55_968
    assert rows["sectors through L2"].ratio == 1
    stalls = {row.name: row for row in made.stalls}
    assert stalls["shared memory"].measured == pytest.approx(55_968 / (132 * 8) * 19.04)
    text = str(made)
    assert "130,944" in text
    assert made.cause in text
    assert "the time of the report" in made.cause


def changed(tmp_path: Path, **cells: str) -> Path:
    """The report with other values of metrics whose names end so, in all rows."""
    lines = REPORT.read_text().splitlines()
    rows = list(csv.reader(lines[1:]))
    for ending, value in cells.items():
        for at, name in enumerate(rows[0]):
            if ending in name:
                for row in rows[2:]:
                    row[at] = value
    path = tmp_path / "report.csv"
    with path.open("w") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    return path


@pytest.mark.parametrize(
    ("reason", "stall"),
    [("long_scoreboard", "global memory, copies"), ("imc_miss", "constants"), ("not_selected", "issue slot")],
)
def test_the_cause_is_the_stall_that_the_model_lacks(reason: str, stall: str, tmp_path: Path, kinds: Any) -> None:
    timed = gpu.EmulatedDevice("sm_90a").record(launch(kinds, "gelu")).timed("sm_90", "cold")
    cause = timed.explain(changed(tmp_path, **{f"stalled_{reason}": "500", "time_duration": "99,000"})).cause
    assert f"What would explain it: {stall}," in cause
    assert cause.endswith("more in the report.")


def test_a_prediction_that_is_too_long_names_the_stall_that_the_report_lacks(tmp_path: Path, kinds: Any) -> None:
    timed = gpu.EmulatedDevice("sm_90a").record(launch(kinds, "gelu")).timed("sm_90", "cold")
    cause = timed.explain(changed(tmp_path, stalled_="0", time_duration="100")).cause
    assert f"What would explain it: {max(timed.explain().stalls, key=lambda row: row.modelled).name}," in cause
    assert cause.endswith("less in the report.")


def test_without_a_report_there_is_the_model_alone() -> None:
    made = record(chain("fma.rn.f32", 64)).timed("sm_90").explain()
    assert {row.measured for row in (*made.counters, *made.stalls)} == {None}
    assert made.cause.startswith("Warps wait most for: arithmetic")


def test_a_report_that_does_not_fit_is_refused(tmp_path: Path, kinds: Any) -> None:
    timed = gpu.EmulatedDevice("sm_90a").record(launch(kinds, "gelu", 1)).timed("sm_90")
    other = record(chain("fma.rn.f32", 4)).timed("sm_90")
    with pytest.raises(gpu.LaunchError, match="cannot be read"):
        timed.explain(tmp_path / "none.csv")
    with pytest.raises(gpu.LaunchError, match=r"must hold a launch of test; it has gather_words, gemv_rows"):
        other.explain(REPORT)
    with pytest.raises(gpu.LaunchError, match=r"grid \(132, 1, 1\); this launch has \(1, 1, 1\)"):
        timed.explain(REPORT)
    with pytest.raises(gpu.LaunchError, match="index must be 0 to 0"):
        timed.explain(REPORT, index=1)
    wrong = tmp_path / "wrong.csv"
    for text, message in (
        ("a,b\n1,2\n", "no column 'Kernel Name'"),
        ('"ID","Kernel Name","Metric Name"\n', "must be of --page raw"),
        ('"ID","Kernel Name","Grid Size"\n"","",""\n"0","gelu"\n', "cut off"),
    ):
        wrong.write_text(text)
        with pytest.raises(gpu.LaunchError, match=message):
            timed.explain(wrong)


def test_a_metric_that_is_missing_or_has_no_value_is_named(tmp_path: Path) -> None:
    profiled = launch_of(REPORT, "gelu")
    with pytest.raises(gpu.LaunchError, match=r"has no metric sm__none\.sum; profile with --set full"):
        profiled.value("sm__none.sum")
    with pytest.raises(gpu.LaunchError, match=r"dram__sectors_read.sum of gelu must be a number; got 'n/a'"):
        launch_of(changed(tmp_path, dram__sectors_read="n/a"), "gelu").value("dram__sectors_read.sum")
    text = REPORT.read_text()
    path = tmp_path / "units.csv"
    path.write_text(text.replace('"ns"', '"us"'))
    assert launch_of(path, "gelu").value("gpu__time_duration.sum") == pytest.approx(4_896_000)
    path.write_text(text.replace('"ns"', '"fortnight"'))
    with pytest.raises(gpu.LaunchError, match="unit 'fortnight', which is not known"):
        launch_of(path, "gelu").value("gpu__time_duration.sum")


def test_names_with_parameters_are_found(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text(REPORT.read_text().replace('"gelu"', '"void gelu<4>(float*, int)"'))
    assert launch_of(path, "gelu").value("gpu__time_duration.sum") == 4896
