"""Calls nest as deep as a GPU's stack of 512 KB a thread, and no deeper."""

import numpy as np
import pytest

from sglab import _core, gpu
from tests.support.emulator.alone import run_alone
from tests.support.emulator.interrupting import interrupted_after
from tests.support.emulator.launching import HEADER, launch

# f(n) = n == 0 ? 0 : n + f(n - 1), with some local memory in every frame.
SUM = """
.visible .func (.param .b32 out) f(.param .b32 n)
{{
  .local .align 8 .b8 room[{room}];
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
  ld.param.b32 %r1, [n];
  mov.u32 %r4, 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  st.local.u32 [room], %r1;
  sub.u32 %r2, %r1, 1;
  {{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call (r), f, (a); ld.param.b32 %r3, [r]; }}
  ld.local.u32 %r5, [room];
  add.u32 %r4, %r3, %r5;
DONE:
  st.param.b32 [out], %r4;
  ret;
}}
.visible .entry k(.param .u64 out, .param .u32 depth)
{{
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x; ld.param.u32 %r2, [depth]; {divergence}
AGAIN:
  {{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call (r), f, (a); ld.param.b32 %r3, [r]; }}
  {again}
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1; st.global.u32 [%rd1], %r3;
  ret;
}}
"""


@pytest.mark.parametrize("room", [8, 1000])
def test_every_lane_may_recurse_to_a_depth_of_its_own(room: int) -> None:
    out = np.zeros(64, np.uint32)
    launch(SUM.format(room=room, divergence="add.u32 %r2, %r2, %r1;", again=""), [out, ("u", 100)], block=(64, 1, 1))
    assert out.tolist() == [(100 + n) * (101 + n) // 2 for n in range(64)]


@pytest.mark.parametrize(("room", "fits", "too_deep"), [(8, 2000, 100_000), (1000, 400, 600), (200_000, 1, 3)])
def test_the_stack_ends_where_a_gpus_does(room: int, fits: int, too_deep: int) -> None:
    text = SUM.format(room=room, divergence="", again="")
    out = np.zeros(32, np.uint32)
    launch(text, [out, ("u", fits)])
    assert out.tolist() == [fits * (fits + 1) // 2] * 32
    with pytest.raises(_core.LaunchError, match="nested too deeply") as caught:
        launch(text, [out, ("u", too_deep)])
    assert caught.value.kind == "stack"


MUTUAL = """
.visible .func g();
.visible .func f() {{ .local .b8 x[{room}]; .reg .b64 %rd<3>; mov.u64 %rd1, x; call g; ret; }}
.visible .func g() {{ .local .b8 y[{room}]; .reg .b64 %rd<3>; mov.u64 %rd1, y; call f; ret; }}
.visible .entry k() {{ call f; ret; }}
"""


@pytest.mark.parametrize("block", [32, 1024])
def test_frames_take_no_more_memory_than_a_gpus_stack(block: int) -> None:
    outcome = run_alone(MUTUAL.format(room=16_384), block=(block, 1, 1), max_instructions=0)
    assert outcome.kind == "stack" and outcome.peak < 2 << 30, (outcome, outcome.peak)
    outcome = run_alone(MUTUAL.format(room=1 << 20), block=(block, 1, 1), max_instructions=0)
    assert outcome.kind == "launch" and outcome.peak < 1 << 30, outcome


@pytest.mark.parametrize("how", ["launch", "session", "record", "sanitized"])
def test_large_frames_hear_ctrl_c(how: str) -> None:
    text = HEADER + SUM.format(room=100_000, divergence="", again="bra AGAIN;")
    device = gpu.EmulatedDevice("sm_100a", sanitize=how == "sanitized")
    kernel = gpu.load(text)["k"]
    out = np.zeros(32, np.uint32)
    arguments = [int(out.ctypes.data), 2]
    with interrupted_after(0.2), pytest.raises(KeyboardInterrupt):
        if how == "session":
            kernel.session(device, grid=1, block=1024, args=arguments).run()
        else:
            getattr(kernel, "record" if how == "record" else "launch")(device, grid=1, block=1024, args=arguments)


def test_a_limit_is_looked_at_between_large_frames() -> None:
    text = SUM.format(room=100_000, divergence="", again="bra AGAIN;")
    with pytest.raises(_core.LaunchError) as caught:
        launch(text, [np.zeros(32, np.uint32), ("u", 2)], block=(256, 1, 1), max_instructions=3000)
    assert caught.value.kind == "livelock"


def test_a_session_goes_back_through_frames() -> None:
    torch = pytest.importorskip("torch")
    text = HEADER + SUM.format(room=1000, divergence="", again="")
    out = torch.zeros(32, dtype=torch.int32)
    session = gpu.load(text)["k"].session(gpu.EmulatedDevice("sm_100a"), grid=1, block=32, args=[out, 300])
    session.run()
    end = session.now
    assert out.tolist() == [300 * 301 // 2] * 32
    for position in (end // 2, end // 3, end - 5):
        session.seek(position)
        session.run()
        assert out.tolist() == [300 * 301 // 2] * 32 and session.now == end
