"""Lanes that part, wait for each other, call and return, under every scheduler."""

import numpy as np
import pytest

from tests.support.emulator.launching import launch
from tests.support.emulator.schedulers import SCHEDULERS


def out_of(ptx: str, block: int = 32, grid: int = 1, fill: int = 0, size: int | None = None, **options) -> np.ndarray:
    out = np.full(block * grid if size is None else size, fill, np.uint32)
    launch(ptx, [out], grid=(grid, 1, 1), block=(block, 1, 1), **options)
    return out


PROLOGUE = """
.entry k(.param .u64 out) {
  .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
"""


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_loop_with_a_trip_count_per_lane(scheduler: str) -> None:
    ptx = (
        PROLOGUE
        + """
  mov.u32 %r2, 0; mov.u32 %r3, 0;
LOOP:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  add.u32 %r2, %r2, 1;
  and.b32 %r4, %r2, 1;
  setp.eq.u32 %p2, %r4, 0;
  @%p2 bra LOOP;
  add.u32 %r3, %r3, %r2;
  bra LOOP;
DONE:
  st.global.u32 [%rd2], %r3;
  ret;
}"""
    )
    expected = [sum(k for k in range(1, lane + 1) if k % 2) for lane in range(64)]
    assert out_of(ptx, block=64, scheduler=scheduler).tolist() == expected


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_lanes_of_one_warp_take_a_lock_one_after_the_other(scheduler: str) -> None:
    """The lane that holds the lock is ahead of those that spin: it must get its turn."""
    ptx = (
        PROLOGUE
        + """
AGAIN:
  atom.global.cas.b32 %r2, [%rd1], 0, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra AGAIN;
  ld.volatile.global.u32 %r3, [%rd1+4];
  add.u32 %r3, %r3, %r1;
  st.volatile.global.u32 [%rd1+4], %r3;
  membar.gl;
  atom.global.exch.b32 %r2, [%rd1], 0;
  ret;
}"""
    )
    out = out_of(ptx, block=64, grid=3, size=2, scheduler=scheduler)
    assert out.tolist() == [0, 3 * sum(range(64))]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_ctas_wait_for_each_other_in_global_memory(scheduler: str, threads: int) -> None:
    """A grid-wide barrier by a counter: all CTAs are resident and get their turns."""
    ptx = """
.entry k(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  red.release.gpu.global.add.u32 [%rd1], 1;
WAIT:
  ld.acquire.gpu.global.u32 %r2, [%rd1];
  setp.lt.u32 %p2, %r2, 6;
  @%p2 bra WAIT;
  red.global.add.u32 [%rd1+4], %r2;
DONE:
  ret;
}"""
    assert out_of(ptx, grid=6, size=2, scheduler=scheduler, threads=threads, sms=8).tolist() == [6, 36]


def test_jump_table() -> None:
    ptx = (
        PROLOGUE
        + """
  rem.u32 %r2, %r1, 3;
TABLE: .branchtargets A, B, C;
  brx.idx %r2, TABLE;
A: mov.u32 %r3, 10; bra END;
B: mov.u32 %r3, 20; bra END;
C: mov.u32 %r3, 30;
END:
  activemask.b32 %r4;
  xor.b32 %r3, %r3, %r4;
  st.global.u32 [%rd2], %r3;
  ret;
}"""
    )
    assert out_of(ptx).tolist() == [(10, 20, 30)[lane % 3] ^ 0xFFFFFFFF for lane in range(32)]


