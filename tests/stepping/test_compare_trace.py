"""`Parting.trace`: from the store at which two launches part to the instruction that parts them."""

import re

import pytest

torch = pytest.importorskip("torch")
import sglab
from sglab import gpu
from sglab.compilers.nvcc import find_nvcc

KERNEL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry chain(.param .u64 x, .param .u64 out)
{
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .f32 %f<12>; .reg .b64 %rd<6>; .shared .align 4 .b8 tile[256];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  mul.f32 %f2, %f1, 0f40400000;
  add.f32 %f3, %f2, %f1;
  mov.f32 %f4, %f3;
  mov.u32 %r2, 0;
LOOP:
  fma.rn.f32 %f4, %f4, 0f3F000000, %f1;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 5;
  @%p1 bra LOOP;
  mov.u32 %r3, tile;
  shl.b32 %r4, %r1, 2;
  add.u32 %r5, %r3, %r4;
  st.shared.f32 [%r5], %f4;
  bar.sync 0;
  xor.b32 %r6, %r4, 252;
  add.u32 %r7, %r3, %r6;
  ld.shared.f32 %f5, [%r7];
  setp.gt.f32 %p2, %f5, 0f00000000;
  @%p2 add.f32 %f5, %f5, 0f3F800000;
  mov.b32 %r8, %f5;
  shfl.sync.bfly.b32 %r9, %r8, 1, 31, 0xffffffff;
  mov.b32 %f6, %r9;
  sub.f32 %f7, %f6, %f1;
  setp.ge.u32 %p3, %r1, 8;
  @%p3 bra NEGATE;
  add.f32 %f8, %f7, %f7;
  bra.uni DONE;
NEGATE:
  neg.f32 %f8, %f7;
DONE:
  st.global.f32 [%rd5], %f8;
  ret;
}
"""
FAULTS = [
    ("mul.f32 %f2, %f1, 0f40400000;", "mul.f32 %f2, %f1, 0f40400001;"),
    ("add.f32 %f3, %f2, %f1;", "sub.f32 %f3, %f2, %f1;"),
    ("mov.f32 %f4, %f3;", "mov.f32 %f4, %f2;"),
    ("fma.rn.f32 %f4, %f4, 0f3F000000, %f1;", "fma.rz.f32 %f4, %f4, 0f3F100000, %f1;"),
    ("xor.b32 %r6, %r4, 252;", "xor.b32 %r6, %r4, 248;"),
    ("st.shared.f32 [%r5], %f4;", "st.shared.f32 [%r5], %f3;"),
    ("@%p2 add.f32 %f5, %f5, 0f3F800000;", "@%p2 add.f32 %f5, %f5, 0f40000000;"),
    ("setp.gt.f32 %p2, %f5, 0f00000000;", "setp.lt.f32 %p2, %f5, 0f00000000;"),
    ("shfl.sync.bfly.b32 %r9, %r8, 1, 31, 0xffffffff;", "shfl.sync.bfly.b32 %r9, %r8, 2, 31, 0xffffffff;"),
    ("sub.f32 %f7, %f6, %f1;", "sub.f32 %f7, %f1, %f6;"),
    ("neg.f32 %f8, %f7;", "abs.f32 %f8, %f7;"),
    ("st.global.f32 [%rd5], %f8;", "st.global.f32 [%rd5], %f7;"),
    ("setp.lt.u32 %p1, %r2, 5;", "setp.lt.u32 %p1, %r2, 6;"),
    ("setp.ge.u32 %p3, %r1, 8;", "setp.ge.u32 %p3, %r1, 9;"),
]


@pytest.fixture
def tensors():
    torch.manual_seed(3)
    return torch.rand(64) + 1, torch.zeros(64)


def step(text, x, out):
    return sglab.step(sglab.ptx(text)[1, 64], x, out)


def parting(tensors, a, b):
    return sglab.compare(a, b, tensors=dict(zip(("x", "out"), tensors, strict=True))).parting


@pytest.mark.parametrize(("right", "wrong"), FAULTS, ids=[wrong for _, wrong in FAULTS])
def test_an_injected_fault_is_named(tensors, right, wrong) -> None:
    assert KERNEL.count(right) == 1
    found = parting(tensors, step(KERNEL, *tensors), step(KERNEL.replace(right, wrong), *tensors)).trace()
    a, b = found.steps[-1]
    assert found.found, str(found)
    assert {right, wrong} & {a.instruction.text, b.instruction.text}, str(found)
    line = KERNEL[: KERNEL.index(right)].count("\n") + 1
    assert line in (a.instruction.ptx_line, b.instruction.ptx_line)
    assert f"PTX line {line}" in str(found)
    assert not tensors[1].any()


SHUFFLES = {
    "bfly.b32 %r9, %r8, 1, 31": lambda lane: lane ^ 1,
    "down.b32 %r9, %r8, 4, 31": lambda lane: lane + 4 if lane < 28 else lane,
    "down.b32 %r9|%p3, %r8, 3, 0x181f": lambda lane: lane + 3 if lane % 8 < 5 else lane,
    "up.b32 %r9, %r8, 2, 0": lambda lane: lane - 2 if lane >= 2 else lane,
    "up.b32 %r9, %r8, %r3, 0x1000": lambda lane: lane,
    "idx.b32 %r9, %r8, 5, 31": lambda lane: 5,
    "idx.b32 %r9, %r8, %r1, 0x101f": lambda lane: lane,
}


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("first", [0, 6, 29])
def test_a_shuffle_names_the_lane_that_the_value_comes_from(tensors, shuffle, first) -> None:
    """All lanes' values differ; only that one's matters. Lanes before `first` store nothing that differs."""
    text = KERNEL.replace("bfly.b32 %r9, %r8, 1, 31", shuffle)
    text = text.replace(
        "sub.f32 %f7, %f6, %f1;", f"mov.f32 %f7, %f6; setp.lt.u32 %p1, %r1, {first}; @%p1 mov.f32 %f7, %f1;"
    )
    wrong = text.replace("mul.f32 %f2, %f1, 0f40400000;", "mul.f32 %f2, %f1, 0f41400000;")
    found = parting(tensors, step(text, *tensors), step(wrong, *tensors)).trace()
    at = next(i for i, (a, _) in enumerate(found.steps) if a.instruction.opcode.startswith("shfl"))
    (a, b), (before, _) = found.steps[at : at + 2]
    lane = SHUFFLES[shuffle](a.lane)
    assert (a.taken, b.taken) == (("%r8", lane), ("%r8", lane))
    assert before.instruction.text == "mov.b32 %r8, %f5;" and before.lane == lane, str(found)
    assert f" of lane {lane}" in str(a) and a.value("%r8") == before.value("%f5")


def test_registers_of_other_names_are_followed_by_their_place(tensors) -> None:
    right, wrong = FAULTS[0]
    other = KERNEL.replace(right, wrong).replace("%f", "%g").replace("%r", "%s")
    a, b = parting(tensors, step(KERNEL, *tensors), step(other, *tensors)).trace().steps[-1]
    assert (a.instruction.text, b.instruction.text) == (right, wrong.replace("%f", "%g"))
    assert a.value("%f1") == b.value("%g1")


def test_floats_and_addresses_are_shown_as_such_however_they_are_declared(tensors) -> None:
    """Triton and nvcc declare .b32 for floats, too; what the instructions make of them says what they hold."""
    right, wrong = FAULTS[0]
    plain = KERNEL.replace(".reg .f32", ".reg .b32")
    assert plain != KERNEL
    found = parting(tensors, step(plain, *tensors), step(plain.replace(right, wrong), *tensors)).trace()
    value = found.steps[-1][0].value("%f1")
    assert 1 <= value <= 2 and f"%f1={value:.9g}" in str(found)
    # a function's trace goes on to the load of x
    found = parting(tensors, step(plain, *tensors), lambda out: None).trace(most=100)
    load = next(str(a) for a, _ in found.steps if a.instruction.opcode == "ld.global.f32")
    assert re.search(r"%rd\d+=0x[0-9a-f]+", load), load


def test_of_a_function_only_the_values_are_known(tensors) -> None:
    found = parting(tensors, step(KERNEL, *tensors), lambda out: None).trace(most=100)
    assert not found.found and all(b is None for _, b in found.steps)
    shown = [a.instruction.opcode for a, _ in found.steps]
    assert shown[:2] == ["st.global.f32", "neg.f32"] and "ld.global.f32" in shown and shown.count("fma.rn.f32") >= 5
    assert "of the other side only the values are known" in str(found)
    assert not tensors[1].any()


def test_a_long_way_of_one_side_is_told_by_source_lines(tensors) -> None:
    """A sum over a tile printed 170 lines, of which each instruction was one."""
    try:
        find_nvcc()
    except gpu.MissingDependencyError as error:
        pytest.skip(str(error))
    source = """
