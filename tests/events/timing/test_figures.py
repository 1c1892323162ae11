"""The table of figures has sources, the page shows it, and the model is near what an H100 measured."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from sglab import gpu
from sglab.events.timing import FIGURES, figures_of

ROOT = Path(__file__).parents[3]


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from calibration import cases, compare

    return cases, compare


@pytest.mark.parametrize("arch", FIGURES)
def test_every_figure_is_positive_and_names_its_source(arch: str) -> None:
    rows = FIGURES[arch].rows
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.value > 0
        assert row.source.startswith(("measured: ", "published: ", "fitted", "assumed"))


@pytest.mark.parametrize(("gpu_name", "file"), [("sm_90", "h100.json"), ("h200", "h200.json")])
def test_measured_figures_name_entries_of_the_measurement(gpu_name: str, file: str) -> None:
    folder = ROOT / "benchmarks/calibration/measured"
    measured = json.loads((folder / file).read_text())["microbenchmarks"]
    kinds = json.loads((folder / f"kinds_{file}").read_text())
    measured["probes"] = {key.split(",")[0]: value for key, value in kinds["probes"].items()}
    measured["launches"] = {row["kernel"]: row for row in kinds["launches"]}
    figures = FIGURES[gpu_name]
    for row in figures.rows:
        if row.source.startswith("measured: "):
            part, _, name = row.source.removeprefix("measured: ").split(",")[0].partition(".")
            assert part in measured or part in figures.by_name  # a figure that follows from another one
            assert not name or name in measured[part]


def test_gpus_have_names_of_their_own() -> None:
    assert figures_of("h100") is figures_of("sm_90a") is FIGURES["sm_90"]
    assert figures_of("B200") is figures_of("sm_100a")
    assert figures_of("H200").product == "H200"
    with pytest.raises(gpu.LaunchError, match="b200, h100, h200, sm_100, sm_90; got arch 'sm_80'"):
        figures_of("sm_80")


def test_nothing_of_a_b200_is_called_measured() -> None:
    for row in FIGURES["sm_100"].rows:
        assert row.source.startswith(("assumed", "published")), row.name


def flat(value: Any, path: str = "") -> dict[str, float]:
    if isinstance(value, dict):
        return {name: one for key, inner in value.items() for name, one in flat(inner, f"{path}/{key}").items()}
    return {path: value} if isinstance(value, (int, float)) else {}


def test_what_an_h200_is_said_to_have_as_an_h100_was_measured_so() -> None:
    folder = ROOT / "benchmarks/calibration/measured"
    h100, h200 = (
        flat(json.loads((folder / name).read_text())["microbenchmarks"]) for name in ("h100.json", "h200.json")
    )
    checked = 0
    for row in FIGURES["h200"].rows:
        key = row.source.removeprefix("measured: ").split(",")[0].replace(".", "/")
        if row == FIGURES["sm_90"].by_name[row.name] and f"/{key}" in h100:
            assert h200[f"/{key}"] == pytest.approx(h100[f"/{key}"], rel=0.06), row.name
            checked += 1
    assert checked >= 7


def test_the_page_shows_the_figures(calibration: Any) -> None:
    page = (ROOT / "docs" / "emulator" / "timing.md").read_text("utf-8")
    assert calibration[1].figure_tables() in page, "run benchmarks/timing_model.py --docs"


@pytest.mark.parametrize(
    "name",
    [
        *("copy 1 MiB", "rms_norm 128 × 8192", "gemm 512 × 512 × 4096", "merge_state 8192 × 128 fp32"),
        *("decode_stage2 B=4 S=2048, 8 splits", "decode_stage2 B=16 S=512, 4 splits"),
        *("flash_attention 4 heads × 1024 × 64", "mla_decode_sm90 B=1 S=8192 H=128"),
    ],
)
def test_modelled_times_are_within_a_quarter_of_measured_ones(name: str, calibration: Any) -> None:
    cases, compare = calibration
    measured = json.loads((ROOT / "benchmarks/calibration/measured/h100.json").read_text())["cases"]
    (case,) = (case for case in cases.CASES if case.name == name)
    (row,) = (row for row in measured if f"{row['kernel']} {row['shape']}" == name)
    made = compare.compare(case, gpu.EmulatedDevice("sm_90a"), row)
    assert abs(made.warm_error) < 0.25
    assert abs(made.cold_error) < 0.25
