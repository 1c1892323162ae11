"""A launch that goes round in circles is stopped long before its limit; one that only takes its time is not."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import launch

LIMIT = 40_000_000
POLL = """
.entry waits(.param .u64 flag, .param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [flag];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %ctaid.x;
  SETUP
POLL:
  BODY
  @%p1 bra POLL;
  st.global.u32 [%d2], 1;
  ret;
}"""
LOAD = "ld.volatile.global.u32 %r2, [%d1];\n  setp.eq.u32 %p1, %r2, 0;"
LOCK = "atom.global.cas.b32 %r2, [%d1], 0, 1;\n  setp.ne.u32 %p1, %r2, 0;"
COUNT = "add.u32 %r3, %r3, 1;\n  setp.lt.u32 %p1, %r3, 1500000;"


def run(body: str, flag: int, setup: str = "mov.u32 %r3, 0;", **how: tuple[int, int, int]) -> int:
    out = np.zeros(1, np.uint32)
    ptx = POLL.replace("SETUP", setup).replace("BODY", body)
    launch(ptx, [np.array([flag], np.uint32), out], max_instructions=LIMIT, **how)
    return int(out[0])


@pytest.mark.parametrize(("body", "flag"), [(LOAD, 0), (LOCK, 1)])
@pytest.mark.parametrize("grid", [1, 3])
def test_a_poll_for_what_nobody_writes_is_told_soon(body: str, flag: int, grid: int) -> None:
    with pytest.raises(_core.LaunchError, match="never ends: it goes round in circles") as caught:
        run(body, flag, grid=(grid, 1, 1), block=(64, 1, 1))
    assert caught.value.kind == "livelock"
    assert f"which hold {flag}" in str(caught.value)
    executed = int(str(caught.value).split("executed ")[1].split(" ")[0].replace(",", ""))
    assert executed < LIMIT / 10


def test_lanes_that_wait_for_one_of_their_own_warp_are_told_soon() -> None:
    """The lane that has the lock is never let go on: it waits for the others at a .sync instruction."""
    setup = """mov.u32 %r4, %tid.x;
  setp.eq.u32 %p2, %r4, 0;
  @%p2 bra HOLD;
  bra POLL;
HOLD:
  bar.warp.sync 0xffffffff;
  st.global.u32 [%d1], 1;
  ret;"""
    with pytest.raises(_core.LaunchError, match="never ends"):
        run(LOAD, 0, setup)


def test_a_loop_that_counts_ends() -> None:
    assert run(COUNT, 0, block=(32, 1, 1)) == 1


def test_a_flag_that_comes_late_is_waited_for() -> None:
    """The other CTA counts in registers for long, and writes nothing meanwhile."""
    setup = f"""mov.u32 %r3, 0;
  setp.eq.u32 %p2, %r1, 0;
  @%p2 bra POLL;
AGAIN:
  {COUNT}
  @%p1 bra AGAIN;
  st.global.u32 [%d1], 1;
  ret;"""
    assert run(LOAD, 0, setup, grid=(2, 1, 1)) == 1


def test_a_wait_by_the_clock_ends() -> None:
    """The register with the clock may be another one's when the launch is looked at."""
    body = "mov.u32 %r2, %clock;\n  setp.lt.u32 %p1, %r2, 4000000;\n  mov.u32 %r2, 0;"
    assert run(body, 0) == 1
