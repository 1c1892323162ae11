"""Results do not depend on how the host's floating-point unit is set up, and flushing is where the PTX ISA has it."""

import ctypes
import platform
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.conformance.digests import Job, of_case
from tests.support.conformance.floating import cases
from tests.support.emulator.launching import HEADER, launch
from tests.support.emulator.tensor_ptx import aligned

torch = pytest.importorskip("torch")

from sglab import gpu

UPWARD = {"x86_64": 0x800, "AMD64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}
FORMS = ("add.rn.f32", "mul.rn.f32", "mul.rm.f32", "fma.rn.f64", "div.rz.f64", "mul.rn.ftz.f32", "fma.rn.f16 ")


@pytest.fixture
def odd_host() -> Iterator[None]:
    """The calling thread flushes subnormal numbers and rounds up."""
    libm = ctypes.CDLL(None)
    if not torch.set_flush_denormal(True):
        pytest.skip("this host cannot flush")
    libm.fesetround(UPWARD[platform.machine()])
    yield
    libm.fesetround(0)
    torch.set_flush_denormal(False)


JOBS = [of_case(case) for case in cases() if case.form.startswith(FORMS)]
EXPECTED = [job.run() for job in JOBS]


@pytest.mark.parametrize("k", range(len(JOBS)), ids=[job.name.split(" ")[0] for job in JOBS])
@pytest.mark.usefixtures("odd_host")
def test_a_thread_that_flushes_and_rounds_up_computes_the_same(k: int) -> None:
    assert JOBS[k].run() == EXPECTED[k]


def on_two_threads(job: Job) -> bytes:
    result = np.full(job.result_bytes, 0x55, np.uint8)
    launch(job.ptx, [*job.inputs, result, ("u", job.count)], (job.grid, 1, 1), (job.block, 1, 1), threads=2)
    return result.tobytes()


@pytest.mark.usefixtures("odd_host")
def test_worker_threads_do_not_inherit_the_caller_s_modes() -> None:
    assert [on_two_threads(job) for job in JOBS] == EXPECTED


CONSTANTS = """
.global .f32 table[2] = {0d380FFFFFC0000000, 0d36A0000000000000};
.visible .entry k(.param .u64 out) {
  .reg .f32 %f<4>; .reg .b64 %p, %t;
  ld.param.u64 %p, [out];
  mov.f32 %f0, 0d380FFFFFC0000000;
  mov.f32 %f1, 0f00000003;
  add.f32 %f1, %f1, 0d36B0000000000000;
  mov.u64 %t, table;
  ld.global.f32 %f2, [%t]; ld.global.f32 %f3, [%t + 4];
  st.global.v4.f32 [%p], {%f0, %f1, %f2, %f3};
  ret;
}
"""


@pytest.mark.usefixtures("odd_host")
def test_constants_and_steps_keep_subnormal_numbers() -> None:
    """Constants are narrowed when the text is read; a session steps on the caller's thread."""
    result = torch.zeros(4, dtype=torch.int32)
    kernel = gpu.load(HEADER + CONSTANTS)["k"]
    session = kernel.session(gpu.EmulatedDevice("sm_100a", sms=1), grid=1, block=1, args=[result])
    session.run()
    # The f64 constants are the largest and the smallest subnormal f32, and twice the smallest.
    assert result.tolist() == [0x007FFFFF, 5, 0x007FFFFF, 1]


@pytest.mark.usefixtures("odd_host")
def test_the_caller_s_modes_are_as_before_afterwards() -> None:
    JOBS[0].run()
    assert (torch.tensor([1e-40]) * 1).item() == 0.0


ADDITION = """
.visible .entry k(.param .u64 out, .param .u32 addend) {{
  .shared .align 8 .b32 cell;
  .reg .b64 %p, %q, %s; .reg .b32 %old, %a, %new; .reg .f32 %f;
  ld.param.u64 %p, [out]; ld.param.b32 %a, [addend];
  mov.u64 %s, cell; cvta.shared.u64 %q, %s;
  ld.global.b32 %old, [%p];
  st.shared.b32 [cell], %old;
  {instruction}
  ld.shared.b32 %new, [cell];
  st.global.b32 [%p + 4], %new;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("instruction", "place", "flushes"),
    [
        ("atom.global.add.f32 %f, [%p], %a;", 0, True),
        ("red.global.add.f32 [%p], %a;", 0, True),
        ("atom.add.f32 %f, [%p], %a;", 0, True),
        ("red.add.f32 [%p], %a;", 0, True),
        ("atom.shared.add.f32 %f, [cell], %a;", 1, False),
        ("red.shared.add.f32 [cell], %a;", 1, False),
        ("atom.add.f32 %f, [%q], %a;", 1, False),
        ("red.add.f32 [%q], %a;", 1, False),
    ],
)
def test_f32_additions_flush_in_global_memory_only(instruction: str, place: int, flushes: bool) -> None:
    """PTX ISA, atom and red; through a generic address it is the address that decides, as on an H200."""
    for old, addend, exact, flushed in (
        (0x00000001, 0x00000002, 0x00000003, 0x00000000),
        (0x80000001, 0x80000002, 0x80000003, 0x80000000),
        (0x00800000, 0x80000001, 0x007FFFFF, 0x00800000),
        (0x00800001, 0x80800000, 0x00000001, 0x00000000),
    ):
        cells = np.array([old, old], np.uint32)
        text = ADDITION.format(instruction="mov.b32 %f, %a; " + instruction.replace("%a;", "%f;"))
        launch(text, [cells, ("u", addend)], block=(1, 1, 1))
        assert cells[place] == (flushed if flushes else exact)


BULK = """
.visible .entry k(.param .u64 out) {
  .shared .align 16 .b32 cells[4];
  .reg .b64 %p; .reg .b32 %s;
  ld.param.u64 %p, [out];
  mov.u32 %s, cells;
  st.shared.v4.b32 [%s], {2, 0x80000002, 0x80000001, 0x3f800000};
  fence.proxy.async;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%p], [%s], 16;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
"""


def test_bulk_additions_of_f32_flush() -> None:
    """PTX ISA, cp.reduce.async.bulk: .add.f32 flushes subnormal inputs and results to sign-preserving zero."""
    cells = aligned((4,), np.uint32)
    cells[:] = [1, 0x80000001, 0x00800000, 1]
    launch(BULK, [cells], block=(1, 1, 1))
    assert cells.tolist() == [0, 0x80000000, 0x00800000, 0x3F800000]
