"""A tensor that is written to is changed only if it holds something else afterwards."""

from __future__ import annotations

import numpy
import pytest
import torch

pytest.importorskip("triton")
import triton
import triton.language as tl

import sglab
from sglab.widgets import KernelDebugger, OnlineSoftmax, WarpRoles
from sglab.widgets.changes import Versions


@triton.jit
def raised(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5)])
def test_the_same_values_written_again_are_no_change(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.ones(shape).to(dtype)
    versions = Versions([("x", tensor)])
    tensor.copy_(tensor.clone())
    assert versions.changed() == []
    tensor.zero_()
    assert versions.changed() == (["x"] if tensor.numel() else [])
    assert versions.changed() == (["x"] if tensor.numel() else []), "it stays changed"
    tensor.fill_(True)
    assert versions.changed() == [], "until it holds what it held"


def test_part_of_a_larger_tensor() -> None:
    whole = torch.arange(12.0).view(3, 4)
    versions = Versions([("left", whole[:, :2]), ("right", whole[:, 2:])])
    whole[1, 3] = -1.0
    assert versions.changed() == ["right"]


def test_of_a_large_tensor_any_write_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.widgets.changes.COMPARED", 16)
    tensor = torch.ones(5)
    versions = Versions([("x", tensor)])
    assert versions.changed() == []
    tensor.fill_(1.0)
    assert versions.changed() == ["x"]


def test_what_keeps_no_count_is_left_out() -> None:
    array = numpy.ones(3)
    with torch.inference_mode():
        inference = torch.ones(3)
    assert Versions([("array", array), ("inference", inference)]).changed() == []


def test_another_run_of_the_same_batch_makes_nothing_stale() -> None:
    batch = sglab.decode_batch([64], num_heads=16, page_size=64, dtype="float16", seed=0)
    widget = OnlineSoftmax(batch, 0, num_splits=2, tile=32, implementation="reference")
    sglab.trace(batch, backend="triton")  # writes the new tokens' keys and values where they lie already
    assert widget._versions.sentence() == ""


def test_a_triton_launch_that_is_stepped_is_stale_when_its_tensors_change_and_begins_again() -> None:
    x, out = torch.zeros(64), torch.zeros(64)
    launch = sglab.step(raised[(1,)], x, out, 64, BLOCK=64)
    widgets = [KernelDebugger(launch), WarpRoles(launch)]
    x.add_(1)
    for widget in widgets:
        widget.after_cell()
        assert widget.outdated.startswith("x changed after this run")
    widgets[0].run_again()
    assert [widget.outdated for widget in widgets] == ["", ""]
    launch.session().run()
    assert out.tolist() == [2.0] * 64
