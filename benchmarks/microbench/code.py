"""PTX for microbenchmarks of instruction fetch and branches.

Straight-line code of growing size, run several times by one warp or by one warp per sub-partition: its first trip
fetches the code, the next ones find what the instruction caches hold. Branches: forward over code that cannot be
predicated, and out of a loop.
"""

from __future__ import annotations

from microbench.chains import HEADER

SIZES = (64, 256, 512, 1024, 2048, 4096, 8192, 16_384)
TRIPS = 4
BRANCHES = 32


def straight(size: int) -> str:
    """An entry (out: u64 cycles by trip) of `size` fused multiply-adds in a row, in four chains."""
    body = "\n".join(f"  fma.rn.f32 %f{i % 4}, %f{i % 4}, %a, %b;" for i in range(size))
    return f"""
.visible .entry straight_{size}(.param .u64 out)
{{
  .reg .pred %p; .reg .b32 %thread, %trip; .reg .b64 %out, %start, %end; .reg .f32 %f<4>, %a, %b;
  ld.param.u64 %out, [out]; mov.u32 %thread, %tid.x; mov.u32 %trip, 0;
  cvt.rn.f32.u32 %a, %thread; add.f32 %b, %a, %a;
  mov.f32 %f0, %a; mov.f32 %f1, %b; mul.f32 %f2, %a, %b; add.f32 %f3, %a, %b;
  bar.sync 0;
again:
  .pragma "nounroll";
  mov.u64 %start, %clock64;
{body}
  mov.u64 %end, %clock64;
  sub.u64 %end, %end, %start;
  setp.eq.u32 %p, %thread, 0;
  @%p st.global.u64 [%out], %end;
  add.u64 %out, %out, 8;
  add.u32 %trip, %trip, 1;
  setp.lt.u32 %p, %trip, {TRIPS};
  @%p bra again;
  add.f32 %f0, %f0, %f1; add.f32 %f2, %f2, %f3; add.f32 %f0, %f0, %f2;
  setp.eq.f32 %p, %f0, 0f7F800000;
  @%p st.global.f32 [%out+64], %f0;
  ret;
}}
"""


def branches(taken: bool) -> str:
    """An entry (out: u64 cycles, trips, one: 1) of a loop that passes {BRANCHES} branches, all taken or none."""
    block = """  setp.{compare}.u32 %q, %trips, {number};
  @%q bra over{i};
{skipped}
over{i}:
  add.u32 %sum, %sum, %one;"""
    inside = "  setp.{compare}.u32 %q, %trips, {number};\n  @%q bra left;\n  add.u32 %sum, %sum, %one;"
    skipped = "  st.volatile.shared.u32 [%place], %sum;\n" * 16  # too many to predicate
    text, compare = (block, "ne") if taken else (inside, "eq")
    body = "\n".join(text.format(i=i, compare=compare, number=10**6 + i, skipped=skipped) for i in range(BRANCHES))
    return f"""
.visible .entry branches_{"taken" if taken else "passed"}(.param .u64 out, .param .u32 trips, .param .u32 one)
{{
  .reg .pred %p, %q; .reg .b32 %trips, %one, %sum, %place; .reg .b64 %out, %start, %end; .shared .b32 memory[2];
  ld.param.u64 %out, [out]; ld.param.u32 %trips, [trips]; ld.param.u32 %one, [one];
  mov.u32 %place, memory; mov.u32 %sum, 0;
  mov.u64 %start, %clock64;
again:
  .pragma "nounroll";
{body}
  sub.u32 %trips, %trips, 1;
  setp.ne.u32 %p, %trips, 0;
  @%p bra again;
left:
  mov.u64 %end, %clock64;
  sub.u64 %end, %end, %start;
  st.global.u64 [%out], %end;
  st.global.u32 [%out+8], %sum;
  ret;
}}
"""


def module() -> str:
    return HEADER + "".join([*map(straight, SIZES), *map(branches, (True, False))])
