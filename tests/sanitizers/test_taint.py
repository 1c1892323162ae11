"""Halves that were never written: compilers pack a value with nothing and take the value out again."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu

# %none, %nones and %nonel are never written; %one, %ones, %onel are.
KERNEL = """
.version 8.8
.target sm_90a
.address_size 64
.entry halves(.param .u64 out) {{
  .shared .align 8 .b8 words[8];
  .reg .b16 %h<8>, %nones, %ones; .reg .b32 %r<8>, %none, %one; .reg .f32 %f<4>;
  .reg .b64 %rd<8>, %nonel, %out;
  ld.param.u64 %out, [out];
  mov.u32 %one, 7;
  mov.u16 %ones, 7;
  mov.b64 %rd1, {{%one, %none}};
  mov.b64 %rd2, {{%none, %one}};
  mov.b32 %r1, {{%ones, %nones}};
  mov.b32 %r2, {{%nones, %ones}};
{body}
  ret;
}}
"""

# What is done, with the written half: no finding; with the other one: a finding. {w} is %rd1 or %rd2, whose lower
# or upper half was written, {h} the same in 32 bits.
LOWER = {
    "cvt": "cvt.u32.u64 %r3, {w}; st.global.u32 [%out], %r3;",
    "cvt to a wide register": "cvt.u32.u64 %rd3, {w}; st.global.u64 [%out], %rd3;",
    "cvt back and forth": "cvt.s32.s64 %r3, {w}; cvt.s64.s32 %rd3, %r3; st.global.u64 [%out], %rd3;",
    "cvt of a wide register": "cvt.s64.s32 %rd3, {w}; st.global.u64 [%out], %rd3;",
    "cvt to f32": "cvt.rn.f32.u32 %f1, {w}; st.global.f32 [%out], %f1;",
    "cvt to 16 bits": "cvt.u16.u32 %h1, {h}; st.global.u16 [%out], %h1;",
    "sink": "mov.b64 {{%r3, _}}, {w}; st.global.u32 [%out], %r3;",
    "unpack": "mov.b64 {{%r3, %r4}}, {w}; st.global.u32 [%out], %r3;",
    "narrow store": "st.global.u32 [%out], {w};",
    "vector of narrow stores": "st.global.v2.u32 [%out], {{{w}, {w}}};",
    "narrow store with a policy": "st.global.L2::cache_hint.v2.u16 [%out], {{{h}, {h}}}, %rd1;",
    "mask": "and.b64 %rd3, {w}, 4294967295; st.global.u64 [%out], %rd3;",
    "mask on the left": "and.b32 %r3, 65535, {h}; st.global.u32 [%out], %r3;",
    "shift left": "shl.b64 %rd3, {w}, 32; st.global.u64 [%out], %rd3;",
    "sum": "add.s64 %rd3, {w}, 1; cvt.u32.u64 %r3, %rd3; st.global.u32 [%out], %r3;",
    "product": "mad.lo.s64 %rd3, {w}, {w}, {w}; cvt.u32.u64 %r3, %rd3; st.global.u32 [%out], %r3;",
    "permute": "prmt.b32 %r3, {h}, {h}, 0x5410; st.global.u32 [%out], %r3;",
    "in place": "and.b64 {w}, {w}, 4294967295; st.global.u64 [%out], {w};",
}
UPPER = {
    "shift right": "shr.u64 %rd3, {w}, 32; st.global.u64 [%out], %rd3;",
    "arithmetic shift right": "shr.s64 %rd3, {w}, 40; st.global.u64 [%out], %rd3;",
    "permute": "prmt.b32 %r3, {h}, 0, 0x4432; st.global.u32 [%out], %r3;",
    "unpack": "mov.b64 {{%r3, %r4}}, {w}; st.global.u32 [%out], %r4;",
    "mask": "and.b64 %rd3, {w}, -4294967296; st.global.u64 [%out], %rd3;",
}
CASES = [("lower", name, body) for name, body in LOWER.items()] + [
    ("upper", name, body) for name, body in UPPER.items()
]


def kinds(body: str) -> list[str]:
    device = gpu.EmulatedDevice("sm_90a", sanitize={"memory"})
    kernel = gpu.Module(KERNEL.format(body=body), "halves.ptx")["halves"]
    findings = kernel.launch(device, grid=1, block=32, args=[torch.zeros(16, dtype=torch.int32)]).findings
    return [finding.kind for finding in findings]


@pytest.mark.parametrize(("half", "name", "body"), CASES, ids=[f"{name} {half}" for half, name, _ in CASES])
def test_only_the_half_that_is_taken_counts(half: str, name: str, body: str) -> None:
    lower, upper = {"w": "%rd1", "h": "%r1"}, {"w": "%rd2", "h": "%r2"}
    written, other = (lower, upper) if half == "lower" else (upper, lower)
    assert kinds(body.format(**written)) == []
    assert kinds(body.format(**other)) == ["uninitialised_register"]


@pytest.mark.parametrize(
    "body",
    [
        "cvt.sat.u32.s64 %r3, %rd1; st.global.u32 [%out], %r3;",
        "cvt.rn.f32.u64 %f1, %rd1; st.global.f32 [%out], %f1;",
        "shl.b64 %rd3, %rd2, 8; st.global.u64 [%out], %rd3;",
        "shr.u64 %rd3, %rd1, 31; cvt.u32.u64 %r3, %rd3; st.global.u32 [%out], %r3;",
        "shr.s64 %rd3, %rd1, 8; shr.u64 %rd3, %rd3, 63; st.global.u64 [%out], %rd3;",
        "add.s64 %rd3, %rd2, 1; shr.u64 %rd3, %rd3, 32; st.global.u64 [%out], %rd3;",
        "mul.hi.u64 %rd3, %rd1, 2; cvt.u32.u64 %r3, %rd3; st.global.u32 [%out], %r3;",
        "and.b64 %rd3, %rd1, 0x100000000; st.global.u64 [%out], %rd3;",
        "setp.eq.s64 %p1, %rd1, 0; selp.b32 %r3, 1, 2, %p1; st.global.u32 [%out], %r3;",
        "st.global.L2::cache_hint.v2.u32 [%out], {%one, %none}, %rd3;",
    ],
)
def test_a_half_that_matters_is_found(body: str) -> None:
    assert kinds("  .reg .pred %p1;\n" + body) == ["uninitialised_register"]


# {b0, b1, b2, b3} of which only b1 was written, in %r3; what is done with it, with byte {n} (finding unless 1).
BYTES = {
    "store": "shr.u32 %r4, %r3, {bits}; st.global.u8 [%out], %r4;",
    "arithmetic shift": "shl.b32 %r4, %r3, {left}; shr.s32 %r4, %r4, 24; st.global.u32 [%out], %r4;",
    "permute": "prmt.b32 %r4, %r3, 0, {selector}; st.global.u32 [%out], %r4;",
    "mask": "and.b32 %r4, %r3, {mask}; st.global.u32 [%out], %r4;",
    "lop3": "lop3.b32 %r4, %r3, {mask}, 0, 0xc0; st.global.u32 [%out], %r4;",
    "unpack": "mov.b32 {{%b4, %b5, %b6, %b7}}, %r3; cvt.u32.u8 %r4, %b{at}; st.global.u32 [%out], %r4;",
    "unpack twice": "mov.b32 {{%h1, %h2}}, %r3; mov.b16 {{%b4, %b5}}, %h1; mov.b16 {{%b6, %b7}}, %h2; "
    "cvt.u32.u8 %r4, %b{at}; st.global.u32 [%out], %r4;",
    "memory": "st.shared.u32 [words], %r3; ld.shared.u8 %r4, [words+{n}]; st.global.u32 [%out], %r4;",
    "memory as a whole": "st.shared.u32 [words], %r3; ld.shared.u32 %r4, [words]; shr.u32 %r4, %r4, {bits}; "
    "st.global.u8 [%out], %r4;",
    "vector of bytes": "st.shared.u32 [words], %r3; ld.shared.v4.u8 {{%h4, %h5, %h6, %h7}}, [words]; "
    "st.global.u8 [%out], %h{at};",
    "shuffle": "shfl.sync.idx.b32 %r4, %r3, 0, 31, -1; shr.u32 %r4, %r4, {bits}; st.global.u8 [%out], %r4;",
}


@pytest.mark.parametrize("byte", range(4))
@pytest.mark.parametrize("body", BYTES.values(), ids=BYTES)
def test_a_byte_counts_alone(body: str, byte: int) -> None:
    pack = "  .reg .b8 %b<8>; cvt.u8.u32 %b1, %one; mov.b32 %r3, {%b0, %b1, %b2, %b3};\n"
    numbers = {"n": byte, "bits": 8 * byte, "at": 4 + byte, "left": 24 - 8 * byte}
    found = kinds(pack + body.format(**numbers, selector=0x4440 + byte, mask=0xFF << 8 * byte))
    assert len(found) == (byte != 1)


def test_a_byte_alone_is_stored() -> None:
    """As CUTLASS's FP4 kernels write two values: a byte is packed with three that hold nothing."""
    pack = "  .reg .b8 %b<4>; cvt.rn.satfinite.e2m1x2.f32 %b0, 0f3F800000, 0f40000000; "
    pack += "mov.b32 %r3, {%b0, %b1, %b2, %b3};\n"
    assert kinds(pack + "st.global.u8 [%out], %r3;") == []
    assert kinds(pack + "st.global.u16 [%out], %r3;") == ["uninitialised_register"]


