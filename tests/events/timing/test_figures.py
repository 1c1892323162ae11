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


@pytest.mark.parametrize(("gpu_name", "file"), [("sm_90", "kinds_h100.json"), ("h200", "kinds_h200.json")])
def test_measured_figures_name_entries_of_the_measurement(gpu_name: str, file: str) -> None:
    folder = ROOT / "benchmarks/calibration/measured"
    measured = json.loads((folder / "h100.json").read_text())["microbenchmarks"] if gpu_name == "sm_90" else {}
    kinds = json.loads((folder / file).read_text())
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


def test_what_was_not_measured_on_an_h200_or_b200_is_assumed() -> None:
    h100 = FIGURES["sm_90"].by_name
    for name in ("h200", "sm_100"):
        for row in FIGURES[name].rows:
            if row.name in h100 and row.value == h100[row.name].value and not row.source.startswith("published"):
                assert row.source.startswith("assumed: as sm_90") or name == "h200"
            if name == "sm_100":
                assert not row.source.startswith(("measured", "fitted"))


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