__global__ void twisted(const float* x, float* out) {
  __shared__ float s[64];
  float sum = x[threadIdx.x];
  s[threadIdx.x] = sum;
  __syncthreads();
  for (int i = 0; i < 32; ++i) sum += s[(threadIdx.x + i) % 64] * 0.5f;
  out[threadIdx.x] = sum;
}"""
    x, out = torch.rand(64), torch.zeros(64)
    found = sglab.compare(sglab.step(sglab.cuda(source)[1, 64], x, out), lambda out: None)
    trace = found.parting.trace()
    lines = str(trace).splitlines()
    assert len(trace.steps) > 60 and len(lines) < 12
    assert ", kernel.cu:8 " in lines[0] and "more of this line" in str(trace)
    assert f"{len(trace.steps)} instructions of" in lines[-2]


def test_a_way_that_is_too_long_says_so(tensors) -> None:
    right, wrong = FAULTS[0]
    found = parting(tensors, step(KERNEL, *tensors), step(KERNEL.replace(right, wrong), *tensors))
    short = found.trace(most=3)
    assert len(short.steps) == 3 and not short.found and "followed for 3 steps" in str(short)
    with pytest.raises(gpu.LaunchError, match="most: expected 1 or more steps; got 0"):
        found.trace(most=0)


VECTORS = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry vectors(.param .u64 x, .param .u64 out)
{
  .reg .b32 %r<3>; .reg .f32 %f<9>; .reg .b64 %rd<6>; .shared .align 16 .b8 tile[512];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 8;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.v2.f32 {%f1, %f2}, [%rd4];
  add.f32 %f3, %f1, %f1;
  add.f32 %f4, %f2, %f2;
  shl.b32 %r1, %r1, 3;
  mov.u32 %r2, tile;
  add.u32 %r2, %r2, %r1;
  st.shared.f32 [%r2], %f3;
  st.shared.f32 [%r2+4], %f4;
  ld.shared.v2.f32 {%f5, %f6}, [%r2];
  st.global.v2.f32 [%rd5], {%f5, %f6};
  ret;
}
"""


def test_the_element_of_a_vector_is_followed(tensors) -> None:
    wrong = VECTORS.replace("add.f32 %f4, %f2, %f2;", "add.f32 %f4, %f2, %f1;")
    made = [sglab.step(sglab.ptx(text)[1, 32], *tensors) for text in (VECTORS, wrong)]
    found = parting(tensors, *made).trace()
    assert found.found and found.steps[-1][1].instruction.text == "add.f32 %f4, %f2, %f1;", str(found)


def test_the_way_ends_at_what_an_atomic_brings(tensors) -> None:
    text = KERNEL.replace("ld.shared.f32 %f5, [%r7];", "atom.shared.add.f32 %f5, [%r7], 0f00000000;")
    right, wrong = FAULTS[0]
    found = parting(tensors, step(text, *tensors), step(text.replace(right, wrong), *tensors)).trace()
    assert not found.found and "cannot be followed" in found.reason
    assert found.steps[-1][0].instruction.opcode == "atom.shared.add.f32"
