"""Special registers are read at any width that an instruction has."""

import numpy as np
import pytest

from tests.support.emulator.launching import launch

LANES = np.arange(64)
VALUES = {
    "%tid.x": LANES,
    "%laneid": LANES % 32,
    "%ntid.x": 0 * LANES + 64,
    "%lanemask_lt": (1 << LANES % 32) - 1,
    "%warpid": LANES // 32,
}


@pytest.mark.parametrize("register", VALUES)
def test_16_bits_are_the_low_half(register: str) -> None:
    ptx = f"""
.visible .entry k(.param .u64 out) {{
  .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 16, %rd1;
  mov.u16 %h1, 0x5555;
  mov.u16 %h2, {register};
  mov.u16 %h3, 0x3333;
  add.u16 %h4, {register}, 1;
  setp.gt.u32 %p1, %r1, 40;
  mov.u16 %h5, 0x1111;
  @%p1 mov.u16 %h5, {register};
  @%p1 add.u16 %h6, {register}, %h1;
  mov.u32 %r2, {register};
  st.global.u16 [%rd1], %h1; st.global.u16 [%rd1+2], %h2; st.global.u16 [%rd1+4], %h3;
  st.global.u16 [%rd1+6], %h4; st.global.u16 [%rd1+8], %h5; st.global.u32 [%rd1+12], %r2;
  ret;
}}"""
    out = np.zeros((64, 8), np.uint16)
    launch(ptx, [out], block=(64, 1, 1))
    value = VALUES[register]
    assert out[:, 0].tolist() == [0x5555] * 64 and out[:, 2].tolist() == [0x3333] * 64
    assert out[:, 1].tolist() == (value & 0xFFFF).tolist()
    assert out[:, 3].tolist() == (value + 1 & 0xFFFF).tolist()
    assert out[:, 4].tolist() == np.where(LANES > 40, value & 0xFFFF, 0x1111).tolist()
    assert out.view(np.uint32)[:, 3].tolist() == (value & 0xFFFFFFFF).tolist()


def test_diverged_lanes_keep_their_neighbours_registers() -> None:
    ptx = """
.visible .entry k(.param .u64 out) {
  .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<3>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1;
  mov.u16 %h1, 1; mov.u16 %h2, 2;
  and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;
  add.u16 %h1, %laneid, %h2;
  bra M;
L: add.u16 %h2, %h1, %ntid.x;
M: st.global.u16 [%rd1], %h1; st.global.u16 [%rd1+2], %h2;
  ret;
}"""
    out = np.zeros((32, 2), np.uint16)
    launch(ptx, [out])
    assert out.tolist() == [[lane + 2, 2] if lane % 2 else [1, 33] for lane in range(32)]