def test_a_sum_of_halves_has_no_bytes() -> None:
    pack = "  .reg .b8 %b<4>; cvt.u8.u32 %b0, %one; cvt.u8.u32 %b2, %one; mov.b32 %r3, {%b0, %b1, %b2, %b3};\n"
    assert kinds(pack + "add.u32 %r4, %r3, %r3; st.global.u8 [%out], %r4;") == []
    assert kinds(pack + "add.f16x2 %r4, %r3, %r3; st.global.u8 [%out], %r4;") == ["uninitialised_register"]


@pytest.mark.parametrize("body", ["f16x2", "bf16x2"])
def test_a_pair_is_of_its_first_operand_above_its_second(body: str) -> None:
    convert = f"cvt.rn.{body}.f32 %r3, %none, %one; mov.b32 {{%h1, %h2}}, %r3; st.global.u16 [%out], "
    assert kinds(convert + "%h1;") == []
    assert kinds(convert + "%h2;") == ["uninitialised_register"]


@pytest.mark.parametrize(("stored", "found"), [("%rd1", []), ("%rd2", ["uninitialised_read"])])
def test_a_narrow_store_hands_on_what_it_stores(stored: str, found: list[str]) -> None:
    body = "st.shared.u32 [words], {}; ld.shared.u32 %r3, [words]; st.global.u32 [%out], %r3;"
    assert kinds(body.format(stored)) == found


