"""Recording compiled Triton kernels on the emulator, held against the interpreter's account of the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tl = pytest.importorskip("triton.language")

import sglab
from sglab.gpu import LaunchError
from sglab.triton import triton_kernel
from sglab.triton.routing import ENVIRONMENT
from sglab.workbench.recorders import LOAD, STORE, MemoryTrace
from sglab.workbench.recorders.emulated import record_emulated
from sglab.workbench.recorders.index_runs import COLUMNS, run_index_kernel
from sglab.workbench.recorders.triton import record_triton

ROWS, COLUMNS_OF_X, BLOCK = 3, 1000, 512


@triton_kernel
def scale_rows(source, target, factor, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    times = tl.load(factor + row)
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < columns
        values = tl.load(source + row * stride + column, mask=inside)
        tl.store(target + row * stride + column, values * times, mask=inside)


def scaled() -> tuple[dict[str, Any], Any]:
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(-99, 99, (ROWS, COLUMNS_OF_X), generator=generator, dtype=torch.int32)
    tensors = {"source": source, "target": torch.zeros_like(source), "factor": torch.tensor([2, 3, 5])}

    def launch() -> None:
        columns, stride = source.shape[1], source.stride(0)
        scale_rows[(ROWS,)](tensors["source"], tensors["target"], tensors["factor"], columns, stride, BLOCK=BLOCK)

    return tensors, launch


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[str, Any], MemoryTrace]:
    tensors, launch = scaled()
    return tensors, record_emulated(scale_rows, tensors, launch)


def test_the_kernel_still_computes(recorded: tuple[dict[str, Any], MemoryTrace]) -> None:
    tensors, _ = recorded
    assert torch.equal(tensors["target"], tensors["source"] * tensors["factor"][:, None].int())


def test_operations_are_those_of_the_interpreter(recorded: tuple[dict[str, Any], MemoryTrace]) -> None:
    """Same lines, elements and values in the same order, program by program; only the lanes are threads."""
    _, emulated = recorded
    tensors, launch = scaled()
    with record_triton(scale_rows, tensors) as recording:
        launch()
    interpreted = recording.trace()
    assert emulated.grid == interpreted.grid
    for column in ("program", "kind", "line", "first", "tensor", "index", "bits"):
        assert np.array_equal(getattr(emulated, column), getattr(interpreted, column)), column


def test_lanes_are_threads_of_the_cta_and_the_mask_leaves_out_those_past_the_end(
    recorded: tuple[dict[str, Any], MemoryTrace],
) -> None:
    _, trace = recorded
    assert set(trace.lanes.tolist()) == {128}
    assert trace.kind.tolist() == [LOAD, LOAD, STORE, LOAD, STORE] * ROWS
    assert (trace.lane < 128).all()
    assert (trace.lane >= 0).all()
    assert np.diff(trace.first).tolist() == [1, BLOCK, BLOCK, COLUMNS_OF_X - BLOCK, COLUMNS_OF_X - BLOCK] * ROWS
    whole = trace.lane[trace.rows(1)]
    assert np.bincount(whole, minlength=128).tolist() == [BLOCK // 128] * 128


def test_what_the_interpreter_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "interpreter")
    tensors, launch = scaled()
    with pytest.raises(LaunchError, match="nothing was launched on an emulated device"):
        record_emulated(scale_rows, tensors, launch)


@pytest.mark.parametrize("kernel", ["flashmla", "flashinfer"])
def test_index_runs_take_the_emulator_and_fall_back_to_the_interpreter(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = {"kv_lora_rank": 16, "qk_rope_head_dim": 16, "num_heads": 16, "page_size": 16}
    batch = sglab.decode_batch([30, 700, 7], layout="fragmented", seed=0, **shape)
    emulated = run_index_kernel(kernel, batch)
    assert emulated.trace.machine.startswith("emulated sm_")
    monkeypatch.setenv(ENVIRONMENT, "interpreter")
    interpreted = run_index_kernel(kernel, batch)
    assert interpreted.trace.machine == "Triton interpreter"
    same = [number for number, name in enumerate(COLUMNS) if "lane" not in name]
    assert np.array_equal(emulated.moments[:, same], interpreted.moments[:, same])
    assert np.array_equal(emulated.after, interpreted.after)
