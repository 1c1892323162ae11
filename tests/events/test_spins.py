"""Loops that wait for a word of global memory: found by their tests, not mistaken for loops that read it."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from sglab.events.spins import spins
from sglab.widgets import WarpRoles
from tests.support.launches.recorded import mla_sm90, mla_sm100
from tests.support.timing import events_of, kernel, record

FLAG = """
  mov.u32 %cta, %ctaid.x; setp.ne.u32 %p, %cta, 1; @%p bra wait;
  mov.u32 %n, 0;
work:
  fma.rn.f32 %f, %f, %f, %f; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 300; @%q bra work;
  mov.u32 %one, 1; st.release.gpu.global.u32 [%out], %one;
  bra end;
wait:
  TEST setp.eq.u32 %q, %got, 0; @%q bra wait;
end:
"""
REGISTERS = ".reg .f32 %f; .reg .b32 %cta, %n, %one, %got; .reg .pred %q;"


@pytest.mark.parametrize(
    "test",
    [
        "ld.acquire.gpu.global.u32 %got, [%out];",
        "ld.volatile.global.u32 %got, [%out];",
        "atom.acquire.gpu.global.cas.b32 %got, [%out], 0, 0;",
    ],
)
def test_a_loop_that_waits_for_a_flag_is_found_with_its_warp_and_its_rounds(test: str) -> None:
    log = record(kernel(FLAG.replace("TEST", test), REGISTERS), grid=2)
    (found,) = spins(log)
    tests = events_of(log, test.split(" ")[0])
    assert (found.cta, found.warp, found.times) == (0, 0, len(tests))
    assert log.code.text(found.line).strip().startswith(test.split(" ")[0])
    told = WarpRoles(log, arch="sm_90").launch["spin"]
    assert told.startswith(f"CTA 0 warp 0 tests a word of global memory at PTX line {found.line} until it is written, ")
    assert f"{found.times:,} times: as often as the emulator happened to." in told


def test_a_loop_that_reads_one_word_again_and_again_does_not_wait_for_it() -> None:
    body = """
  mov.u32 %n, 0;
again:
  ld.global.u32 %got, [%out]; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 100; @%q bra again;
"""
    log = record(kernel(body, REGISTERS))
    assert spins(log) == []
    assert WarpRoles(log, arch="sm_90").launch["spin"] == ""


def test_flags_that_are_looked_at_rarely_are_no_loop() -> None:
    work = "fma.rn.f32 %f, %f, %f, %f;" * 30
    body = f"""
  mov.u32 %n, 0;
again:
  ld.acquire.gpu.global.u32 %got, [%out]; {work}
  add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 100; @%q bra again;
"""
    assert spins(record(kernel(body, REGISTERS))) == []
    assert spins(mla_sm90()) == spins(mla_sm100()) == []