def test_memory_keeps_what_each_half_was() -> None:
    body = "st.shared.u64 [words], %rd1; ld.shared.u32 %r3, [words+{}]; st.global.u32 [%out], %r3;"
    assert kinds(body.format(0)) == []
    assert kinds(body.format(4)) == ["uninitialised_read"]


def test_a_narrow_load_leaves_nothing_above_it() -> None:
    load = "ld.shared.{type} %rd3, [words]; shr.u64 %rd3, %rd3, 32; st.global.u64 [%out], %rd3;"
    assert kinds(load.format(type="u32")) == []
    assert kinds(load.format(type="s32")) == ["uninitialised_read"]


# One operand decides alone where {p} holds: in all lanes, or in all but one, and then there is a finding.
DECIDED = {
    "or.pred": "or.pred %p3, %p1, {p}; selp.u32 %r3, 1, 0, %p3; st.global.u32 [%out], %r3;",
    "or.pred on the left": "or.pred %p3, {p}, %p1; selp.u32 %r3, 1, 0, %p3; st.global.u32 [%out], %r3;",
    "or.pred in place": "or.pred {p}, {p}, %p1; selp.u32 %r3, 1, 0, {p}; st.global.u32 [%out], %r3;",
    "and.pred": "not.pred %p4, {p}; and.pred %p3, %p1, %p4; @%p3 bra $end;",
    "and.pred of the unknown in place": "not.pred %p4, {p}; and.pred %p1, %p1, %p4; @%p1 bra $end;",
    "and": "selp.b32 %r3, 0, 1, {p}; and.b32 %r4, %none, %r3; st.global.u32 [%out], %r4;",
    "and in place": "selp.b32 %r3, 0, 1, {p}; and.b32 %r3, %r3, %none; st.global.u32 [%out], %r3;",
    "or": "selp.b32 %r3, -1, 1, {p}; or.b32 %r4, %r3, %none; st.global.u32 [%out], %r4;",
    "or of 16 bits": "selp.b16 %h1, -1, 1, {p}; or.b16 %h2, %nones, %h1; st.global.u16 [%out], %h2;",
    "or of a half": "selp.b64 %rd3, -4294967296, 1, {p}; or.b64 %rd4, %rd1, %rd3; st.global.u64 [%out], %rd4;",
    "or of a constant": "or.b32 %r3, %none, -1; @!{p} add.u32 %r3, %r3, %none; st.global.u32 [%out], %r3;",
    # Comparisons that are combined with a predicate, which is known, or is what was compared is.
    "setp.or": "setp.ne.or.s32 %p3, %none, 0, {p}; @%p3 bra $end;",
    "setp.and": "setp.ne.and.s32 %p3, %none, 0, !{p}; @%p3 bra $end;",
    "setp.or in place": "setp.ne.or.s32 {p}, %none, 0, {p}; @{p} bra $end;",
    "setp.or of the unknown": "selp.b32 %r3, 0, 1, {p}; setp.eq.or.s32 %p3, %r3, 0, %p1; @%p3 bra $end;",
    "setp.and of the unknown": "selp.b32 %r3, 0, 1, {p}; setp.ne.and.s32 %p1, %r3, 0, %p1; @%p1 bra $end;",
    "setp.or of f64": "selp.f64 %d1, 0d0000000000000000, 0d3ff0000000000000, {p}; "
    "setp.eq.or.f64 %p3, %d1, 0d0000000000000000, %p1; @%p3 bra $end;",
    "setp.and, its second": "selp.b32 %r3, 0, 1, {p}; setp.eq.and.s32 %p4|%p3, %r3, 0, %p1; @%p3 bra $end;",
    "setp.or, guarded": "selp.b32 %r3, 0, 1, {p}; mov.pred %p3, {p}; "
    "@{p} setp.eq.or.s32 %p3, %r3, 0, %p1; @!{p} mov.pred %p3, %p1; @%p3 bra $end;",
    "setp.or of halves": "mov.b32 %r3, 0; @!{p} mov.b32 %r3, %none; "
    "setp.eq.or.f16x2 %p3|%p4, %none, %r3, {p}; @%p3 bra $end;",
    "set.and": "set.ne.and.u32.s32 %r3, %none, 0, !{p}; st.global.u32 [%out], %r3;",
    "set.or": "set.ne.or.f32.s32 %f1, %none, 0, {p}; st.global.f32 [%out], %f1;",
    # lop3, by its table: a & b & c, a | b | c, (a & b) | c, a ? b : c, and c alone.
    "lop3 and": "selp.b32 %r3, 0, 1, {p}; lop3.b32 %r4, %none, %r3, %r5, 0x80; st.global.u32 [%out], %r4;",
    "lop3 or": "selp.b32 %r3, -1, 1, {p}; lop3.b32 %r4, %r5, %none, %r3, 0xfe; st.global.u32 [%out], %r4;",
    "lop3 and, or": "selp.b32 %r3, -1, 1, {p}; lop3.b32 %r4, %none, %r5, %r3, 0xea; st.global.u32 [%out], %r4;",
    "lop3 chooses": "selp.b32 %r3, 0, 1, {p}; lop3.b32 %r4, %r3, %none, %r5, 0xca; st.global.u32 [%out], %r4;",
    "lop3 of one": "mov.b32 %r3, %r5; @!{p} mov.b32 %r3, %none; "
    "lop3.b32 %r4, %none, %none, %r3, 0xaa; st.global.u32 [%out], %r4;",
    "lop3 in place": "selp.b32 %r3, 0, 1, {p}; lop3.b32 %r3, %none, %r3, %r5, 0x80; st.global.u32 [%out], %r3;",
    "lop3 of a half": "selp.b32 %r3, 0xffff, -1, {p}; lop3.b32 %r4, %r1, %r3, -1, 0x80; "
    "mov.b32 {{%h1, %h2}}, %r4; st.global.u16 [%out], %h2;",
    "lop3.or": "lop3.or.b32 %r4|%p3, %none, %r5, %r5, 0x80, {p}; @%p3 bra $end;",
    "lop3.and": "lop3.and.b32 %r4|%p3, %none, %r5, %r5, 0x80, !{p}; @%p3 bra $end;",
    "lop3.and by its value": "selp.b32 %r3, 0, 1, {p}; lop3.and.b32 %r4|%p3, %r3, %r3, %r3, 0x80, %p1; @%p3 bra $end;",
    "lop3.or by a known bit": "mov.b32 %r3, {{%ones, %nones}}; @!{p} mov.b32 %r3, %none; "
    "lop3.or.b32 %r4|%p3, %r3, %r3, %r3, 0x80, %p1; @%p3 bra $end;",
}


