"""What lies where in shared memory, and since when."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.events.shared_memory import KINDS
from sglab.labs.shared_memory import PagedDecode
from sglab.widgets import SharedMemory
from tests.support.compilers import has_nvcc
from tests.support.launches.memory_sessions import mla_sm100

SEVERAL = """
#include <cuda_fp16.h>
extern "C" __global__ void several(const half* x, const float* y, const int* z, float* out) {
    extern __shared__ char smem[];
    half* a = (half*)smem;
    float* b = (float*)(smem + 1024);
    int* c = (int*)(smem + 2048);
    int t = threadIdx.x;
    for (int i = t; i < 512; i += 64) a[i] = x[i];
    for (int i = t; i < 256; i += 64) { b[i] = y[i]; c[i] = z[i]; }
    __syncthreads();
    float s = 0;
    for (int i = t; i < 256; i += 64) {
        half2 h = ((half2*)a)[i];
        s += __low2float(h) * b[i] + __high2float(h) * c[i];
    }
    out[t] = s;
}
"""


def spans(widget: SharedMemory) -> list[tuple[int, int, list[str]]]:
    return [(one["start"], one["end"], [name for _, name in one["phases"]]) for one in widget.elements]


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_arrays_of_several_types_in_dynamic_shared_memory() -> None:
    kernel = sglab.cuda(SEVERAL)["several"]
    x, y, z = torch.zeros(512).half(), torch.zeros(256), torch.zeros(256, dtype=torch.int32)
    widget = SharedMemory(sglab.step(kernel[1, 64, 3072], x, y, z, torch.zeros(64)))
    assert spans(widget) == [(0x400, 0x800, ["f16"]), (0x800, 0xC00, ["f32"]), (0xC00, 0x1000, ["s32"])]


def test_a_union_holds_what_was_written_last() -> None:
    """K and V are copied in as halves, with zeros where there are no more tokens; at last sums lie over K."""
    widget = SharedMemory(PagedDecode(tokens=8).session())
    first = widget.elements[0]
    assert [name for _, name in first["phases"]] == ["f16", "f32"]
    (values,) = widget.slices([{"name": "moments", "start": 0, "stop": 1 << 30}])
    from_, _ = first["phases"][1]
    assert KINDS[values.array[from_][4]] == "st"
    assert {name for one in widget.elements for _, name in one["phases"]} == {"f16", "f32"}


def test_boxes_and_operands_of_tensor_cores_have_their_type() -> None:
    found = spans(SharedMemory(mla_sm100(512)))
    assert found[0] == (0x400, 0x36400, ["f16"])
    assert found[1][2] == ["f32"]