def test_block_put_out_of_line_meets_the_others() -> None:
    """The cold block is after `ret` and jumps back: lanes must have met again at the join."""
    ptx = (
        PROLOGUE
        + """
  setp.lt.u32 %p1, %r1, 7;
  mov.u32 %r2, 1;
  @%p1 bra COLD;
BACK:
  activemask.b32 %r3;
  st.global.u32 [%rd2], %r3;
  ret;
COLD:
  add.u32 %r2, %r2, 1;
  bra BACK;
}"""
    )
    assert out_of(ptx).tolist() == [0xFFFFFFFF] * 32


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_lanes_that_leave_a_loop_at_different_times_go_on_together(scheduler: str) -> None:
    """No label stands where the inner loop ends: those that leave it last meet the others all the same. Each lane
    counts how often not all of them were there."""
    ptx = (
        PROLOGUE
        + """
  mov.u32 %r2, 0; mov.u32 %r5, 0;
OUTER:
  mov.u32 %r3, 0;
INNER:
  add.u32 %r3, %r3, 1;
  add.u32 %r4, %r2, %r1;
  and.b32 %r4, %r4, 31;
  setp.le.u32 %p1, %r3, %r4;
  @%p1 bra INNER;
  activemask.b32 %r6;
  setp.ne.u32 %p2, %r6, 0xffffffff;
  @%p2 add.u32 %r5, %r5, 1;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p3, %r2, 4;
  @%p3 bra OUTER;
  st.global.u32 [%rd2], %r5;
  ret;
}"""
    )
    assert out_of(ptx, scheduler=scheduler).tolist() == [0] * 32


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_each_lane_waits_for_what_the_one_before_stores_past_the_loop(scheduler: str) -> None:
    """Joining again must not be waiting: nobody stays where the loop ends until all have left it."""
    ptx = (
        PROLOGUE
        + """
  setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r3, 1;
  @%p1 bra PASSED;
SPIN:
  ld.volatile.global.u32 %r3, [%rd2+-4];
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra SPIN;
PASSED:
  add.u32 %r3, %r3, 1;
  st.volatile.global.u32 [%rd2], %r3;
  ret;
}"""
    )
    assert out_of(ptx, scheduler=scheduler).tolist() == list(range(2, 34))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_lanes_past_a_guarded_return_meet_those_that_were_there(scheduler: str) -> None:
    """Some of the lanes that leave the loop first return; those that leave it last all go on."""
    ptx = """
.func (.param .b32 result) turns(.param .b32 lane) {
  .reg .pred %p<4>; .reg .b32 %r<6>;
  ld.param.b32 %r1, [lane];
  mov.u32 %r2, 0;
AGAIN:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra AGAIN;
  setp.lt.u32 %p2, %r1, 8;
  st.param.b32 [result], %r2;
  @%p2 ret;
  activemask.b32 %r3;
  st.param.b32 [result], %r3;
  ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  { .param .b32 a; .param .b32 v; st.param.b32 [a], %r1; call (v), turns, (a); ld.param.b32 %r2, [v]; }
  st.global.u32 [%rd2], %r2;
  ret;
}"""
    expected = [max(lane, 1) if lane < 8 else 0xFFFFFF00 for lane in range(32)]
    assert out_of(ptx, scheduler=scheduler).tolist() == expected


def test_recursive_function_and_function_pointers() -> None:
    ptx = """
.func (.param .b32 result) fib(.param .b32 n) {
  .reg .pred %p<2>; .reg .b32 %r<6>;
  ld.param.b32 %r1, [n];
  setp.gt.u32 %p1, %r1, 1;
  @%p1 bra MORE;
  st.param.b32 [result], %r1;
  ret;
MORE:
  sub.u32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 v; st.param.b32 [a], %r2; call (v), fib, (a); ld.param.b32 %r3, [v]; }
  sub.u32 %r2, %r1, 2;
  { .param .b32 a; .param .b32 v; st.param.b32 [a], %r2; call (v), fib, (a); ld.param.b32 %r4, [v]; }
  add.u32 %r5, %r3, %r4;
  st.param.b32 [result], %r5;
  ret;
}
.func (.param .b32 result) twice(.param .b32 n) {
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [n];
  shl.b32 %r2, %r1, 1;
  st.param.b32 [result], %r2;
  ret;
}
.visible .entry k(.param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p1, %r2, 0;
  mov.u64 %rd3, fib;
  mov.u64 %rd4, twice;
  selp.b64 %rd5, %rd3, %rd4, %p1;
  {
    .param .b32 a; .param .b32 v;
    st.param.b32 [a], %r1;
    shape: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (v), %rd5, (a), shape;
    ld.param.b32 %r3, [v];
  }
  st.global.u32 [%rd2], %r3;
  ret;
}"""
    fib = [0, 1]
    while len(fib) < 20:
        fib.append(fib[-1] + fib[-2])
    assert out_of(ptx, block=16).tolist() == [fib[n] if n % 2 == 0 else 2 * n for n in range(16)]


def test_call_that_never_ends_is_a_stack_fault() -> None:
    ptx = """
.func deeper() { call deeper; ret; }
.visible .entry k(.param .u64 out) { call deeper; ret; }"""
    with pytest.raises(RuntimeError, match="nested too deeply"):
        out_of(ptx)