@pytest.mark.parametrize("body", DECIDED.values(), ids=DECIDED)
def test_what_the_other_operand_decides_alone_does_not_count(body: str) -> None:
    compares = """  .reg .pred %p<6>; .reg .f64 %d<2>; mov.u32 %r5, %laneid;
  setp.ne.s32 %p1, %none, 0; setp.lt.u32 %p2, %r5, 32; setp.lt.u32 %p5, %r5, 31;
"""
    assert kinds(compares + body.format(p="%p2") + "\n$end:") == []
    assert kinds(compares + body.format(p="%p5") + "\n$end:") == ["uninitialised_register"]


@pytest.mark.parametrize("operation", ["add.u32", "add.s32", "min.u32", "max.s32", "and.b32", "or.b32", "xor.b32"])
def test_a_reduction_whose_mask_is_where_its_result_goes(operation: str) -> None:
    """Only the half of the warp that has lane 31 depends on it, although both get the same number."""
    body = f"""  .reg .pred %p<6>; mov.u32 %r5, %laneid;
  setp.lt.u32 %p1, %r5, 16; selp.b32 %r6, 0xffff, 0xffff0000, %p1; setp.eq.u32 %p2, %r5, 31; mov.u32 %r3, 0;
  @%p2 mov.u32 %r3, %none;
  redux.sync.{operation} %r6, %r3, %r6;
  setp.eq.u32 %p3, %r5, {{lane}};
  @%p3 st.global.u32 [%out], %r6;
"""
    assert kinds(body.format(lane=0)) == []
    assert kinds(body.format(lane=16)) == ["uninitialised_register"]


@pytest.mark.parametrize("operation", ["and", "or", "xor"])
@pytest.mark.parametrize("taken", ["%h1", "%h2"])
def test_a_bitwise_reduction_keeps_halves_apart(operation: str, taken: str) -> None:
    body = f"""  mov.u32 %r5, -1; redux.sync.{operation}.b32 %r6, {{word}}, %r5;
  mov.b32 {{{{%h1, %h2}}}}, %r6; st.global.u16 [%out], {taken};
"""
    lower = taken == "%h1"
    assert kinds(body.format(word="%r1")) == ([] if lower else ["uninitialised_register"])
    assert kinds(body.format(word="%r2")) == (["uninitialised_register"] if lower else [])


@pytest.mark.parametrize("operation", ["add.u32", "min.s32", "max.u32"])
def test_other_reductions_mix_them(operation: str) -> None:
    body = f"""  mov.u32 %r5, -1; redux.sync.{operation} %r6, %r1, %r5;
  mov.b32 {{{{%h1, %h2}}}}, %r6; st.global.u16 [%out], %h1;
"""
    assert kinds(body.format()) == ["uninitialised_register"]
