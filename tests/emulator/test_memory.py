"""Loads, stores, atomics, address spaces and their faults."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from sglab import _core, gpu
from tests.support.emulator.interrupting import interrupted_after
from tests.support.emulator.launching import HEADER, launch

INTEGER = {"u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32}


@pytest.mark.parametrize(
    ("kind", "register"),
    [(k, r) for k in sorted(INTEGER) for r in (16, 32, 64) if INTEGER[k]().itemsize * 8 <= r],
)
def test_loads_extend_to_wider_registers(kind: str, register: int) -> None:
    ptx = f"""
.entry k(.param .u64 a, .param .u64 out) {{
  .reg .b32 %r<2>; .reg .b64 %rd<5>; .reg .b{register} %v; .reg .s{register} %w;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [out];
  mad.wide.u32 %rd1, %r1, {INTEGER[kind]().itemsize}, %rd1; mad.wide.u32 %rd2, %r1, {register // 8}, %rd2;
  ld.global.{kind} %v, [%rd1];
  st.global.b{register} [%rd2], %v;
  ret;
}}"""
    a = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, 32).astype(INTEGER[kind])
    wide = {16: np.int16, 32: np.int32, 64: np.int64}[register]
    out = np.zeros(32, wide)
    launch(ptx, [a, out])
    np.testing.assert_array_equal(out, a.astype(wide))


@pytest.mark.parametrize(
    ("vector", "bits"),
    [("v2", 8), ("v4", 8), ("v2", 16), ("v4", 16), ("v2", 32), ("v4", 32), ("v2", 64), ("v8", 32), ("v4", 64)],
)
def test_vectors_through_every_space(vector: str, bits: int) -> None:
    count = int(vector[1:])
    register = max(bits, 16)
    names = ", ".join(f"%v{k}" for k in range(count))
    back = ", ".join(f"%v{k}" for k in reversed(range(count)))
    stride = count * bits // 8
    through = ["shared"] if stride > 16 else ["shared", "local"]
    hops = "".join(
        f"  st.{s}.{vector}.b{bits} [%{s}], {{{back}}}; ld.{s}.{vector}.b{bits} {{{back}}}, [%{s}];\n"
        for s in (through if stride <= 16 else [])
    )
    ptx = f"""
.entry k(.param .u64 a, .param .u64 out) {{
  .shared .align 32 .b8 smem[4096]; .local .align 16 .b8 stack[32];
  .reg .b32 %r<3>, %shared; .reg .b64 %rd<5>, %local; .reg .b{register} %v<{count}>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [out];
  mad.wide.u32 %rd1, %r1, {stride}, %rd1; mad.wide.u32 %rd2, %r1, {stride}, %rd2;
  mov.u32 %r2, smem; mad.lo.u32 %shared, %r1, {stride}, %r2; mov.u64 %local, stack;
  ld.global.{vector}.b{bits} {{{names}}}, [%rd1];
{hops}
  st.global.{vector}.b{bits} [%rd2], {{{back}}};
  ret;
}}"""
    kind = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    a = np.random.default_rng(2).integers(0, 255, (32, count)).astype(kind)
    out = np.zeros_like(a)
    padded_a, padded_out = aligned(a), aligned(out)
    launch(ptx, [padded_a, padded_out])
    np.testing.assert_array_equal(padded_out, a[:, ::-1])


def aligned(values: np.ndarray, alignment: int = 64) -> np.ndarray:
    """A copy whose first byte is aligned."""
    raw = np.zeros(values.nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    copy = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def test_generic_addresses_reach_every_space() -> None:
    ptx = """
.const .align 4 .b32 table[4] = {11, 22, 33, 44};
.global .align 8 .u64 pointer = generic(cell)+4;
.global .align 4 .b32 cell[2] = {5, 6};
.entry k(.param .u64 out) {
  .shared .align 4 .b8 smem[128]; .local .align 4 .b8 stack[4];
  .reg .pred %p<5>; .reg .b32 %r<12>; .reg .b64 %rd<12>;
  mov.u32 %r1, %tid.x;
  mov.u64 %rd1, smem; cvta.shared.u64 %rd1, %rd1; mad.wide.u32 %rd1, %r1, 4, %rd1;
  mov.u64 %rd2, stack; cvta.local.u64 %rd2, %rd2;
  add.u32 %r2, %r1, 100;
  st.u32 [%rd1], %r2; st.u32 [%rd2], %r1;
  ld.u32 %r3, [%rd1]; ld.u32 %r4, [%rd2];
  mov.u64 %rd3, table; cvta.const.u64 %rd3, %rd3; ld.u32 %r5, [%rd3+8];
  ld.global.u64 %rd4, [pointer]; ld.u32 %r6, [%rd4];
  isspacep.shared %p1, %rd1; isspacep.local %p2, %rd2; isspacep.global %p3, %rd4; isspacep.shared %p4, %rd4;
  selp.b32 %r7, 1, 0, %p1; selp.b32 %r8, 2, 0, %p2; selp.b32 %r9, 4, 0, %p3; selp.b32 %r10, 8, 0, %p4;
  or.b32 %r7, %r7, %r8; or.b32 %r7, %r7, %r9; or.b32 %r7, %r7, %r10;
  add.u32 %r3, %r3, %r4; add.u32 %r5, %r5, %r6;
  ld.param.u64 %rd5, [out]; mad.wide.u32 %rd5, %r1, 12, %rd5;
  st.global.u32 [%rd5], %r3; st.global.u32 [%rd5+4], %r5; st.global.u32 [%rd5+8], %r7;
  ret;
}""".replace(
        ".global .align 8 .u64 pointer = generic(cell)+4;\n.global .align 4 .b32 cell[2] = {5, 6};",
        ".global .align 4 .b32 cell[2] = {5, 6};\n.global .align 8 .u64 pointer = generic(cell)+4;",
    )
    out = np.zeros((32, 3), np.uint32)
    launch(ptx, [out])
    assert out.tolist() == [[100 + 2 * lane, 33 + 6, 7] for lane in range(32)]


def test_variables_of_a_module_keep_their_values_between_launches() -> None:
    kernel = _core.Module(
        HEADER
        + ".global .u32 counter = 5;\n.entry k(.param .u64 out) { .reg .b32 %r<2>; .reg .b64 %rd<2>;"
        + " atom.global.add.u32 %r1, [counter], 1; ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r1; ret; }"
    ).kernel("k")
    out = np.zeros(1, np.uint32)
    for expected in (5, 6, 7):
        launch(kernel, [out], block=(1, 1, 1))
        assert out[0] == expected


ATOMICS = {
    "add.u32": lambda m, v: m + v,
    "add.u64": lambda m, v: m + v,
    "min.s32": lambda m, v: min(_s(m), _s(v)),
    "max.s32": lambda m, v: max(_s(m), _s(v)),
    "min.u32": min,
    "max.u64": max,
    "and.b32": lambda m, v: m & v,
    "or.b64": lambda m, v: m | v,
    "xor.b32": lambda m, v: m ^ v,
    "inc.u32": lambda m, v: 0 if m >= v else m + 1,
    "dec.u32": lambda m, v: v if m == 0 or m > v else m - 1,
    "exch.b32": lambda m, v: v,
}


def _s(v: int) -> int:
    return v - (1 << 32) if v >> 31 else v


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("form", sorted(ATOMICS))
def test_atomics_take_effect_lane_after_lane(form: str, space: str) -> None:
    bits = 64 if form.endswith("64") else 32
    ptx = f"""
.entry k(.param .u64 a, .param .u64 cell, .param .u64 old) {{
  .shared .align 8 .b8 word[8];
  .reg .b32 %r<4>; .reg .b64 %rd<6>; .reg .b{bits} %v, %o, %m; .reg .pred %p;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [cell]; ld.param.u64 %rd3, [old];
  mad.wide.u32 %rd1, %r1, {bits // 8}, %rd1; mad.wide.u32 %rd3, %r1, {bits // 8}, %rd3;
  ld.global.b{bits} %v, [%rd1];
  ld.global.b{bits} %m, [%rd2]; st.shared.b{bits} [word], %m;
  bar.sync 0;
  atom.{space}.{form} %o, [{"word" if space == "shared" else "%rd2"}], %v;
  bar.sync 0;
  ld.shared.b{bits} %m, [word];
  {"st.global.b" + str(bits) + " [%rd2], %m;" if space == "shared" else ""}
  st.global.b{bits} [%rd3], %o;
  ret;
}}"""
    kind = {32: np.uint32, 64: np.uint64}[bits]
    a = np.random.default_rng(3).integers(0, 40 if "c.u32" in form else 1 << bits, 32, dtype=kind)
    memory = 7
    old_expected = []
    for value in a.tolist():
        old_expected.append(memory)
        memory = ATOMICS[form](memory, value) % (1 << bits)
    cell, old = np.array([7], kind), np.zeros(32, kind)
    launch(ptx, [a, cell, old])
    assert (old.tolist(), cell[0]) == (old_expected, memory)


def test_float_and_packed_reductions() -> None:
    ptx = """
.entry k(.param .u64 f, .param .u64 h, .param .u64 d, .param .u64 v) {
  .reg .b32 %r<4>; .reg .b64 %rd<6>; .reg .f32 %f<3>; .reg .f64 %d<2>;
  mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; cvt.f64.f32 %d1, %f1;
  cvt.rn.f16x2.f32 %r2, %f1, %f1;
  ld.param.u64 %rd1, [f]; ld.param.u64 %rd2, [h]; ld.param.u64 %rd3, [d]; ld.param.u64 %rd4, [v];
  red.global.add.f32 [%rd1], %f1;
  red.global.add.noftz.f16x2 [%rd2], %r2;
  red.global.add.f64 [%rd3], %d1;
  red.global.add.v4.f32 [%rd4], {%f1, %f1, %f1, %f1};
  ret;
}"""
    f, h, d, v = np.zeros(1, np.float32), np.zeros(2, np.float16), np.zeros(1), aligned(np.zeros(4, np.float32))
    launch(ptx, [f, h, d, v])
    total = sum(range(32))
    assert (f[0], h.tolist(), d[0], v.tolist()) == (total, [total] * 2, total, [total] * 4)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("ld.global.u32 %r2, [%rd1+2];", "misaligned", "not a multiple of 4"),
        ("ld.global.u32 %r2, [%rd1+-4];", "out_of_bounds", "4 bytes before 'out'"),
        ("ld.global.v4.u32 {%r2, %r2, %r2, %r2}, [%rd1+128];", "out_of_bounds", "past the end of 'out'"),
        ("mov.u32 %r3, 0; ld.shared.u32 %r2, [%r3];", "out_of_bounds", "shared address 0x0"),
        ("mov.u32 %r3, 100000; ld.shared.u32 %r2, [%r3];", "out_of_bounds", "shared memory spans"),
        ("mov.u32 %r3, 0x5000400; ld.shared::cluster.u32 %r2, [%r3];", "out_of_bounds", "shared address 0x5000400"),
        ("ld.local.u32 %r2, [64];", "out_of_bounds", "local address"),
        ("mov.u64 %rd2, 0; ld.u32 %r2, [%rd2];", "out_of_bounds", "global address 0x0, a null pointer: None or 0"),
        ("mov.u64 %rd2, 40; ld.u32 %r2, [%rd2];", "out_of_bounds", "0x28, 40 bytes past a null pointer"),
        (
            "mov.u64 %rd2, 100000; shl.b64 %rd2, %rd2, 45; ld.global.u32 %r2, [%rd2];",
            "out_of_bounds",
            "far from all memory",
        ),
        ("mov.u64 %rd2, -4; st.global.u32 [%rd2], %r2;", "out_of_bounds", "0xfffffffffffffffc"),
        ("mov.u64 %rd2, -4; st.u32 [%rd2], %r2;", "out_of_bounds", "no address space"),
        ("red.global.add.u32 [%rd1+4096], 1;", "out_of_bounds", "past the end"),
        ("trap;", "trap", "executed trap"),
    ],
)
def test_faults_name_their_cause(body: str, kind: str, message: str) -> None:
    ptx = f"""
.entry k(.param .u64 out) {{
  .shared .align 4 .b8 smem[64];
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  mov.u32 %r2, smem;
  ld.param.u64 %rd1, [out];
  {body}
  ret;
}}"""
    with pytest.raises(_core.LaunchError, match=message) as caught:
        launch(ptx, [aligned(np.zeros(32, np.uint32))])
    assert caught.value.kind == kind
    assert caught.value.ptx_line > 0


def test_a_kernel_without_shared_memory_is_said_to_have_none() -> None:
    ptx = """
.entry k(.param .u64 out) {
  .reg .b32 %r<2>;
  mov.u32 %r0, 16;
  ld.shared.u32 %r1, [%r0];
  ret;
}"""
    with pytest.raises(_core.LaunchError, match=r"access to 4 bytes at shared address 0x10; the CTA has no shared"):
        launch(ptx, [aligned(np.zeros(1, np.uint32))])


def test_printf_prints_in_lane_order() -> None:
    ptx = """
.extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 text[] = {108, 97, 110, 101, 32, 37, 100, 58, 32, 37, 46, 50, 102, 32, 37, 115, 10, 0};
.global .align 1 .b8 word[3] = {104, 105, 0};
.visible .entry k() {
  .local .align 8 .b8 depot[24];
  .reg .b32 %r<3>; .reg .b64 %rd<5>; .reg .f64 %d<2>;
  mov.u32 %r1, %tid.x; cvt.rn.f64.u32 %d1, %r1; mul.f64 %d1, %d1, 0.5;
  mov.u64 %rd1, depot; cvta.local.u64 %rd1, %rd1;
  mov.u64 %rd3, word; cvta.global.u64 %rd3, %rd3;
  st.u32 [%rd1], %r1; st.f64 [%rd1+8], %d1; st.u64 [%rd1+16], %rd3;
  mov.u64 %rd2, text; cvta.global.u64 %rd2, %rd2;
  { .param .b64 a; .param .b64 b; .param .b32 v;
    st.param.b64 [a], %rd2; st.param.b64 [b], %rd1; call.uni (v), vprintf, (a, b); ld.param.b32 %r2, [v]; }
  ret;
}"""
    report = launch(ptx, [], block=(3, 1, 1))
    assert report.output == "lane 0: 0.00 hi\nlane 1: 0.50 hi\nlane 2: 1.00 hi\n"


def launched(**machine: Any) -> None:
    launch(".entry spin() { L: bra L; }", [], max_instructions=0, **machine)


def under_control(move: str, **device: Any) -> None:
    """The same launch of sglab.gpu."""
    kernel = gpu.load(".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry spin() { L: bra L; }")["spin"]
    emulated = gpu.EmulatedDevice("sm_100a", **device)
    if move == "session":
        kernel.session(emulated, grid=1, block=32).run()
    else:
        getattr(kernel, move)(emulated, grid=1, block=32)


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(launched, id="launch"),
        pytest.param(partial(launched, scheduler="random"), id="random"),
        pytest.param(partial(under_control, "launch", sanitize=True), id="sanitized"),
        pytest.param(partial(under_control, "launch", sanitize=True, scheduler="adversarial"), id="both"),
        pytest.param(partial(under_control, "record"), id="recorded"),
        pytest.param(partial(under_control, "session", sanitize=True), id="session"),
    ],
)
def test_interrupt_stops_an_endless_launch(endless: Callable[[], None]) -> None:
    with interrupted_after(0.2), pytest.raises(KeyboardInterrupt):
        endless()


SHAPES = {
    "the same for all": "mov.u32 %r2, 3;",
    "side by side": "mov.u32 %r2, %r1;",
    "side by side but for the last": "min.u32 %r2, %r1, 30;",
    "the same but for the last": "setp.eq.u32 %p, %r1, 31; selp.u32 %r2, 5, 3, %p;",
    "backwards": "sub.u32 %r2, 31, %r1;",
}
PICKED = {
    "the same for all": [3] * 32,
    "side by side": list(range(32)),
    "side by side but for the last": [*range(31), 30],
    "the same but for the last": [3] * 31 + [5],
    "backwards": list(range(31, -1, -1)),
}
"""Which element each lane takes."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("active", [32, 31, 1])
@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize("kind", ["s8", "u16", "s32", "u64"])
def test_loads_of_every_shape(shape: str, active: int, space: str, kind: str) -> None:
    """Whole warps with one address, or with one beside the other, take shorter ways; lanes that are not active keep
    what they had."""
    size = int(kind[1:]) // 8
    shared = space == "shared"
    ptx = f"""
.entry k(.param .u64 a, .param .u64 out) {{
  .shared .align 16 .b8 smem[{32 * size}];
  .reg .b32 %r<6>; .reg .b64 %rd<5>, %v; .reg .b{max(16, 8 * size)} %w; .reg .pred %p, %q;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [out];
  mad.wide.u32 %rd2, %r1, 8, %rd2; mov.u32 %r3, smem;
  mad.wide.u32 %rd3, %r1, {size}, %rd1; ld.global.b{8 * size} %w, [%rd3];
  mad.lo.u32 %r4, %r1, {size}, %r3; st.shared.b{8 * size} [%r4], %w; bar.sync 0;
  {SHAPES[shape]}
  mad.wide.u32 %rd1, %r2, {size}, %rd1; mad.lo.u32 %r3, %r2, {size}, %r3;
  setp.ge.u32 %q, %r1, {active}; mov.u64 %v, 77;
  @%q bra done;
  ld{"." + space if space else ""}.{kind} %v, [{"%r3" if shared else "%rd1"}];
done:
  st.global.u64 [%rd2], %v; ret;
}}"""
    signed = kind[0] == "s"
    a = np.random.default_rng(3).integers(-100 if signed else 0, 100, 32).astype(f"{'i' if signed else 'u'}{size}")
    out = np.zeros(32, np.int64)
    launch(ptx, [a, out])
    picked = a[PICKED[shape]].astype(np.int64)
    np.testing.assert_array_equal(out, np.where(np.arange(32) < active, picked, 77))


@pytest.mark.parametrize("shape", ["the same for all", "side by side"])
@pytest.mark.parametrize("kind", ["ld", "st"])
@pytest.mark.parametrize(
    ("offset", "fault"),
    [(0, ""), (-4, "out_of_bounds"), (128, "out_of_bounds"), (2, "misaligned"), (1 << 40, "out_of_bounds")],
)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_shapes_at_the_edges_of_memory(shape: str, kind: str, offset: int, fault: str, space: str) -> None:
    shared = space == "shared"
    if shared and offset == 1 << 40:
        offset = 0x7FFFFF80  # 32-bit addresses wrap
    same = shape == "the same for all"
    place = "[%r2]" if shared else "[%rd1]"
    access = f"ld.{space}.u32 %r5, {place};" if kind == "ld" else f"st.{space}.u32 {place}, %r1;"
    ptx = f"""
.entry k(.param .u64 a) {{
  .shared .align 16 .b8 smem[128];
  .reg .b32 %r<6>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; mov.u32 %r2, smem;
  {"mov.u32 %r3, 0;" if same else "mov.u32 %r3, %r1;"}
  mad.wide.u32 %rd1, %r3, 4, %rd1; mad.lo.u32 %r2, %r3, 4, %r2;
  add.u64 %rd1, %rd1, {offset}; add.u32 %r2, %r2, {offset & 0xFFFFFFFF if shared else 0};
  {access} ret;
}}"""
    a = aligned(np.zeros(32, np.uint32))
    if not fault:
        launch(ptx, [a])
        return
    with pytest.raises(_core.LaunchError) as caught:
        launch(ptx, [a])
    assert caught.value.kind == fault
