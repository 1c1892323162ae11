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
    names = [name for _, name in first["phases"]]
    assert (names[0], names[-1]) == ("f16", "f32")  # between them, word by word
    (values,) = widget.slices([{"name": "moments", "start": 0, "stop": 1 << 30}])
    assert KINDS[values.array[first["phases"][1][0]][4]] == "st"
    found = {word for one in widget.elements for _, name in one["phases"] for word in name.split("|")}
    assert found == {"f16", "f32"}


def test_boxes_and_operands_of_tensor_cores_have_their_type() -> None:
    found = spans(SharedMemory(mla_sm100(512)))
    assert found[0] == (0x400, 0x36400, ["f16"])
    assert found[1][2] == ["f32"]


STRUCTS = """
struct Best { float value; int index; };
extern "C" __global__ void argmax(const float* x, int* out) {
    __shared__ Best best[64];
    int t = threadIdx.x;
    best[t] = {x[t], t};
    __syncthreads();
    float most = best[0].value; int at = best[0].index;
    for (int i = 1; i < 64; ++i) if (best[i].value > most) { most = best[i].value; at = best[i].index + t - t; }
    out[t] = at;
}
"""


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_members_of_structs_lie_word_by_word() -> None:
    kernel = sglab.cuda(STRUCTS)["argmax"]
    widget = SharedMemory(sglab.step(kernel[1, 64], torch.randn(64), torch.zeros(64, dtype=torch.int32)))
    ((start, end, names),) = spans(widget)
    assert (start, end, names[-1].split("|")[::2]) == (0x400, 0x600, ["f32", "f32"])
    assert names[-1].split("|")[1::2] != ["f32", "f32"]


RECORDS = """
#include <cuda_bf16.h>
struct Record { MEMBERS };
extern "C" __global__ void records(const float* x, const int* z, const signed char* q, float* out) {
    __shared__ Record r[64];
    int t = threadIdx.x;
    r[t].i = z[t]; r[t].v = x[t]; r[t].c = q[t];
    __syncthreads();
    Record& o = r[63 - t];
    out[t] = (o.i * 5 + 1) * (float)o.v + o.c * 3;
}
"""


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
@pytest.mark.parametrize(
    ("members", "nbytes", "expected"),
    [
        ("int i; int pad; __nv_bfloat16 v, other; signed char c;", 16, ["s32||bf16,bf16,,|s8,,,"]),
        ("int i; __nv_bfloat16 v; signed char c;", 8, ["s32|bf16,bf16,s8,|s32|bf16,bf16,s8,"]),
        # what a chunk begins with comes round every third one
        ("int i; float v; signed char c;", 12, ["s32|f32|s8,,,|s32", "f32|s8,,,|s32|f32", "s8,,,|s32|f32|s8,,,"]),
    ],
)
def test_every_byte_of_structs_has_the_type_of_who_touches_it(members: str, nbytes: int, expected: list[str]) -> None:
    kernel = sglab.cuda(RECORDS.replace("MEMBERS", members))["records"]
    ints = torch.arange(64, dtype=torch.int32)
    widget = SharedMemory(sglab.step(kernel[1, 64], torch.randn(64), ints, ints.to(torch.int8), torch.zeros(64)))
    found = spans(widget)
    assert (found[0][0], found[-1][1]) == (0x400, 0x400 + 64 * nbytes)
    rounds = len(found) // len(expected)
    assert [names for _, _, names in found] == [[name] for name in expected] * rounds
