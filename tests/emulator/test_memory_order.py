"""What CTAs on several host threads see of each other: the litmus tests of the PTX memory model's strong operations."""

import numpy as np
import pytest

from tests.support.emulator.launching import launch

ROUNDS = 40
PROLOGUE = """.visible .entry k(.param .u64 cells, .param .u64 seen) {
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %mine, %other, %meet, %out, %d;
  ld.param.u64 %d, [cells]; ld.param.u64 %out, [seen];
  mov.u32 %r0, %ctaid.x; xor.b32 %r1, %r0, 1;
  mad.wide.u32 %mine, %r0, 256, %d; mad.wide.u32 %other, %r1, 256, %d; add.u64 %meet, %d, 512;
  mul.lo.u32 %r2, %r0, ROUNDS; mad.wide.u32 %out, %r2, 4, %out;
  mov.u32 %r3, 1;
LOOP:
"""
EPILOGUE = """
  st.global.u32 [%out], %r4; add.u64 %out, %out, 4;
  shl.b32 %r5, %r3, 1; red.release.gpu.global.add.u32 [%meet], 1;
WAIT: ld.acquire.gpu.global.u32 %r6, [%meet]; setp.lt.u32 %p, %r6, %r5; @%p bra WAIT;
  add.u32 %r3, %r3, 1; setp.le.u32 %p, %r3, ROUNDS; @%p bra LOOP;
  ret; }
"""


def run(body: str, threads: int) -> np.ndarray:
    """What each of two CTAs of one thread saw in each round, in %r4; %r3 counts the rounds from 1."""
    cells, seen = np.zeros(256, np.uint32), np.zeros((2, ROUNDS), np.uint32)
    text = (PROLOGUE + body + EPILOGUE).replace("ROUNDS", str(ROUNDS))
    launch(text, [cells, seen], grid=(2, 1, 1), block=(1, 1, 1), threads=threads, max_instructions=0)
    return seen


ROUND = np.arange(1, ROUNDS + 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fence", ["fence.sc.gpu", "membar.gl", "membar.sys"])
def test_of_two_stores_before_fences_one_is_seen(fence: str, threads: int) -> None:
    store, load = "st.relaxed.gpu.global.u32 [%mine], %r3;", "ld.relaxed.gpu.global.u32 %r4, [%other];"
    seen = run(f"{store} {fence}; {load}", threads)
    assert (seen <= ROUND).all()
    assert (seen == ROUND).any(axis=0).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("publish", "poll"),
    [
        ("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"),
        ("fence.acq_rel.gpu; st.relaxed.gpu.global.u32", "ld.relaxed.gpu.global.u32"),
        ("membar.gl; st.volatile.global.u32", "ld.volatile.global.u32"),
    ],
)
def test_what_was_written_before_a_flag_is_seen_after_it(publish: str, poll: str, threads: int) -> None:
    body = f"""
  shl.b32 %r5, %r3, 4; st.global.u32 [%mine+128], %r5;
  {publish} [%mine], %r3;
POLL: {poll} %r6, [%other]; setp.lt.u32 %p, %r6, %r3; @%p bra POLL;
  fence.acq_rel.gpu;
  ld.global.u32 %r4, [%other+128];
"""
    assert (run(body, threads) == 16 * ROUND).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("kind", "register", "written", "expected"),
    [
        ("u8", "h", 0x1F0, 0xF0),
        ("s8", "h", 0xF0, 0xFFF0),
        ("u16", "r", 0x12345, 0x2345),
        ("s16", "r", 0x8001, 0xFFFF8001),
    ],
)
@pytest.mark.parametrize("strength", ["relaxed.gpu", "volatile"])
def test_strong_accesses_extend_and_cut_as_weak_ones(
    kind: str, register: str, written: int, expected: int, strength: str, threads: int
) -> None:
    source, target = ("%h1", "%h2") if register == "h" else ("%r7", "%r8")
    before = f"mov.u16 %h1, {written & 0xFFFF};" if register == "h" else f"mov.u32 %r7, {written};"
    after = "cvt.u32.u16 %r4, %h2;" if register == "h" else "mov.u32 %r4, %r8;"
    body = f""".reg .b16 %h<3>; {before}
  st.{strength}.global.{kind} [%mine], {source}; ld.{strength}.global.{kind} {target}, [%mine]; {after}
"""
    assert (run(body, threads) == expected).all()
