"""The recorder against a plain account of what each program must have touched."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tl = pytest.importorskip("triton.language")

from sglab.triton import triton_kernel
from sglab.workbench.recorders import ATOMIC, LOAD, STORE
from sglab.workbench.recorders.memory import UNNAMED
from sglab.workbench.recorders.triton import record_triton


@triton_kernel
def scale_rows(source, target, total, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(source + row * stride + column, mask=inside)
    tl.store(target + row * stride + column, values * 2, mask=inside)
    tl.atomic_add(total, 1)


@pytest.fixture
def run():
    generator = torch.Generator().manual_seed(7)
    source = torch.randint(-99, 99, (3, 10), generator=generator, dtype=torch.int32)
    target, total = torch.zeros_like(source), torch.zeros(1, dtype=torch.int32)
    with record_triton(scale_rows, {"source": source, "target": target}) as recording:
        scale_rows[(2, 3)](source, target, total, 10, source.stride(0), BLOCK=8)
    return source, target, total, recording.trace()


def test_the_kernel_still_computes(run) -> None:
    source, target, total, _ = run
    assert torch.equal(target, source * 2)
    assert total.item() == 6


def test_operations_come_in_execution_order_with_their_program(run) -> None:
    *_, trace = run
    assert trace.grid == (2, 3, 1)
    assert trace.kind.tolist() == [LOAD, STORE, ATOMIC] * 6
    # The interpreter walks x slowest, so programs (x, y) with number x + 2 y come as 0, 2, 4, 1, 3, 5.
    assert trace.program.reshape(6, 3)[:, 0].tolist() == [0, 2, 4, 1, 3, 5]
    assert trace.lanes.reshape(6, 3).tolist() == [[8, 8, 1]] * 6


def test_accesses_name_tensor_element_lane_and_value_of_active_lanes_only(run) -> None:
    source, _, _, trace = run
    values = trace.values()
    for operation in range(trace.operations):
        rows = trace.rows(operation)
        y, x = divmod(int(trace.program[operation]), 2)
        columns = np.arange(x * 8, min(10, x * 8 + 8))
        if trace.kind[operation] == ATOMIC:
            assert trace.tensor[rows].tolist() == [UNNAMED]
            continue
        name, factor = ("source", 1) if trace.kind[operation] == LOAD else ("target", 2)
        assert (trace.tensor[rows] == trace.number(name)).all()
        assert trace.lane[rows].tolist() == (columns - x * 8).tolist()
        assert trace.index[rows].tolist() == (y * 10 + columns).tolist()
        assert values[rows].tolist() == (source[y, columns] * factor).tolist()


def test_lines_point_into_the_source(run) -> None:
    *_, trace = run
    lines = trace.source.text.splitlines()
    text = {int(kind): lines[line - trace.source.first_line] for kind, line in zip(trace.kind, trace.line, strict=True)}
    assert "tl.load" in text[LOAD]
    assert "tl.store" in text[STORE]
    assert "tl.atomic_add" in text[ATOMIC]


def test_coordinates_follow_strides() -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    column = torch.zeros(6, 4).t()  # a transposed tensor: strides (1, 4)
    with record_triton(scale_rows, {"source": base, "column": column}) as recording:
        pass
    tensor = recording.trace().tensors[1]
    row, place = tensor.coordinates(np.array([0, 1, 4, 23]))
    assert row.tolist() == [0, 1, 0, 3]
    assert place.tolist() == [0, 0, 1, 5]


def test_another_thread_is_not_recorded(run) -> None:
    import threading

    source, target, total, _ = run

    def launch() -> None:
        scale_rows[(2, 3)](source, target, total, 10, source.stride(0), BLOCK=8, route="interpreter")

    with record_triton(scale_rows, {"source": source}) as recording:
        other = threading.Thread(target=launch)
        other.start()
        other.join()
    assert total.item() == 12
    assert recording.trace().operations == 0


def test_an_unknown_tensor_is_refused_by_name(run) -> None:
    *_, trace = run
    with pytest.raises(KeyError, match="no tensor 'kv' in this trace; it has source, target"):
        trace.number("kv")
